"""What can be said against a snapshot before Spark is started, which takes many times as long."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from holdfast.errors import SettingsError
from holdfast.spark.archive import LATEST, named_one
from holdfast.spark.stores import opened

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.spark.options import Options


def check(options: Options, to: Path, against: str | None) -> None:
    """Raises what taking it would: the database cannot be read, ``against`` is no snapshot, ``to`` cannot be written.

    Makes the folder ``to``, last: only to try shows that it can be made.
    """
    with opened(options):
        pass
    if against is not None and against != LATEST:
        named_one(to.resolve(), against)
    try:
        to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=to):
            pass
    except OSError as error:
        raise SettingsError(f"Nothing can be written to {to}: {error.strerror}.") from error
