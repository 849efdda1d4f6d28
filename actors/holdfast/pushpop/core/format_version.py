"""The version of the format of a queue's state, stored in its metadata."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StorageBroken

FORMAT = 6


def refuse_other_format(what: str, metadata: dict[str, Any]) -> None:
    """Raises StorageBroken unless the state has the format of this version."""
    found = metadata.get("_format")
    if type(found) is int and found == FORMAT:
        return
    if type(found) is not int:
        problem = "its state has no format version"
    else:
        problem = (
            f"its state has format {found}, of {'a later' if found > FORMAT else 'an earlier'} version of Holdfast"
        )
    raise StorageBroken(f"{what} cannot be read: {problem}. This version reads format {FORMAT}.")
