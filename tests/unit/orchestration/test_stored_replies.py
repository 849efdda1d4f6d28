"""Stored answers to requests: in pages, each written with its page, the last ones kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic_core import from_json, to_json

from holdfast.errors import StorageBroken
from holdfast.orchestration.core.requests import MAX_REPLIES
from holdfast.orchestration.storage.replies import PAGE_BYTES, StoredAnswer, StoredReplies, stored_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.runtime.reads import Reads

TEXT = "x" * (PAGE_BYTES // 10)


class Store:
    """One instance's state values, and the answers that are read from them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.replies = StoredReplies(7)
        #: The keys that the last turn wrote.
        self.written: list[str] = []

    def add(self, numbers: Iterable[int], text: str = TEXT) -> None:
        """One turn."""
        for number in numbers:
            self.replies.add(f"r{number}", StoredAnswer(f'"{number} {text}"'))
        dropped = self.replies.take_dropped()
        self.written = list(changes := self.replies.changes())
        self.values |= {key: from_json(to_json(value)) for key, value in changes.items()}
        for prefix, first, end in dropped:
            for number in range(first, end):
                del self.values[f"{prefix}{number}"]

    def restore(self) -> None:
        self.replies = StoredReplies.restore(7, {"tail": [], **from_json(to_json(self.replies.head()))})

    def read(self, number: int) -> tuple[str | None, int]:
        """The beginning of a reply, and how many values were read for it."""
        steps: Reads[StoredAnswer | None] = self.replies.read(f"r{number}")
        count, values = 0, None
        try:
            while True:
                keys = steps.send(values) if values is not None else next(steps)
                count += len(keys)
                values = [self.values.get(key) for key in keys]
        except StopIteration as ended:
            found = None if ended.value is None else from_json(ended.value.reply).partition(" ")[0]
            return found, count


def test_a_full_page_is_not_written_again() -> None:
    store = Store()
    store.add(range(15))
    assert store.written == ["replies-7-0", "reply-ids-0", "replies-7-1"]
    store.add(range(15, 17))
    assert store.written == ["replies-7-1", "reply-ids-0"]
    assert all(len(to_json(value)) <= PAGE_BYTES for value in store.values.values())
    assert sorted(store.values) == sorted(stored_keys(7, {"tail": [], **store.replies.head()}))
    for number in range(17):
        assert store.read(number) == (str(number), 1)


def test_a_reply_is_found_after_a_restore_with_few_reads() -> None:
    store = Store()
    for turn in range(100):
        store.add(range(5 * turn, 5 * turn + 5))
    store.restore()
    assert store.read(3) == ("3", len(store.replies.index_keys()) + 1)
    for number in range(500):
        assert store.read(number) == (str(number), 1)
    assert store.read(500) == (None, 0)
    assert "r499" in store.replies
    assert "r500" not in store.replies


def test_the_last_replies_are_kept_over_restores_and_no_more() -> None:
    store = Store()
    for first in range(0, 3 * MAX_REPLIES, 40):
        store.add(range(first, first + 40), text="")
        if first % 200 == 0:
            store.restore()
            store.read(0)
    last = 3 * MAX_REPLIES - 1
    for restored in (False, True):
        if restored:
            store.restore()
        assert store.read(last - MAX_REPLIES)[0] is None
        for number in range(last - MAX_REPLIES + 1, last + 1):
            assert store.read(number)[0] == str(number)
    pages = [key for key in store.values if key.startswith("replies-")]
    assert len(pages) + 5 == len(store.values) == len(stored_keys(7, {"tail": [], **store.replies.head()}))
    assert len(pages) < 30


def test_large_replies_have_pages_of_their_own() -> None:
    store = Store()
    store.add(range(3), text="x" * 2 * PAGE_BYTES)
    assert len([key for key in store.values if key.startswith("replies-")]) == 3
    assert [store.read(number)[0] for number in range(3)] == ["0", "1", "2"]


def test_an_id_that_is_used_again_after_it_was_forgotten_has_its_later_reply() -> None:
    store = Store()
    store.add(range(MAX_REPLIES + 1), text="first")
    assert store.read(0)[0] is None
    store.add([0], text="second")
    store.restore()
    assert store.read(0)[0] == "0"


def test_answers_of_events_in_the_head_are_moved_to_pages() -> None:
    store = Store()
    event = {"type": "RequestAnswered", "request_id": "a", "rejected": "no", "error_code": "INVALID_REQUEST"}
    store.replies.note(event)
    store.replies.note({"type": "TimerFired"})
    assert store.replies.changes() == {}
    assert "a" in store.replies
    assert store.replies.settle() > 0
    assert list(store.replies.changes()) == ["replies-7-0", "reply-ids-0"]
    assert "a" in store.replies
    restored = StoredReplies.restore(7, {"tail": [event | {"request_id": "b"}]})
    assert "b" in restored
    assert "a" not in restored


@pytest.mark.parametrize("missing", ["replies-7-0", "reply-ids-0"])
def test_a_value_that_is_missing_from_the_store_is_named(missing: str) -> None:
    store = Store()
    store.add(range(3))
    store.restore()
    del store.values[missing]
    with pytest.raises(StorageBroken, match=missing):
        store.read(0)
