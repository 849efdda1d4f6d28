"""Every allowed id works; a hostile one is refused before anything is stored under it."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import pytest

from tests.conformance.hosts import on_every_host
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack

ALLOWED = [
    string.ascii_lowercase,
    string.ascii_uppercase,
    string.digits,
    "-_.:@",
    "-",
    "a..b",
    "a.",
    ":",
    "@0",
    "tenant@queue@7",
    ".hidden",
    "a;b",
    "a'b",
    "~,;=$*()",
    "x" * 255,
]
#: Too long for the name of a reminder in Dapr's scheduler, which has 512 characters with the actor's type and id.
LONGEST = "x" * 1000
HOSTILE = [
    "a||b",
    "||",
    "a|b",
    "..",
    ".",
    "a/b",
    "../etc",
    "a\\b",
    "%2e%2e",
    "a%2fb",
    "a b",
    "a\tb",
    "a\nb",
    "a\x00b",
    "a\x7fb",
    "a?b",
    "a#b",
    'a"b',
    "a<b>",
    "\uff41",
    "\u0430",
    "a\u200bb",
    "a\u202eb",
    "é",
    "x" * 1001,
]

actors = pytest.mark.parametrize(("actor", "method", "data"), [("Keeper", "put", {"a": 1}), ("Counter", "Add", 1)])


@pytest.mark.parametrize("actor_id", [*ALLOWED, LONGEST])
@on_every_host
async def test_an_allowed_id(stack: Stack, actor_id: str) -> None:
    await stack.call("Keeper", actor_id, "put", {"id": actor_id})
    assert await stack.call("Keeper", actor_id, "get", "id") == [actor_id]
    assert await stack.stored("Keeper", actor_id) == {"id": actor_id}
    await stack.call("Counter", actor_id, "Add", 1)
    relay = {"type": "Counter", "id": actor_id, "method": "Add", "data": 1}
    assert await stack.call("Caller", actor_id, "relay", relay) == 2


@on_every_host
async def test_reminders_of_an_allowed_id(stack: Stack) -> None:
    async def all_fired() -> bool:
        return all([await stack.call("Reminded", actor_id, "fired") for actor_id in ALLOWED])

    for actor_id in ALLOWED:
        await stack.call("Reminded", actor_id, "register", {"name": "main", "due": 0})
    await eventually(all_fired)


@actors
@pytest.mark.parametrize("actor_id", HOSTILE, ids=lambda actor_id: ascii(actor_id)[:20])
@on_every_host
async def test_a_hostile_id(stack: Stack, actor_id: str, actor: str, method: str, data: object) -> None:
    before = await stack.stored_keys()
    with pytest.raises(CallFailed) as failure:
        await stack.call(actor, actor_id, method, data)
    assert failure.value.code != "UNREACHABLE"
    assert "Traceback" not in failure.value.message
    relay = {"type": actor, "id": actor_id, "method": method, "data": data}
    with pytest.raises(CallFailed):
        await stack.call("Caller", "messenger", "relay", relay)
    assert await stack.stored_keys() == before


@on_every_host
async def test_ids_that_differ_only_in_case_are_different(stack: Stack) -> None:
    await stack.call("Keeper", "case", "put", {"a": "lower"})
    await stack.call("Keeper", "CASE", "put", {"a": "upper"})
    assert await stack.call("Keeper", "case", "get", "a") == ["lower"]
