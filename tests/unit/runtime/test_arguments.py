"""Arguments inside an array, as JavaScript's actor proxy sends them."""

from __future__ import annotations

import json

import pytest

from holdfast.runtime.arguments import argument_of, without_nothing
from holdfast.runtime.serialization import LARGE


@pytest.mark.parametrize("kind", ["PushPopActor", "OrchestrationActor", "IdempotencyActor"])
@pytest.mark.parametrize("argument", [b"{}", b'{"a": [1, {"b": "]"}]}', b'"x"', b"null", b"[{}]", b'{"a": 1.10}'])
def test_an_argument_in_an_array_is_taken_out_as_it_is(kind: str, argument: bytes) -> None:
    for body in (b"[" + argument + b"]", b" [\n" + argument + b"\t]\r\n"):
        assert argument_of(kind, body) == argument


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{}", b"null", b"[]", b"[1, 2]", b"[", b"]", b"[}", b"[1]]", b"[1] [2]", b'"[1]"', b"\xff[1]"]
)
def test_anything_else_stays(body: bytes) -> None:
    assert argument_of("PushPopActor", body) == body


@pytest.mark.parametrize("kind", ["CounterActor", "QueueIndexActor", "pushpopactor", ""])
def test_the_arrays_of_other_actors_stay(kind: str) -> None:
    assert argument_of(kind, b"[{}]") == b"[{}]"


def test_a_large_one_is_not_parsed() -> None:
    argument = json.dumps({"item": "x" * LARGE}).encode()
    assert argument_of("PushPopActor", b"[" + argument + b"]") == argument
    assert argument_of("PushPopActor", b"[" + argument + b"," + argument + b"]") == argument + b"," + argument


def test_nothing_is_empty_for_a_plain_request_only() -> None:
    assert without_nothing(b"null", plain=True) == b""
    assert without_nothing(b"null", plain=False) == b"null"
    assert without_nothing(b"[]", plain=True) == b"[]"
