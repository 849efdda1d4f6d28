"""Inside a served app: it dies, as with ``kill -9``, just before or just after something is saved."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

from holdfast.runtime.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "crash"


def arm(folder: Path, actor_type: str, actor_id: str, when: str, *, holding: str = "", lacking: str = "\0") -> None:
    """The first save of this actor that has the one text in it, and not the other, ends the process; once."""
    point = {"type": actor_type, "id": actor_id, "when": when, "holding": holding, "lacking": lacking}
    unfinished = folder / f"{_FILE}.unfinished"
    unfinished.write_text(json.dumps(point))
    unfinished.rename(folder / _FILE)


def install(folder: Path) -> None:
    file = folder / _FILE
    save = UnitOfWork._save

    async def save_or_die(self: UnitOfWork, changed: dict[str, Any], *args: Any, **options: Any) -> None:
        when = _reached(file, self, changed) if changed and file.exists() else None
        if when == "before":
            _die(file)
        await save(self, changed, *args, **options)
        if when == "after":
            _die(file)

    UnitOfWork._save = save_or_die  # type: ignore[method-assign]


def _reached(file: Path, work: UnitOfWork, changed: dict[str, Any]) -> str | None:
    point = json.loads(file.read_text())
    if (work._type, work._id) != (point["type"], point["id"]):
        return None
    written = json.dumps(changed, default=repr)
    return point["when"] if point["holding"] in written and point["lacking"] not in written else None


def _die(file: Path) -> None:
    file.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
