"""A large push is read an item at a time, and means the same as a small one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, InvalidRequest, TooLarge
from holdfast.gateway.middleware.body_limits import MAX_CALL
from holdfast.gateway.queues.large_pushes import read_push
from holdfast.gateway.queues.push_routing import refuse_internal
from holdfast.runtime.serialization import dump, load
from tests.unit.gateway.stage import QUEUE, Stage, on_stage

MEBIBYTE = 1024 * 1024

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab"\\{}[],: é'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\{}'), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(values, min_size=1, max_size=5), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_payload_is_the_one_that_was_sent(items: list[Any], indent: int | str | None, ascii_only: bool) -> None:
    entries = [{"item": item, "priority": number, "dedup_id": f"d-{number}"} for number, item in enumerate(items)]
    body = json.dumps({"items": entries}, indent=indent, ensure_ascii=ascii_only).encode()
    written, data = asyncio.run(read_push(body))
    assert load(written) == data
    assert [entry["dedup_id"] for entry in data["entries"]] == [entry["dedup_id"] for entry in entries]
    texts = [dump(entry["item"]).decode() if "item" in entry else entry["text"] for entry in data["entries"]]
    assert texts == [dump(load(json.dumps(item))).decode() for item in items]


def _items(*texts: str) -> str:
    return f'{{"items": [{", ".join(texts)}]}}'


GOOD = '{"item": 1}'
WRONG = {
    "the item is missing": (_items(GOOD, "{}"), "items.1.item: is missing"),
    "an unknown key": (_items('{"item": 1, "key": 1}'), "items.0.key: is not known here"),
    "a priority that is no number": (_items(GOOD, GOOD, '{"item": 1, "priority": "1"}'), "items.2.priority: "),
    "no object": (_items("[1]"), "items.0: Input should be an object"),
    "too deep": (_items('{"item": %s}' % ("[" * 150 + "]" * 150)), "100 levels"),
    "too deep for any parser": (_items('{"item": %s}' % ("[" * 9000 + "]" * 9000)), "items.0: is not JSON"),
    "many braces": (_items('{"item": %s}' % ("{" * 9000)), "items.0: is not JSON"),
    "too large a number": (_items('{"item": 1e400}'), "too large"),
    "NaN": (_items('{"item": NaN}'), "items.0: is not JSON"),
    "half a surrogate pair": (_items('{"item": "\\ud800"}'), "items.0: is not JSON"),
    "no end": ('{"items": [{"item": 1}', "nothing else"),
    "no end of an item": ('{"items": [{"item": 1', "items.0: is not JSON"),
    "no end of a string": ('{"items": [{"item": "}]}', "items.0: is not JSON"),
    "something behind it": (_items(GOOD) + "1", "nothing else"),
    "another key behind it": (_items(GOOD)[:-1] + ', "elsewhere": 5}', "nothing else"),
    "a comma too many": (_items(GOOD, ""), "items.1: Input should be an object"),
    "1001 items": (_items(*[GOOD] * 1001), "at most 1000"),
    "wrong JSON inside": (_items('{"item": [1,]}'), "items.0: is not JSON"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_its_place(what: str) -> None:
    body, message = WRONG[what]
    with pytest.raises(InvalidRequest) as refused:
        asyncio.run(read_push(body.encode()))
    assert message in str(refused.value)
    assert len(str(refused.value)) < 1000


TOO_LARGE = {
    "one item": b'{"item": 1}',
    "no items": b'{"items": []}',
    "another key first": b'{"elsewhere": 1, "items": [{"item": 1}]}',
    "a list": b'[{"item": 1}]',
    "nothing": b"   ",
    "an item of more than 1 MiB": _items('{"item": "%s"}' % ("x" * MEBIBYTE)).encode(),
    "an item that does not end": _items('{"item": ["%s"]}' % ("x" * 2 * MAX_CALL)).encode(),
    "quotation marks in lists": _items(*['{"item": ["%s"]}' % ('\\"' * (MEBIBYTE // 2 - 10))] * 15).encode(),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_has_another_form_is_too_large(what: str) -> None:
    with pytest.raises(TooLarge):
        asyncio.run(read_push(TOO_LARGE[what]))


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        asyncio.run(read_push(b'{"items": [{"item": "\xff"}]}'))


@on_stage
async def test_its_items_go_where_those_of_any_push_go(stage: Stage) -> None:
    gateway = stage.gateway()
    await gateway.configure(partitions=3, max_locks=10)
    first = await gateway.push_entries([{"item": "known", "dedup_id": "d-1"}])
    entries = [{"item": {"number": number}, "dedup_id": f"d-{number}"} for number in range(4)]
    body, data = await read_push(dump({"items": entries}))
    answer = await gateway.pushes.push(QUEUE, body, data)
    assert answer["count"] == 3
    assert answer["ids"][1] == first["ids"][0]
    found = [item for _ in range(3) for item in (await gateway.pop(10))["items"]]
    assert sorted(map(str, found)) == sorted(map(str, ["known", *({"number": number} for number in (0, 2, 3))]))


@on_stage
async def test_the_queue_itself_believes_no_text(stage: Stage) -> None:
    gateway = stage.gateway()
    for text in ("{", "1\n", "NaN", "1e400", "[" * 150 + "]" * 150, "[" * 900):
        data = {"entries": [{"text": "1"}, {"text": text}]}
        answer = await gateway.partitions.call(QUEUE, "Push", dump(data))
        assert (answer["success"], answer["error_code"]) == (False, "INVALID_REQUEST")
    for entry in ({}, {"text": "1", "item": "1"}, {"item": 1}, {"text": "1", "priority": "1"}, {"text": 1}):
        answer = await gateway.partitions.call(QUEUE, "Push", dump({"entries": [entry]}))
        assert (answer["success"], answer["error_code"]) == (False, "INVALID_REQUEST")
    for entry in ({"text": '"%s"' % ("x" * MEBIBYTE)}, {"item": "x" * MEBIBYTE}):
        answer = await gateway.partitions.call(QUEUE, "Push", dump({"entries": [entry]}))
        assert answer["error_code"] == "TOO_LARGE"
    assert await gateway.stored() == [0]


def test_callers_may_not_say_that_payloads_are_written_already() -> None:
    with pytest.raises(HoldfastError):
        refuse_internal({"entries": [{"text": "1"}]})
