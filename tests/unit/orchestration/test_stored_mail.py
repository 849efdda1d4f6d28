"""Unread mail as it is stored: in chunks, each mail once, as long as a kept execution refers to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic_core import from_json, to_json

from holdfast.errors import StorageBroken, TooLarge
from holdfast.orchestration.core.mailboxes import Mail
from holdfast.orchestration.storage.mail import CHUNK_BYTES, StoredMail, stored_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.runtime.reads import Reads

TEXT = "x" * (CHUNK_BYTES // 10)


class Store:
    """One instance's state values, and the mail that is read from them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.mail = StoredMail(7)

    def save(self) -> list[str]:
        """Ends a turn. Answers the keys it wrote or deleted."""
        changes = self.mail.changes()
        for key, value in changes.items():
            if value is None:
                del self.values[key]
            else:
                self.values[key] = from_json(to_json(value))
        return list(changes)

    def restore(self) -> None:
        head = self.mail.head()
        self.mail = StoredMail.restore(7, None if head is None else from_json(to_json(head)))

    def read(self, last: int, received: Mapping[str, int]) -> list[int]:
        found: list[dict[str, Any]] = self.drive(self.mail.read({"last": last, "received": received}))
        return [mail["number"] for mail in found]

    def drive(self, steps: Reads[Any]) -> Any:
        values: list[Any] | None = None
        try:
            while True:
                keys = steps.send(values) if values is not None else next(steps)
                values = [self.values.get(key) for key in keys]
        except StopIteration as ended:
            return ended.value


def letters(first: int, last: int, mailbox: str = "a") -> list[Mail]:
    return [Mail(number, mailbox, TEXT) for number in range(first, last + 1)]


def test_each_mail_is_in_one_chunk_and_closed_chunks_are_not_written_again() -> None:
    store = Store()
    store.mail.begin(1, None)
    store.mail.keep(letters(1, 25), [1])
    assert store.save() == ["mail-7-0-0", "mail-7-0-1", "mail-7-0-2"]
    store.mail.keep(letters(20, 26), [1])
    assert store.save() == ["mail-7-0-2"]
    assert all(len(to_json(chunk)) <= CHUNK_BYTES for chunk in store.values.values())
    assert store.read(26, {}) == list(range(1, 27))
    assert store.read(25, {"a": 11}) == list(range(12, 26))
    assert stored_keys(7, store.mail.head()) == list(store.values)


def test_a_chunk_that_no_kept_execution_refers_to_is_deleted_by_a_later_turn() -> None:
    store = Store()
    store.mail.begin(1, None)
    store.mail.keep([*letters(1, 25), *letters(26, 30, "b")], [1])
    store.save()
    store.mail.begin(2, {"last": 30, "received": {"a": 20}})
    store.mail.keep([], [1, 2])
    assert store.save() == []
    store.mail.keep([], [2])
    # More may happen in the same turn.
    store.mail.delete_dropped()
    assert store.save() == []
    assert store.read(30, {"a": 20}) == list(range(21, 31))
    store.restore()
    store.mail.delete_dropped()
    assert store.save() == ["mail-7-0-0", "mail-7-0-1"]
    assert store.read(30, {"a": 20}) == list(range(21, 31))
    # A mailbox that is never read does not keep the mail of another.
    store.mail.begin(3, {"last": 30, "received": {"a": 25}})
    store.mail.keep([], [3])
    store.save()
    store.mail.delete_dropped()
    store.save()
    assert list(store.values) == ["mail-7-1-0"]


def test_a_chunk_that_was_read_is_filled_up() -> None:
    store = Store()
    store.mail.begin(1, None)
    store.mail.keep(letters(1, 3), [1])
    store.save()
    store.restore()
    store.read(3, {})
    store.mail.keep(letters(4, 5), [1])
    assert store.save() == ["mail-7-0-0"]
    assert store.read(5, {}) == [1, 2, 3, 4, 5]


def test_mail_that_is_missing_from_the_store_is_said() -> None:
    store = Store()
    store.mail.begin(1, None)
    store.mail.keep(letters(1, 25), [1])
    store.save()
    del store.values["mail-7-0-1"]
    with pytest.raises(StorageBroken, match="mail-7-0-1"):
        store.read(25, {})


def test_mail_that_is_more_than_may_be_answered_is_not_read_to_its_end() -> None:
    store = Store()
    store.mail.begin(1, None)
    store.mail.keep(letters(1, 95), [1])
    store.save()
    mark = {"last": 95, "received": {}}
    assert len(store.drive(store.mail.read(mark, most=11 * CHUNK_BYTES))) == 95
    # Of ten chunks, the others are not asked for.
    for number in range(3, 10):
        del store.values[f"mail-7-0-{number}"]
    with pytest.raises(TooLarge, match="too large for one reply"):
        store.drive(store.mail.read(mark, most=2 * CHUNK_BYTES))
