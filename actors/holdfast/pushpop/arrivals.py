"""The last transfer that was taken from each queue, so that one sent twice is taken once.

In state values of their own, several sources in each: there may be many in time, and none is ever forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from holdfast.pushpop.steps import Steps

VALUES = 16


class Arrivals:
    def __init__(self) -> None:
        self._changed: dict[str, dict[str, int]] = {}

    def is_new(self, source: str, number: int) -> Steps[bool]:
        return number > (yield from self._load(arrivals_key(source))).get(source, -1)

    def remember(self, source: str, number: int) -> Steps[None]:
        key = arrivals_key(source)
        self._changed[key] = (yield from self._load(key)) | {source: number}

    def changes(self) -> dict[str, dict[str, int]]:
        changed, self._changed = self._changed, {}
        return changed

    def _load(self, key: str) -> Steps[dict[str, int]]:
        if key in self._changed:
            return self._changed[key]
        [value] = yield (key,)
        return value or {}


def arrivals_key(source: str) -> str:
    return f"arrivals-{crc32(source.encode()) % VALUES}"
