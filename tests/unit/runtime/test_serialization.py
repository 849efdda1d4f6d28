"""JSON goes in and comes out as it was."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.runtime import serialization
from holdfast.runtime.dapr_sdk import JsonSerializer
from holdfast.runtime.serialization import (
    MAX_CONTAINERS,
    check_lossless,
    check_number_of_containers,
    check_number_of_containers_in_pieces,
    dump,
    load,
)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        1.0,
        0.1,
        1e22,
        5e-324,
        2**63 - 1,
        2**64,
        -(10**30),
        "",
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "5s",
        "0h0m3s0ms",
        "PT5S",
        "ünï 日本 🦀 \u0000 \u2028",
        [],
        {},
        [None, {"": None}, [[]]],
        {"b": 1, "a": 2},
        {"n": [10**30, {"deep": "2024-01-01"}]},
    ],
)
def test_a_value_comes_back(value: Any) -> None:
    serializer = JsonSerializer()
    back = serializer.deserialize(serializer.serialize(value))
    assert json.dumps(back) == json.dumps(value)


def test_the_bytes_are_json_for_everyone() -> None:
    value = {"text": "ü", "long": 10**30}
    assert json.loads(dump(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(seconds=1.6), b'"1s600000us"'),
        (b"hello", b'"aGVsbG8="'),
        (float("nan"), b"null"),
        (float("inf"), b"null"),
    ],
)
def test_what_the_sdk_hands_over(value: object, text: bytes) -> None:
    assert dump(value) == text


def test_no_body_is_no_value() -> None:
    assert JsonSerializer().deserialize(b"") is None


@pytest.mark.parametrize("text", [b"{", b"[1,]", b"nothing", b"NaN", b"Infinity", b"1 2", b'"\\ud800"', b"\xff"])
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequest):
        JsonSerializer().deserialize(text)


def test_what_nests_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="recursion"):
        load("[" * 100_000)


def test_what_cannot_be_json_is_refused() -> None:
    with pytest.raises(ValueError, match="serialize"):
        dump(object())


def _nested(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


@pytest.mark.parametrize("beside", [[], [[1]] * 10_000, [None, *[[1]] * 10_000]], ids=["few", "many", "many and null"])
@pytest.mark.parametrize(
    ("inside", "most"), [(1, 100), (None, 100), ([], 99), ({}, 99), ([1], 99), ({"a": 1}, 99), (2**70, 100)]
)
def test_100_levels_are_given_back_however_many_lists_there_are(beside: list[Any], inside: Any, most: int) -> None:
    check_lossless([beside, _nested(most - 1, inside)])
    with pytest.raises(InvalidRequest, match="100 levels"):
        check_lossless([beside, _nested(most, inside)])


@pytest.mark.parametrize("number", [math.inf, -math.inf])
@pytest.mark.parametrize("beside", [[], [[1]] * 10_000, [2**70, *[[1]] * 10_000]], ids=["few", "many", "many and long"])
def test_a_number_that_json_does_not_have_is_found_among_many_lists(beside: list[Any], number: float) -> None:
    check_lossless([beside, "Infinity", None, 1e308])
    with pytest.raises(InvalidRequest, match="too large"):
        check_lossless([beside, "Infinity", None, [[number]]])


@pytest.mark.parametrize("entry", [b"[]", b"{}", b"[1]", b'{"a":[]}'])
def test_lists_and_objects_are_counted_before_they_are_read(entry: bytes) -> None:
    count = MAX_CONTAINERS // (entry.count(b"[") + entry.count(b"{"))
    check_number_of_containers(b"[%b]" % b",".join([entry] * (count - 1)))
    with pytest.raises(TooLarge, match="100,000 lists and objects"):
        check_number_of_containers(b"[%b]" % b",".join([entry] * (count + 1)))


@pytest.mark.parametrize("text", ['<a href="{}[]">\\', '[{\\"', "[{\\\\", '\\"[{"'])
def test_brackets_in_strings_are_not_counted(text: str) -> None:
    check_number_of_containers(json.dumps({text: [text * 100_000, {text: text * 100_000}]}))
    with pytest.raises(TooLarge):
        check_number_of_containers(json.dumps([text, *[{text: 1}] * MAX_CONTAINERS]))


#: Texts of what the search for brackets has to tell apart.
MARKS = st.text(alphabet='"\\[{x', max_size=8)


@given(value=st.recursive(MARKS, lambda part: st.lists(part) | st.dictionaries(MARKS, part)))
def test_no_piece_of_a_text_is_counted_wrongly(value: Any) -> None:
    text = json.dumps(value)
    count = _containers(value)
    with patch.object(serialization, "_PIECE", 3):
        for most in (count - 1, count):
            with patch.object(serialization, "MAX_CONTAINERS", most):
                refused = len(text) > 2 * most and count > most
                with pytest.raises(TooLarge) if refused else nullcontext():
                    check_number_of_containers(text)


def _containers(value: Any) -> int:
    if isinstance(value, str):
        return 0
    return 1 + sum(map(_containers, value.values() if isinstance(value, dict) else value))


async def test_others_run_while_a_long_text_is_looked_at() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await check_number_of_containers_in_pieces(b"[%b]" % b",".join([b'"[["'] * 500_000))
    running.cancel()
    assert turns > 5


@pytest.mark.parametrize("text", ['""', '"["', '"[""{"', r'"\\"', r'"\"["', r'"[\\"'])
def test_strings_with_brackets_do_not_count_wherever_they_lie(text: str) -> None:
    """The text is read in parts: strings begin and end at every place of a part."""
    for before in range(4):
        entries = ",".join(["[]"] * before + [text] * 70_000 + ["{}"] * (MAX_CONTAINERS - 1 - before))
        check_number_of_containers(f"[{entries}]")
        with pytest.raises(TooLarge):
            check_number_of_containers(f"[{entries},[]]")
