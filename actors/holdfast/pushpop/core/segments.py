"""The segments of a queue's lanes: the entries that this turn has read, and those it has changed.

A segment starts as a part of the metadata, which every turn writes anyway, and moves to its own state value when it
does not fit there any more. So a queue that is nearly empty is one value, however much passes through it. Segments move
at the end of a turn: call :meth:`Segments.changes` before the metadata is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken
from holdfast.pushpop.core.segment_codec import decode, encode

if TYPE_CHECKING:
    from holdfast.pushpop.core.segment_codec import Entry
    from holdfast.runtime.reads import Reads

# The limit of all segments in the metadata together.
INLINE_BYTES = 2 * 1024


class Segments:
    def __init__(self, queue: str, inline: dict[str, dict[str, Any]] | None = None) -> None:
        self._queue = queue
        #: The segments in the metadata, encoded, and their sizes.
        self._inline = inline or {}
        self._sizes = {key: _size(value) for key, value in self._inline.items()}
        #: Whether the segments in the metadata have changed since they were last written.
        self.inline_changed = False
        #: The entries that this turn has read or created, and the keys to write.
        self._entries: dict[str, list[Entry]] = {}
        self._begun: set[str] = set()
        self._put: dict[str, None] = {}
        self._deleted: set[str] = set()

    def items(self, key: str) -> Reads[list[Any]]:
        """Returns the entries of a segment. Raises StorageBroken if it is missing."""
        items = yield from self.items_if_any(key)
        if items is None:
            raise StorageBroken(f"Queue {self._queue} is damaged: {key} is missing from the store.")
        return items

    def items_if_any(self, key: str) -> Reads[list[Any] | None]:
        if key not in self._entries:
            value = self._inline.get(key)
            if value is None:
                [value] = yield (key,)
                if value is None:
                    return None
            try:
                self._entries[key] = decode(value)
            except (StorageBroken, LookupError, ValueError, TypeError, AttributeError) as error:
                raise StorageBroken(f"Queue {self._queue} is damaged: {key} cannot be decoded.") from error
        return self._entries[key]

    def begin(self, key: str) -> list[Any]:
        """Returns the empty list of entries of a new segment."""
        self._begun.add(key)
        self._entries[key] = []
        return self._entries[key]

    def put(self, key: str) -> None:
        """Marks a segment as changed."""
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
        """Returns the segments in the metadata."""
        self.inline_changed = False
        return self._inline

    def changes(self) -> dict[str, Any]:
        """Returns the changed values except the metadata, and clears the entries read in this turn."""
        changed: dict[str, Any] = dict.fromkeys(self._deleted)
        for key in self._put:
            value = encode(self._entries[key])
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
        """Moves segments out of the metadata; returns them."""
        left: dict[str, Any] = {}
        # First segments that do not fit anyway, then those that did not change in this turn: they are less likely to
        # be written again soon.
        for key in sorted(self._inline, key=lambda key: (self._sizes[key] <= INLINE_BYTES, key in self._put)):
            if sum(self._sizes.values()) <= INLINE_BYTES:
                break
            del self._sizes[key]
            left[key] = self._inline.pop(key)
            self.inline_changed = True
        return left


def _size(value: dict[str, Any]) -> int:
    # If the text alone is too large, the value need not be encoded to be measured.
    least = len(value["lines"])
    return least if least > INLINE_BYTES else len(orjson.dumps(value))
