"""The last transfer accepted from each queue, so that a transfer that is sent twice is accepted once.

Stored in a fixed number of state values, as there may be many sources. None is ever forgotten, not even by the deletion
of the queue: a source whose last transfer arrived before the deletion, and whose reply was lost, sends it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from holdfast.runtime.reads import Reads

VALUES = 16


class ReceivedTransfers:
    def __init__(self) -> None:
        self._changed: dict[str, dict[str, int]] = {}

    def is_new(self, source: str, number: int) -> Reads[bool]:
        return number > (yield from self._load(received_key(source))).get(source, -1)

    def remember(self, source: str, number: int) -> Reads[None]:
        key = received_key(source)
        self._changed[key] = (yield from self._load(key)) | {source: number}

    def changes(self) -> dict[str, dict[str, int]]:
        changed, self._changed = self._changed, {}
        return changed

    def _load(self, key: str) -> Reads[dict[str, int]]:
        if key in self._changed:
            return self._changed[key]
        [value] = yield (key,)
        return value or {}


def received_key(source: str) -> str:
    return f"received-{crc32(source.encode()) % VALUES}"
