"""Encoding and decoding a segment gives the same items."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from holdfast.pushpop.core.segment_codec import decode, encode
from tests.support.queue_driver import QueueDriver

PLAIN: dict[str, Any] = {"item": '{"a":1}', "at": 1.5}


@pytest.mark.parametrize(
    "entries",
    [
        [PLAIN],
        [PLAIN, PLAIN | {"dedup": "d", "until": 9.0}, PLAIN],
        [PLAIN, None, PLAIN],
        [None],
        [None, None],
        [{"shelved": [0, 1], "until": 3.0}, PLAIN],
        [PLAIN | {"removed": True}],
        # Holdfast does not write these, but accepts them from other senders.
        [PLAIN, {"item": '{\n"a":1}', "at": 2.5, "key": "k"}, PLAIN],
        [{"item": "[\n]", "at": 2.5}],
        [{"item": "1", "at": None, "key": "k"}],
        # Breaks that are none.
        [{"item": '"\\n\\r"', "at": 1}, {"item": '"\u2028\u2029\x85\x1c\x0b"', "at": 2}, {"item": '""', "at": 3}],
    ],
)
def test_it_comes_out_as_it_went_in(entries: list[Any]) -> None:
    assert decode(orjson.loads(orjson.dumps(encode(entries)))) == entries


def test_what_is_only_pushed_is_lines_and_times() -> None:
    assert encode([PLAIN, PLAIN | {"at": 2.5}]) == {"lines": '{"a":1}\n{"a":1}', "at": [1.5, 2.5]}
    assert encode([PLAIN, PLAIN]) == {"lines": '{"a":1}\n{"a":1}', "at": 1.5}


def test_payloads_that_look_like_several_stay_one() -> None:
    queue = QueueDriver()
    payloads = ["a\nb", "", "\n", {"\n": "\r\n"}, ["\u2028"], None]
    queue.push(*payloads)
    queue.restart()
    assert queue.pop(10) == payloads
