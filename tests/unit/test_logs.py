"""How errors, numbers and repetition are written into logs."""

from __future__ import annotations

import pytest

from holdfast.errors import Unavailable
from holdfast.logs import RepeatFilter, counted, message_of


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "timed out"),
        (TimeoutError("the disk is slow"), "the disk is slow"),
        (ConnectionResetError(), "ConnectionResetError"),
        (Unavailable("Not now."), "Not now."),
        (Unavailable(""), str(Unavailable())),
    ],
)
def test_no_error_is_without_words(error: Exception, text: str) -> None:
    assert message_of(error) == text
    assert text


def test_numbers_have_their_nouns() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1000)] == ["0 calls", "1 call", "2 calls", "1,000 calls"]


def test_a_line_that_repeats_passes_once_in_a_while() -> None:
    lines = RepeatFilter(60)
    passed = [second for second in range(0, 200, 10) if lines.passes("queue a is away", second)]
    assert passed == [0, 60, 120, 180]
    assert lines.passes("queue b is away", 190)
    assert not lines.passes("queue b is away", 190)
