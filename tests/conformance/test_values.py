"""A value is read back as it was written, whatever characters and numbers it has.

The order of keys is not kept in the state of an actor. A message between actors arrives exactly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.hosts import on_every_host
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack

MEBIBYTE = 1024 * 1024

VALUES: dict[str, Any] = {
    "dates": ["2024-01-01", "2024-01-01T00:00:00Z", "2024/01/01 and more", "12:30"],
    "durations": ["5s", "1h30m", "PT5S", "3d", "0h0m5s0ms", "R3/PT1S", "-1.5h"],
    "unicode": ["", "ünï", "日本語", "🦀", "\u0000", "\u2028", 'a"b\\c/d\n\t', "e\u0301", "\ufeff", "</script>"],
    "base64": ["aGVsbG8=", "bnVsbA=="],
    "numbers": [0, -1, 1.5, -0.1, 1e-7, 1e22, 2**53 - 1, 123456789.123456789, 5e-324, 1.7976931348623157e308],
    "constants": [True, False, [], {}],
    "nested-nulls": {"a": None, "b": [None, {"c": None}], "": {"": None}},
    "empty-keys": {"": {"": ""}, " ": 1, "a.b": 2, "a||b": 3, "$ref": 4},
    "deep": json.loads("[" * 90 + "]" * 90),
}

#: Numbers that daprd 1.18.2 changes in state, and what Holdfast writes in place of a value that has one.
NUMBERS: dict[str, Any] = {
    "long": 2**53 + 1,
    "longer": 2**63,
    "negative": -(2**64),
    "longest": 10**30,
    "whole": 1.0,
    "zeros": [0.0, -3.0, 1e20, 1e300, 0],
    "limit": [2**53, -(2**53), 2**53 + 2],
    "nested": {"a": [{"b": 2**64 - 1}, {"c": [1.0, 1, "1.0"]}], "text": "1.0 and 9007199254740993"},
    "lookalike": {"$json": "1.0"},
    "wrapped twice": {"$json": '{"$json":"1"}'},
    "not quite": {"$json": 1, "b": 2},
}

MESSAGES: dict[str, Any] = {
    **VALUES,
    "whole-floats": [1.0, 0.0, -3.0],
    "long-integers": [2**53 + 1, -(2**63), 2**64 - 1, 10**30],
    "order": {"b": 1, "a": 2},
}

keepers = pytest.mark.parametrize("keeper", ["Shelf", "Keeper"])


def typed(value: Any) -> str:
    """JSON with types: 1 and 1.0 and True are told apart."""
    return json.dumps(value, sort_keys=True)


def exact(value: Any) -> str:
    """And the order of keys, too."""
    return json.dumps(value)


@keepers
@on_every_host
async def test_a_value_comes_back_as_it_was_put(stack: Stack, keeper: str) -> None:
    await stack.call(keeper, "values", "put", VALUES)
    for name, value in VALUES.items():
        assert typed(await stack.call(keeper, "values", "get", name)) == typed([value])
    assert typed(await stack.stored(keeper, "values")) == typed(VALUES)
    await stack.kill_app()
    await stack.start_app()
    for name, value in VALUES.items():
        assert typed(await stack.call(keeper, "values", "get", name)) == typed([value])


@keepers
@on_every_host
async def test_numbers_that_a_float_cannot_hold_come_back_as_they_were_put(stack: Stack, keeper: str) -> None:
    numbers = {name.replace(" ", "-"): value for name, value in NUMBERS.items()}
    await stack.call(keeper, "numbers", "put", numbers)
    await stack.call(keeper, "numbers", "put", {"plain": [1, 1.5, 2**53 - 1, "1.0"]})
    await stack.kill_app()
    await stack.start_app()
    for name, value in numbers.items():
        assert typed(await stack.call(keeper, "numbers", "get", name)) == typed([value])
    # What daprd does not change lies in the store as JSON, readable without Holdfast.
    assert (await stack.stored(keeper, "numbers"))["plain"] == [1, 1.5, 2**53 - 1, "1.0"]


@on_every_host
async def test_a_message_arrives_as_it_was_sent(stack: Stack) -> None:
    for value in MESSAGES.values():
        assert exact(await stack.call("Keeper", "echo", "echo", value)) == exact(value)
        relay = {"type": "Keeper", "id": "echo", "method": "echo", "data": value}
        assert exact(await stack.call("Caller", "echo", "relay", relay)) == exact(value)


@on_every_host
async def test_null_is_a_value_of_a_message(stack: Stack) -> None:
    assert await stack.call("Keeper", "echo", "echo", None) is None


@keepers
@on_every_host
async def test_a_value_of_one_mebibyte(stack: Stack, keeper: str) -> None:
    value = "é" * (MEBIBYTE // 2)
    await stack.call(keeper, "large", "put", {"a": value, "b": value})
    assert await stack.call(keeper, "large", "get", "a") == [value]
    await stack.kill_app()
    await stack.start_app()
    assert await stack.call(keeper, "large", "get", "b") == [value]
    assert await stack.stored(keeper, "large") == {"a": value, "b": value}


@on_every_host
async def test_a_reminder_with_much_data(stack: Stack) -> None:
    data = "é" * 50_000
    await stack.call("Reminded", "large", "register", {"name": "main", "due": 0, "data": data})

    async def fired() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = await stack.call("Reminded", "large", "fired")
        return seen

    [event] = await eventually(fired)
    assert event["data"] == data
