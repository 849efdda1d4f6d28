"""Splits long work on the event loop into pieces between which other tasks run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

#: Awaited between two pieces of long work.
Pause = Callable[[], Awaitable[None]]

# Any work on this many bytes takes a few milliseconds.
_PIECE = 256 * 1024


async def let_others_run() -> None:
    """Yields to the event loop once."""
    await asyncio.sleep(0)


class Piecework:
    """Counts the bytes that were worked on: ``if work.is_due(size): await asyncio.sleep(0)``."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = 0

    def is_due(self, size: int) -> bool:
        """Counts ``size`` bytes; returns whether to let other tasks run now."""
        self._since += size
        if self._since < _PIECE:
            return False
        self._since = 0
        return True
