"""SIGTERM: what runs is finished and answered, what comes after is refused, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.conformance.hosts import SERVED, on_hosts
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.served import ServedStack


@on_hosts(*SERVED)
async def test_turns_that_run_are_finished(stack: ServedStack) -> None:
    await stack.call("Ledger", "stopping", "write", 1)
    running = asyncio.create_task(stack.call("Ledger", "stopping", "write_slowly", {"number": 2, "gate": "stopping"}))
    await eventually(lambda: stack.call("Porter", "stopping", "awaited", "stopping"))
    stopping = asyncio.create_task(stack.stop_app())
    try:
        assert await running == 2
        assert await stopping == 0
        with pytest.raises(CallFailed):
            await stack.call("Ledger", "stopping", "read")
    finally:
        await stopping
        await stack.start_app()
    assert set(await stack.call("Ledger", "stopping", "read")) == {2}


@on_hosts(*SERVED)
async def test_it_starts_again_where_it_was(stack: ServedStack) -> None:
    await stack.call("Counter", "stopped", "Add", 41)
    await stack.call("Reminded", "stopped", "register", {"name": "main", "due": 2, "data": "still there"})
    assert await stack.stop_app() == 0
    await stack.start_app()
    assert await stack.call("Counter", "stopped", "Add", 1) == 42
    [event] = await eventually(lambda: stack.call("Reminded", "stopped", "fired"))
    assert event["data"] == "still there"
