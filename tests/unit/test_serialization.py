"""JSON goes in and comes out as it was."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.runtime.serialization import JsonSerializer, dump, load


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
