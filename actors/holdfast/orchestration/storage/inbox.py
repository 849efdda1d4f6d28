"""The inbox of a BLOCKED instance: accepted messages, in order, that its code has not processed yet.

The history contains only messages that the code has processed, so messages that arrive while the instance is BLOCKED
are stored here. The messages of one turn are one state value, or several when there are many. No I/O: methods that
need stored values yield their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken
from holdfast.orchestration.core.messages import load_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.orchestration.core.messages import Message
    from holdfast.runtime.reads import Reads

# The limits of one state value.
CHUNK_MESSAGES = 50
CHUNK_BYTES = 64 * 1024
# State values that are read together: many turns may have stored one value each.
_VALUES_AT_ONCE = 16


class Inbox:
    """The messages in numbered state values, oldest first, and the values to be deleted."""

    def __init__(self, first: int = 0, following: int = 0, garbage: Iterable[tuple[int, int]] = ()) -> None:
        self._first = first
        self._following = following
        #: Ranges of values to be deleted.
        self._garbage = list(garbage)
        #: The last value, during the turn that fills it.
        self._open: list[dict[str, Any]] = []
        self._open_size = 0
        #: The values that :meth:`first` returned last.
        self._given: list[list[dict[str, Any]]] = []
        self._changed: dict[str, Any] = {}

    @classmethod
    def restore(cls, head: list[Any]) -> Inbox:
        first, following, garbage = head
        return cls(first, following, map(tuple, garbage))

    def dump(self) -> list[Any]:
        """Returns the fields for the head. Call it after :meth:`changes`."""
        return [self._first, self._following, self._garbage]

    @property
    def empty(self) -> bool:
        return self._first == self._following and not self._open

    @property
    def in_store(self) -> bool:
        """Whether the inbox has state values, now or when this turn is saved."""
        return bool(self._first < self._following or self._open or self._garbage)

    @property
    def has_deferred_deletes(self) -> bool:
        return bool(self._garbage)

    def add(self, message: Message) -> int:
        """Adds a message behind all others. Returns its size in bytes."""
        dumped = message.dump()
        size = len(orjson.dumps(dumped))
        if self._open and (len(self._open) >= CHUNK_MESSAGES or self._open_size + size > CHUNK_BYTES):
            self._close()
        self._open.append(dumped)
        self._open_size += size
        return size

    def first(self) -> Reads[list[Message]]:
        """Reads a bounded number of messages to be delivered next. They stay until :meth:`taken`."""
        if self._first == self._following:
            return list(map(load_message, self._open))
        end = min(self._following, self._first + _VALUES_AT_ONCE)
        self._given = yield from self._read(range(self._first, end))
        return [load_message(message) for chunk in self._given for message in chunk]

    def taken(self, count: int) -> None:
        """Removes the first ``count`` of the messages that :meth:`first` returned: they have been delivered."""
        if self._first == self._following:
            self._open = self._open[count:]
            return
        for chunk in self._given:
            if not count:
                return
            left = chunk[count:]
            self._changed[_key(self._first)] = left or None
            count -= len(chunk) - len(left)
            if not left:
                self._first += 1

    def all(self) -> Reads[list[Message]]:
        chunks = yield from self._read(range(self._first, self._following))
        return [load_message(message) for chunk in (*chunks, self._open) for message in chunk]

    def drop(self) -> None:
        """Drops all messages; their state values are deleted later."""
        self._open, self._open_size = [], 0
        if self._first < self._following:
            self._garbage.append((self._first, self._following))
            # Numbers are not reused before the old values are deleted.
            self._first = self._following

    def sweep(self, most: int) -> None:
        """Deletes up to ``most`` dropped values."""
        while self._garbage and most > 0:
            first, following = self._garbage.pop()
            split = max(first, following - most)
            self._changed |= {_key(number): None for number in range(split, following)}
            most -= following - split
            if first < split:
                self._garbage.append((first, split))

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes a value."""
        if self._open:
            self._close()
        changed, self._changed = self._changed, {}
        return changed

    @property
    def changed(self) -> bool:
        return bool(self._open or self._changed)

    def _close(self) -> None:
        self._changed[_key(self._following)] = self._open
        self._following += 1
        self._open, self._open_size = [], 0

    def _read(self, numbers: Iterable[int]) -> Reads[list[list[dict[str, Any]]]]:
        keys = list(map(_key, numbers))
        unchanged = tuple(key for key in keys if key not in self._changed)
        known = self._changed | dict(zip(unchanged, (yield unchanged), strict=True))
        for key in keys:
            if known[key] is None:
                raise StorageBroken(f"The inbox is damaged: {key} is missing from the store.")
        return [known[key] for key in keys]


def _key(number: int) -> str:
    return f"inbox-{number}"
