"""Trace contexts as text: which are accepted, and which ids are derived."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidRequest
from holdfast.pushpop.api.requests import PushItem
from holdfast.tracing.traceparent import in_headers, read, span_id, within

VALID = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (VALID, VALID),
        (VALID.replace("00-4", "cc-4"), VALID),
        (VALID.replace("00-4", "cc-4") + "-of-a-later-version", VALID),
        (VALID[:-2] + "00", VALID[:-2] + "00"),
        (VALID + "-more", None),
        (VALID.upper(), None),
        (VALID.replace("00-4", "ff-4"), None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", None),
        (VALID + "\n", None),
        (VALID.replace("00-4", "cc-4") + "-" + "x" * 512, None),
        ("", None),
        (None, None),
    ],
)
def test_only_contexts_as_w3c_defines_them_are_read(text: str | None, found: str | None) -> None:
    assert read(text) == found


def test_a_field_of_zeros_stands_for_no_context_and_other_text_is_refused() -> None:
    assert PushItem.parse({"item": 1, "traceparent": VALID}).traceparent == VALID
    assert PushItem.parse({"item": 1, "traceparent": f"00-{'0' * 32}-{'0' * 16}-00"}).traceparent is None
    with pytest.raises(InvalidRequest, match="traceparent"):
        PushItem.parse({"item": 1, "traceparent": "my trace"})


def test_the_header_is_found_among_others() -> None:
    assert in_headers([(b"accept", b"*/*"), (b"traceparent", VALID.encode())]) == VALID
    assert in_headers([(b"traceparent", b"\xff")]) is None
    assert in_headers([]) is None


def test_ids_are_the_same_in_every_process_and_differ_between_calls() -> None:
    assert span_id("call", "order-1", "seed", 1, 2) == "215a07f0b3034f5c"
    others = {span_id("call", "order-1", "seed", 1, number) for number in range(1000)}
    assert len(others) == 1000
    # The parts are kept apart.
    assert span_id("a", "bc") != span_id("ab", "c")


def test_another_span_of_the_trace_has_its_flags() -> None:
    assert within(VALID, "1" * 16) == f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'1' * 16}-01"
