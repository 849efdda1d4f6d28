"""The stored answers to requests: the last ones, found by the ids of their requests.

An answer is in the head as long as the event that records it is there. When the event moves into a history segment, its
answer is added to the last page of answers, and an index of digests gets its number, so that neither a turn nor a
lookup handles more than a page. No I/O: methods that need stored values yield their keys.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken
from holdfast.orchestration.core.event_ids import digest
from holdfast.orchestration.core.history import RequestAnswered
from holdfast.orchestration.core.requests import MAX_REPLIES

if TYPE_CHECKING:
    from holdfast.runtime.reads import Reads

PAGE_BYTES = 8 * 1024
# Digests in one value of the index, and the number of values: one more than needed, because one is being filled.
_IN_VALUE = 250
_VALUES = MAX_REPLIES // _IN_VALUE + 1
_RECORDED_AS = RequestAnswered.__name__


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to a request: a reply as JSON text, or the reason of a rejection and an error code, if it has one."""

    reply: str | None = None
    rejected: str | None = None
    error_code: str | None = None

    def dump(self) -> list[Any]:
        return [self.reply] if self.rejected is None else [None, self.rejected, self.error_code]


class StoredReplies:
    """The answers that one instance has given."""

    def __init__(self, generation: int = 0) -> None:
        self._generation = generation
        #: The answers of the events in the head.
        self._latest: dict[str, StoredAnswer] = {}
        #: How many answers were added to pages so far.
        self._count = 0
        #: The number of the first page, the number of the first answer in it, and for each page the number after its
        #: last answer.
        self._first = 0
        self._begin = 0
        self._ends: list[int] = []
        #: The last page, while it has room; not known after a restore, when the next answer begins a new page.
        self._open: list[list[Any]] | None = None
        self._open_size = 0
        #: The numbers of the answers by the digests of their ids; None until they are read.
        self._numbers: dict[str, int] | None = {}
        #: The value of the index that is being filled.
        self._filling: list[str] = []
        self._changed: dict[str, Any] = {}

    def __contains__(self, request_id: object) -> bool:
        """Returns whether there is an answer to a request. :meth:`load` must have been called before."""
        return isinstance(request_id, str) and (request_id in self._latest or self._number(request_id) is not None)

    # Changes

    def note(self, event: dict[str, Any]) -> None:
        """Takes the answer of an event that is added to the head, if it has one."""
        if event["type"] == _RECORDED_AS:
            answer = StoredAnswer(event.get("reply"), event.get("rejected"), event.get("error_code"))
            self._latest[event["request_id"]] = answer

    def settle(self) -> int:
        """Moves the answers of the head to the pages, with their events. Returns their size.

        :meth:`load` must have been called before.
        """
        latest, self._latest = self._latest, {}
        return sum(self.add(request_id, answer) for request_id, answer in latest.items())

    def add(self, request_id: str, answer: StoredAnswer) -> int:
        """Adds an answer to the last page. Returns its size. :meth:`load` must have been called before."""
        assert self._numbers is not None
        entry = answer.dump()
        size = len(orjson.dumps(entry)) + 1
        if self._open is None or self._open_size + size > PAGE_BYTES:
            self._open, self._open_size = [], 0
            self._ends.append(self._count)
        self._open.append(entry)
        self._open_size += size
        self._ends[-1] += 1
        self._changed[self._page_key(self._first + len(self._ends) - 1)] = self._open
        if self._count % _IN_VALUE == 0:
            self._filling = []
            self._numbers = {known: number for known, number in self._numbers.items() if self._is_kept(number)}
        known = digest(request_id)
        self._filling.append(known)
        self._changed[_index_key(self._count)] = self._filling
        self._numbers[known] = self._count
        self._count += 1
        return size

    def take_dropped(self) -> list[tuple[str, int, int]]:
        """Forgets the pages before the last answers. Returns the prefix of their keys, the first and the one after."""
        dropped = bisect_right(self._ends, self._count - MAX_REPLIES)
        if not dropped:
            return []
        first, self._first = self._first, self._first + dropped
        self._begin = self._ends[dropped - 1]
        del self._ends[:dropped]
        return [(self._prefix, first, self._first)]

    @property
    def changed(self) -> bool:
        return bool(self._changed)

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def garbage(self) -> list[tuple[str, int, int]]:
        """Returns all pages, for deletion: the prefix of their keys, the first number and the one after the last."""
        return [(self._prefix, self._first, self._first + len(self._ends))] if self._ends else []

    def index_keys(self) -> list[str]:
        """Returns the keys of the values of the index."""
        return [_index_key(_IN_VALUE * number) for number in range(min(_VALUES, -(-self._count // _IN_VALUE)))]

    # Reading

    def load(self) -> Reads[None]:
        """Reads the index, unless it is known."""
        if self._numbers is not None:
            return
        newest = (self._count - 1) // _IN_VALUE
        values = range(max(0, newest - _VALUES + 1), newest + 1)
        keys = tuple(_index_key(_IN_VALUE * value) for value in values)
        numbers: dict[str, int] = {}
        for value, key, digests in zip(values, keys, (yield keys), strict=True):
            if digests is None:
                raise _damaged(key)
            numbers |= {known: number for number, known in enumerate(digests, _IN_VALUE * value)}
            self._filling = list(digests)
        self._numbers = numbers

    def read(self, request_id: str) -> Reads[StoredAnswer | None]:
        """Reads the answer to a request; None when there is none, or when it was forgotten."""
        if request_id in self._latest:
            return self._latest[request_id]
        yield from self.load()
        number = self._number(request_id)
        if number is None:
            return None
        place = bisect_right(self._ends, number)
        key = self._page_key(self._first + place)
        page = self._changed[key] if key in self._changed else (yield (key,))[0]
        if page is None:
            raise _damaged(key)
        return StoredAnswer(*page[number - (self._ends[place - 1] if place else self._begin)])

    # Stored form

    def head(self) -> dict[str, Any]:
        """Returns the fields for the head of the instance: none while there are no pages."""
        return {"replies": [self._count, self._first, self._begin, self._ends]} if self._count else {}

    @classmethod
    def restore(cls, generation: int, head: dict[str, Any]) -> StoredReplies:
        """Returns the answers of an instance, given its head."""
        stored = cls(generation)
        if "replies" in head:
            stored._count, stored._first, stored._begin, stored._ends = head["replies"]
            stored._numbers = None
        for event in head["tail"]:
            stored.note(event)
        return stored

    # Internals

    def _number(self, request_id: str) -> int | None:
        assert self._numbers is not None
        number = self._numbers.get(digest(request_id))
        return number if number is not None and self._is_kept(number) else None

    def _is_kept(self, number: int) -> bool:
        return number >= max(self._begin, self._count - MAX_REPLIES)

    @property
    def _prefix(self) -> str:
        return f"replies-{self._generation}-"

    def _page_key(self, number: int) -> str:
        return f"{self._prefix}{number}"


def stored_keys(generation: int, head: dict[str, Any]) -> list[str]:
    """Returns the keys of the state values that contain answers and their index, given the head of an instance."""
    replies = StoredReplies.restore(generation, head)
    pages = [f"{prefix}{number}" for prefix, first, end in replies.garbage() for number in range(first, end)]
    return [*pages, *replies.index_keys()]


def _index_key(number: int) -> str:
    return f"reply-ids-{number // _IN_VALUE % _VALUES}"


def _damaged(key: str) -> StorageBroken:
    return StorageBroken(f"The replies of this instance are damaged: {key} is missing from the store.")
