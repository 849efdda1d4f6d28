"""An actor's error reaches the caller with its code, and without internals of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.hosts import on_every_host
from tests.support.stacks.base import CallFailed

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack


async def failure_of(stack: Stack, *call: object) -> CallFailed:
    with pytest.raises(CallFailed) as failure:
        await stack.call(*call)  # type: ignore[arg-type]
    assert "Traceback" not in str(failure.value)
    assert ".py" not in str(failure.value)
    return failure.value


@pytest.mark.parametrize("code", ["INVALID_REQUEST", "NOT_FOUND", "UNAVAILABLE", "TOO_LARGE"])
@on_every_host
async def test_an_error_reaches_the_caller_with_its_code(stack: Stack, code: str) -> None:
    failure = await failure_of(stack, "Faulty", "any", "refuse", code)
    assert (failure.code, failure.message) == (code, "the suite asked for it")
    assert failure.details == {"asked": True}


@on_every_host
async def test_an_error_passes_through_an_actor_that_calls_another(stack: Stack) -> None:
    call = {"type": "Faulty", "id": "any", "method": "refuse", "data": "NOT_FOUND"}
    failure = await failure_of(stack, "Caller", "any", "relay", call)
    assert (failure.code, failure.message) == ("NOT_FOUND", "the suite asked for it")
    assert failure.details == {"asked": True}


@on_every_host
async def test_an_unexpected_exception_is_an_internal_error_that_gives_nothing_away(stack: Stack) -> None:
    failure = await failure_of(stack, "Faulty", "any", "fail")
    assert failure.code == "INTERNAL"
    assert "that is not expected" not in failure.message
    assert failure.details == {}


@on_every_host
async def test_an_unknown_method_is_not_found(stack: Stack) -> None:
    failure = await failure_of(stack, "Faulty", "any", "no_such_method")
    assert failure.code == "NOT_FOUND"
    assert "no_such_method" in failure.message


@on_every_host
async def test_an_actor_works_on_after_an_error(stack: Stack) -> None:
    await failure_of(stack, "Keeper", "undaunted", "put_and_break", {"a": 1})
    await failure_of(stack, "Keeper", "undaunted", "no_such_method")
    await stack.call("Keeper", "undaunted", "put", {"a": 2})
    assert await stack.call("Keeper", "undaunted", "get", "a") == [2]
