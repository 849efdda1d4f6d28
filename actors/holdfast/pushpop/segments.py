"""The segments of a queue's lanes: with what this turn has read of them, and what it has changed.

A segment begins as a part of the metadata, which every turn writes anyway, and becomes a state value of its own when
the room there is taken. So a queue that is nearly empty is one value, however much passes through it. Which ones lie
there is decided when a turn is over: :meth:`Segments.changes` comes before what is written of the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken
from holdfast.pushpop.lines import packed, unpacked

if TYPE_CHECKING:
    from holdfast.pushpop.lines import Entry
    from holdfast.pushpop.steps import Steps

# What lies in the metadata, all segments together.
INLINE_BYTES = 2 * 1024


class Segments:
    def __init__(self, queue: str, inline: dict[str, dict[str, Any]] | None = None) -> None:
        self._queue = queue
        #: Those in the metadata as they are written, and how large they are.
        self._inline = inline or {}
        self._sizes = {key: _size(value) for key, value in self._inline.items()}
        #: Whether those have changed since they were last written.
        self.inline_changed = False
        #: What this turn has read or begun, and which of that is to be written.
        self._entries: dict[str, list[Entry]] = {}
        self._begun: set[str] = set()
        self._put: dict[str, None] = {}
        self._deleted: set[str] = set()

    def items(self, key: str) -> Steps[list[Any]]:
        """What a segment holds; it must be there."""
        items = yield from self.items_if_any(key)
        if items is None:
            raise StorageBroken(f"Queue {self._queue} is damaged: {key} is missing from the store.")
        return items

    def items_if_any(self, key: str) -> Steps[list[Any] | None]:
        if key not in self._entries:
            value = self._inline.get(key)
            if value is None:
                [value] = yield (key,)
                if value is None:
                    return None
            try:
                self._entries[key] = unpacked(value)
            except (StorageBroken, LookupError, ValueError, TypeError, AttributeError) as error:
                raise StorageBroken(f"Queue {self._queue} is damaged: {key} is not as it was written.") from error
        return self._entries[key]

    def begin(self, key: str) -> list[Any]:
        """One that is not there yet, and has nothing in it before it is put."""
        self._begun.add(key)
        self._entries[key] = []
        return self._entries[key]

    def put(self, key: str) -> None:
        """What was read of it, or begun, has changed."""
        self._put[key] = None

    def delete(self, key: str) -> None:
        self._put.pop(key, None)
        if key in self._begun:
            self._begun.remove(key)
        elif key in self._inline:
            del self._inline[key], self._sizes[key]
            self.inline_changed = True
        else:
            self._deleted.add(key)

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Those in the metadata."""
        self.inline_changed = False
        return self._inline

    def changes(self) -> dict[str, Any]:
        """What changed since the last call, but for what is inline. The turn is over: what was read is forgotten."""
        changed: dict[str, Any] = dict.fromkeys(self._deleted)
        for key in self._put:
            value = packed(self._entries[key])
            if key in self._begun or key in self._inline:
                self._inline[key], self._sizes[key] = value, _size(value)
                self.inline_changed = True
            else:
                changed[key] = value
        changed |= self._make_room()
        self._entries.clear()
        self._begun.clear()
        self._put.clear()
        self._deleted.clear()
        return changed

    def _make_room(self) -> dict[str, Any]:
        """What has to leave the metadata."""
        left: dict[str, Any] = {}
        # First what does not fit anyway; then what has lain there for longest, which is not written again before it
        # changes.
        for key in sorted(self._inline, key=lambda key: (self._sizes[key] <= INLINE_BYTES, key in self._put)):
            if sum(self._sizes.values()) <= INLINE_BYTES:
                break
            del self._sizes[key]
            left[key] = self._inline.pop(key)
            self.inline_changed = True
        return left


def _size(value: dict[str, Any]) -> int:
    return len(orjson.dumps(value))
