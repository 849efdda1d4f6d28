"""A worker beside the server that is stopped while a pop is under way."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from holdfast.errors import Unavailable
from holdfast.worker.local_source import LocalWorkSource


class _OutOfReach:
    async def call(self, queue: str, method: str, data: bytes) -> dict[str, Any]:
        raise Unavailable


async def test_a_stop_ends_though_what_was_popped_cannot_be_given_back() -> None:
    """Otherwise the error takes the place of the cancellation, and the worker goes on for ever."""
    source = LocalWorkSource.__new__(LocalWorkSource)
    source._queues = cast("Any", _OutOfReach())
    popping: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    taking = asyncio.create_task(source._received("activities", popping))
    await asyncio.sleep(0)
    taking.cancel()
    popping.set_result({"lock_id": "a-lock", "count": 1})
    with pytest.raises(asyncio.CancelledError):
        await taking
