"""The last transfer accepted from each queue, so that a transfer that is sent twice is accepted once.

Stored in a fixed number of state values, as there may be many sources, and none is ever forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from holdfast.runtime.reads import Reads

VALUES = 16


class ReceivedTransfers:
    def __init__(self) -> None:
        self._changed: dict[str, dict[str, int] | None] = {}

    def is_new(self, source: str, number: int) -> Reads[bool]:
        return number > (yield from self._load(received_key(source))).get(source, -1)

    def remember(self, source: str, number: int) -> Reads[None]:
        key = received_key(source)
        self._changed[key] = (yield from self._load(key)) | {source: number}

    def erase(self) -> None:
        """Forgets all sources, some of which may send their last transfer once more."""
        self._changed = {_key(number): None for number in range(VALUES)}

    def changes(self) -> dict[str, dict[str, int] | None]:
        changed, self._changed = self._changed, {}
        return changed

    def _load(self, key: str) -> Reads[dict[str, int]]:
        if key in self._changed:
            return self._changed[key] or {}
        [value] = yield (key,)
        return value or {}


def received_key(source: str) -> str:
    return _key(crc32(source.encode()) % VALUES)


def _key(number: int) -> str:
    return f"received-{number}"
