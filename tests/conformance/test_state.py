"""A turn's changes are saved together before the reply, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.hosts import on_every_host
from tests.support.stacks.actors import PARTS
from tests.support.stacks.base import CallFailed

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack

keepers = pytest.mark.parametrize("keeper", ["Shelf", "Keeper"])


@keepers
@on_every_host
async def test_what_is_acknowledged_is_in_the_store(stack: Stack, keeper: str) -> None:
    await stack.call(keeper, "stored", "put", {"first": {"a": [1, 2]}, "second": "two"})
    assert await stack.stored(keeper, "stored") == {"first": {"a": [1, 2]}, "second": "two"}
    await stack.call(keeper, "stored", "put", {"second": 2, "third": True})
    assert await stack.stored(keeper, "stored") == {"first": {"a": [1, 2]}, "second": 2, "third": True}
    assert await stack.call(keeper, "stored", "remove", "first") is True
    assert await stack.call(keeper, "stored", "remove", "first") is False
    assert await stack.call(keeper, "stored", "get", "first") == []
    assert await stack.stored(keeper, "stored") == {"second": 2, "third": True}


@keepers
@on_every_host
async def test_an_error_in_a_turn_keeps_nothing(stack: Stack, keeper: str) -> None:
    await stack.call(keeper, "refused", "put", {"kept": 1})
    with pytest.raises(CallFailed):
        await stack.call(keeper, "refused", "put_and_refuse", {"kept": 2, "new": 2})
    assert await stack.call(keeper, "refused", "get", "kept") == [1]
    assert await stack.call(keeper, "refused", "get", "new") == []
    await stack.call(keeper, "refused", "put", {"other": 3})
    assert await stack.stored(keeper, "refused") == {"kept": 1, "other": 3}


@on_every_host
async def test_an_unexpected_exception_in_a_turn_keeps_nothing(stack: Stack) -> None:
    await stack.call("Keeper", "broken", "put", {"kept": 1})
    with pytest.raises(CallFailed):
        await stack.call("Keeper", "broken", "put_and_break", {"kept": 2, "new": 2})
    assert await stack.call("Keeper", "broken", "get", "kept") == [1]
    await stack.call("Keeper", "broken", "put", {"other": 3})
    assert await stack.stored("Keeper", "broken") == {"kept": 1, "other": 3}


@on_every_host
async def test_a_refused_save_changes_nothing_in_memory_or_in_the_store(stack: Stack) -> None:
    await stack.call("Ledger", "refused", "write", 1)
    await stack.call("Ledger", "refused", "break_next_save", "refused")
    with pytest.raises(CallFailed) as failure:
        await stack.call("Ledger", "refused", "write", 2)
    assert failure.value.code == "UNAVAILABLE"
    assert await stack.stored("Ledger", "refused") == dict.fromkeys(PARTS, 1)
    assert await stack.call("Ledger", "refused", "read") == [1] * len(PARTS)
    assert await stack.call("Ledger", "refused", "add", 10) == 11
    assert await stack.stored("Ledger", "refused") == dict.fromkeys(PARTS, 11)


@on_every_host
async def test_a_save_whose_reply_was_lost_is_read_again(stack: Stack) -> None:
    await stack.call("Ledger", "unanswered", "write", 1)
    await stack.call("Ledger", "unanswered", "break_next_save", "unanswered")
    with pytest.raises(CallFailed) as failure:
        await stack.call("Ledger", "unanswered", "write", 2)
    assert failure.value.code == "UNAVAILABLE"
    assert await stack.stored("Ledger", "unanswered") == dict.fromkeys(PARTS, 2)
    assert await stack.call("Ledger", "unanswered", "read") == [2] * len(PARTS)
    assert await stack.call("Ledger", "unanswered", "add", 10) == 12


@on_every_host
async def test_a_first_save_that_was_refused_leaves_nothing(stack: Stack) -> None:
    await stack.call("Ledger", "refused-first", "break_next_save", "refused")
    with pytest.raises(CallFailed):
        await stack.call("Ledger", "refused-first", "write", 1)
    assert await stack.call("Ledger", "refused-first", "read") == [None] * len(PARTS)
    assert await stack.stored("Ledger", "refused-first") == {}


@on_every_host
async def test_a_failed_read_fails_the_call_and_not_the_next(stack: Stack) -> None:
    await stack.call("Ledger", "unreadable", "write", 1)
    await stack.call("Ledger", "unreadable", "break_next_save", "refused")
    with pytest.raises(CallFailed):
        await stack.call("Ledger", "unreadable", "write", 2)
    await stack.call("Ledger", "unreadable", "break_next_save", "unreadable")
    with pytest.raises(CallFailed) as failure:
        await stack.call("Ledger", "unreadable", "add", 1)
    assert failure.value.code == "UNAVAILABLE"
    assert await stack.call("Ledger", "unreadable", "add", 1) == 2
