"""Finds errors of a snapshot command before Spark is started, which takes much longer."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from holdfast.errors import SettingsError
from holdfast.spark.pipeline.series import LATEST, named_one
from holdfast.spark.stores.open import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.spark.source.options import Options


def check(options: Options, to: Path, against: str | None) -> None:
    """Raises if the database cannot be read, ``against`` is not a snapshot, or ``to`` cannot be written.

    Makes the folder ``to`` as the last step, since only an attempt shows whether that is possible.
    """
    with open_store(options):
        pass
    if against is not None and against != LATEST:
        named_one(to.resolve(), against)
    try:
        to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=to):
            pass
    except OSError as error:
        raise SettingsError(f"Cannot write to {to}: {error.strerror}.") from error
