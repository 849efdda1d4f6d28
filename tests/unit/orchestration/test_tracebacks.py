"""A failure has the frames of users' code, what it was raised from, and bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ActivityFailed, InvalidRequest
from holdfast.names import check_id
from holdfast.orchestration.core.failures import Failure, shown_failure
from holdfast.orchestration.core.tracebacks import MAX_BYTES, keep_tracebacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def read(text: str) -> Any:
    return json.loads(text)


def order(text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise KeyError("order") from error


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise ValueError("deep")


def failure_of(call: Callable[[], Any]) -> Failure:
    try:
        call()
    except Exception as error:
        return Failure.of(error)
    raise AssertionError("it did not fail")


@pytest.fixture
def without_tracebacks() -> Iterator[None]:
    keep_tracebacks(False)
    yield
    keep_tracebacks(True)


def test_a_failure_has_the_frames_of_users_code_and_of_what_it_called() -> None:
    failure = failure_of(lambda: order("{"))
    assert failure.traceback is not None
    assert "in order" in failure.traceback
    assert failure.cause is not None
    assert (failure.cause.type, failure.cause.kind) == ("JSONDecodeError", "error")
    assert failure.cause.traceback is not None
    assert "in read" in failure.cause.traceback
    assert "json" in failure.cause.traceback


def test_frames_of_holdfast_itself_are_left_out() -> None:
    failure = failure_of(lambda: check_id("not/an/id", "queue id"))
    assert failure.traceback is not None
    assert "test_tracebacks" in failure.traceback
    assert "names.py" not in failure.traceback
    with pytest.raises(InvalidRequest) as raised:
        check_id("not/an/id", "queue id")
    inner = raised.value.__traceback__
    assert inner is not None
    # As if Holdfast's own code had raised it, with nothing of the user's in between.
    assert Failure.of(raised.value.with_traceback(inner.tb_next)).traceback is None


def test_it_is_bounded_with_the_innermost_frames_kept() -> None:
    failure = failure_of(lambda: deep(400))
    assert failure.traceback is not None
    assert len(failure.traceback.encode()) <= MAX_BYTES
    long = {"type": "E", "message": "", "kind": "error", "traceback": "ä" * MAX_BYTES}
    for _ in range(20):
        long = {**long, "cause": long}
    loaded = Failure.load(long)
    assert loaded.traceback is not None
    assert len(loaded.traceback.encode()) <= MAX_BYTES
    assert json.dumps(loaded.dump()).count('"type"') <= 6


def test_it_comes_back_as_it_was_stored() -> None:
    failure = failure_of(lambda: order("{"))
    assert Failure.load(failure.dump()) == failure
    error = failure.as_activity_error("parse")
    assert error.traceback == failure.traceback
    assert failure.cause is not None
    assert error.cause == shown_failure(failure.cause.dump())


def test_an_orchestration_that_failed_with_an_activity_has_its_failure_as_cause() -> None:
    raised = failure_of(lambda: order("{")).as_activity_error("parse")
    assert isinstance(raised, ActivityFailed)
    cause = Failure.of(raised).cause
    assert cause is not None
    assert cause.type == "KeyError"
    assert cause.traceback == raised.traceback
    assert cause.cause is not None


@pytest.mark.usefixtures("without_tracebacks")
def test_tracebacks_can_be_turned_off() -> None:
    failure = failure_of(lambda: order("{"))
    assert failure.traceback is None
    assert failure.cause is not None
    assert failure.cause.traceback is None


def test_a_log_has_the_frames_of_a_failure_and_its_causes_and_no_message() -> None:
    trace = failure_of(lambda: order("{secret")).trace()
    assert trace is not None
    assert trace.startswith("KeyError, raised in:")
    assert "caused by JSONDecodeError, raised in:" in trace
    assert "secret" not in trace.replace('order("{secret")', "")


@pytest.mark.usefixtures("without_tracebacks")
def test_without_tracebacks_a_log_has_none() -> None:
    assert failure_of(lambda: order("{")).trace() is None
