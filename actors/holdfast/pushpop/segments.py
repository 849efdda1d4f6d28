"""The segments of a queue's lanes: with what this turn has read of them, and what it has changed.

A segment begins as a part of the metadata, which every turn writes anyway, and becomes a state value of its own when
the room there is taken. So a queue that is nearly empty is one value, however much passes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken

if TYPE_CHECKING:
    from holdfast.pushpop.steps import Steps

# What lies in the metadata, all segments together.
INLINE_BYTES = 2 * 1024


class Segments:
    def __init__(self, queue: str, inline: dict[str, list[Any]] | None = None) -> None:
        self._queue = queue
        #: Those in the metadata, and how large they are.
        self._inline = inline or {}
        self._sizes = {key: len(orjson.dumps(items)) for key, items in self._inline.items()}
        #: Whether those have changed since they were last written.
        self.inline_changed = False
        self._changed: dict[str, dict[str, list[Any]] | None] = {}
        self._read: dict[str, dict[str, list[Any]]] = {}

    def items(self, key: str) -> Steps[list[Any]]:
        """What a segment holds; it must be there."""
        items = yield from self.items_if_any(key)
        if items is None:
            raise StorageBroken(f"Queue {self._queue} is damaged: {key} is missing from the store.")
        return items

    def items_if_any(self, key: str) -> Steps[list[Any] | None]:
        if key in self._inline:
            return self._inline[key]
        value = self._changed.get(key) or self._read.get(key)
        if value is None:
            [value] = yield (key,)
            if value is None:
                return None
            self._read[key] = value
        return value["items"]

    def begin(self, key: str) -> list[Any]:
        """One that is not there yet, and has nothing in it before it is put."""
        self._inline[key], self._sizes[key] = [], 0
        return self._inline[key]

    def put(self, key: str, items: list[Any]) -> None:
        if key not in self._inline:
            self._changed[key] = {"items": items}
            return
        self._inline[key], self._sizes[key] = items, len(orjson.dumps(items))
        self.inline_changed = True
        # What has lain there for longest makes room, and is not written again before it changes. None does for one that
        # does not fit anyway.
        others = () if self._sizes[key] > INLINE_BYTES else [other for other in self._inline if other != key]
        for other in (*others, key):
            if sum(self._sizes.values()) <= INLINE_BYTES:
                break
            del self._sizes[other]
            self._changed[other] = {"items": self._inline.pop(other)}

    def delete(self, key: str) -> None:
        if key in self._inline:
            del self._inline[key], self._sizes[key]
            self.inline_changed = True
        else:
            self._changed[key] = None

    def to_json(self) -> dict[str, list[Any]]:
        """Those in the metadata."""
        self.inline_changed = False
        return self._inline

    def changes(self) -> dict[str, Any]:
        """What changed since the last call, but for what is inline. The turn is over: what was read is forgotten."""
        self._read.clear()
        changed, self._changed = self._changed, {}
        return changed
