"""Values as JSON text: what is written without pydantic is what pydantic would have written."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.orchestration.core.payloads import codec, keepable, sendable
from holdfast.runtime.serialization import MAX_CONTAINERS

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


class Line(BaseModel):
    article: str
    pieces: int


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lines: list[Line]
    #: Looks like a schema, and is none.
    options: dict[str, Any] = {"type": "list"}


class Tree(BaseModel):
    branches: list[Tree] = []
    size: int = 1


@dataclass
class Parcel:
    orders: tuple[Order, ...]


EMPTY = "[%s]" % ",".join(["{}"] * 300_000)  # noqa: UP031
MANY_WRONG = {
    "a list of models": (list[Line], EMPTY, 2),
    "a list in a model": (Order, f'{{"lines":{EMPTY}}}', 2),
    "a tuple in a dataclass": (Parcel, f'{{"orders":{EMPTY}}}', 1),
    "a list in itself": (Tree, f'{{"branches":[{{"branches":{EMPTY.replace("{}", "1")}}}]}}', 1),
    "a set": (set[str], EMPTY, 1),
    "a union": (list[int | str | Line], EMPTY, 4),
}


@pytest.mark.parametrize("what", MANY_WRONG)
def test_a_list_is_left_at_its_first_wrong_element(what: str) -> None:
    declared, text, errors = MANY_WRONG[what]
    with pytest.raises(ValidationError) as refused:
        codec(declared).load(text)
    assert refused.value.error_count() == errors
    with pytest.raises(InvalidRequest) as told:
        codec(declared).check(text, "input")
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("count", [3, 100, 100_000])
def test_what_is_told_of_many_wrong_keys_is_short(count: int) -> None:
    text = "{%s}" % ",".join(f'"{"k" * 300}{number}":1' for number in range(count))  # noqa: UP031
    with pytest.raises(InvalidRequest) as told:
        codec(Order).check(text, "input")
    assert len(str(told.value)) < 4000


def test_what_fits_is_read_as_before() -> None:
    order = codec(Order).load('{"lines":[{"article":"oar","pieces":2}]}')
    assert order == Order(lines=[Line(article="oar", pieces=2)])
    assert order.options == {"type": "list"}
    assert codec(Parcel).load('{"orders":[{"lines":[]}]}') == Parcel((Order(lines=[]),))
    assert codec(Tree).load('{"branches":[{"size":3}]}') == Tree(branches=[Tree(size=3)])


@pytest.mark.parametrize("declared", [Any, list[list[int]]])
def test_a_large_value_is_read_without_looking_for_garbage_meanwhile(declared: Any) -> None:
    text = f"[{','.join(['[]'] * 100_000)}]"
    looked: list[str] = []

    def hear(phase: str, _details: dict[str, Any]) -> None:
        looked.append(phase)

    gc.collect()
    gc.callbacks.append(hear)
    try:
        assert len(codec(declared).load(text)) == 100_000
        during = list(looked)
    finally:
        gc.callbacks.remove(hear)
    assert during == []
    assert gc.isenabled()


@pytest.mark.parametrize("check", [keepable, sendable])
def test_a_value_that_no_actor_would_accept_fails_where_it_is_made(check: Any) -> None:
    most = codec(list).dump([[]] * (MAX_CONTAINERS - 1))
    assert check(most, "The output") == most
    with pytest.raises(TooLarge, match=r"^The output: .* 100,000 lists and objects\. Pass a reference"):
        check(codec(list).dump([[]] * MAX_CONTAINERS), "The output")
