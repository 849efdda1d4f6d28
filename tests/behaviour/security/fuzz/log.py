"""The log of a server while it is fuzzed."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.gateway.metrics import event_loop
from holdfast.runtime.in_process import timers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HELD = re.compile(r"held for (\d+) ms, (\d+) ms of it by garbage collection")


@dataclass(frozen=True)
class Line:
    """A line that tells of a fault, or of an event loop that was held."""

    at: float
    text: str
    #: How long the event loop was held, in seconds; and how much of that to look for garbage.
    held: float = 0.0
    collecting: float = 0.0


class LogReader:
    """Reads what was added to a log in JSON lines since it was read last, or since this was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = path.stat().st_size
        #: How many warnings there were, by logger and by how they begin.
        self.warnings: Counter[str] = Counter()

    def read(self) -> Iterator[Line]:
        """The lines that no request may cause. Timers may: they call methods that there are not, and have no caller."""
        with self._path.open("rb") as log:
            log.seek(self._place)
            whole = log.read().rpartition(b"\n")[0]
        if not whole:
            return
        self._place += len(whole) + 1
        for text in whole.decode(errors="replace").split("\n"):
            if (line := self._judge(text)) is not None:
                yield line

    def _judge(self, text: str) -> Line | None:
        try:
            entry = json.loads(text)
            at = datetime.fromisoformat(entry["time"]).timestamp()
        except (ValueError, KeyError, TypeError):
            return Line(0.0, f"not a line of the log: {text}")
        if entry["logger"] == event_loop.__name__:
            held, collecting = (float(number) / 1000 for number in _HELD.findall(entry["message"])[0])
            return Line(at, entry["message"], held, collecting)
        if entry["level"] in ("error", "critical") and entry["logger"] != timers.__name__:
            return Line(at, text)
        if entry["level"] == "warning":
            self.warnings[f"{entry['logger']}: {entry['message'][:60]}"] += 1
        return None
