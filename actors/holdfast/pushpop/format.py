"""The format a queue's state is in, which its metadata says."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StorageBroken

FORMAT = 2


def refuse_other_format(what: str, metadata: dict[str, Any]) -> None:
    """Raises StorageBroken, in a sentence, unless the state is as this version writes it."""
    found = metadata.get("_format")
    if type(found) is int and found == FORMAT:
        return
    if type(found) is not int:
        told = "its state does not say in which format it is"
    else:
        told = f"its state has format {found}, of {'a later' if found > FORMAT else 'an earlier'} version of Holdfast"
    raise StorageBroken(f"{what} cannot be read: {told}. This version reads format {FORMAT}.")
