"""How errors, numbers and repetition are written into logs."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import Unavailable
from holdfast.logs import RepeatFilter, about, code_fields, counted, log_fields, message_of, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], logging.Logger]]:
    """Sets up the log of a process in the given format."""
    root = logging.getLogger()
    before, level, hook = root.handlers[:], root.level, sys.excepthook

    def set_up(log_format: str) -> logging.Logger:
        set_up_logging(log_format, "info")
        return logging.getLogger("shop")

    yield set_up
    root.handlers[:], sys.excepthook = before, hook
    root.setLevel(level)
    logging.captureWarnings(False)


def test_fields_follow_a_line_of_text(log: Callable[[str], logging.Logger], capsys: pytest.CaptureFixture[str]) -> None:
    shop = log("text")
    with log_fields(instance_id="order-17", activity="charge", attempt=2, tenant="default"):
        shop.warning("charging\nagain")
        with code_fields({"instance_id": "order-18", "tenant": "acme"}):
            shop.warning("begins")
        shop.warning("failed", extra=about("ValueError, raised in:\n  File shop.py", queue="q\n"))
    shop.warning("opens")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("shop: ")[2] or line for line in lines] == [
        "charging\\nagain instance_id=order-17 activity=charge attempt=2",
        "begins instance_id=order-18 tenant=acme",
        "failed instance_id=order-17 activity=charge attempt=2 queue=q\\n",
        "  ValueError, raised in:",
        "    File shop.py",
        "opens",
    ]


def test_warnings_and_uncaught_errors_are_json_lines(
    log: Callable[[str], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    log("json")
    warnings.showwarning("old", UserWarning, "shop.py", 1)
    try:
        raise ValueError("broken")
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert "old" in first["message"]
    assert (second["level"], second["message"]) == ("critical", "uncaught ValueError; the process ends")
    assert "ValueError: broken" in second["trace"]
