"""Values as JSON text: what is written without pydantic is what pydantic would have written."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from holdfast.orchestration.payloads import codec

CHARACTERS = [chr(number) for number in (*range(0xD800), *range(0xE000, 0x10FFFF, 101))]
INTEGERS = [0, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**40]


@pytest.mark.parametrize(("declared", "values"), [(str, CHARACTERS), (int, INTEGERS), (bool, [True, False])])
def test_plain_values_are_written_as_pydantic_does(declared: type, values: list[Any]) -> None:
    adapter = TypeAdapter(declared)
    for value in values:
        text = codec(declared).dump(value)
        assert text == adapter.dump_json(value).decode()
        assert codec(declared).load(text) == value


@pytest.mark.parametrize(("declared", "value"), [(int, "5"), (str, 5), (bool, 1), (str, "\ud800")])
def test_what_is_not_of_that_type_is_refused(declared: type, value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON here"):
        codec(declared).dump(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_does_not_have_is_refused_wherever_it_is(value: float) -> None:
    for declared, whole in (
        (float, value),
        (dict, {"a": value}),
        (list[float], [value]),
        (Any, [value]),
        (object, value),
    ):
        with pytest.raises(TypeError, match="JSON has no NaN and no Infinity"):
            codec(declared).dump(whole)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "it is -Infinity"])
def test_text_may_say_so(text: str) -> None:
    for declared in (str, dict[str, str], Any):
        assert codec(declared).load(codec(declared).dump({text: text} if declared == dict[str, str] else text))
