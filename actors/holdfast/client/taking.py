"""Taking under a lock, so that what is taken for a caller that is no longer there is given back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.endings import surely

if TYPE_CHECKING:
    from holdfast.client.calls import Answer, QueueCalls

_SECONDS_FOR_AN_ANSWER = 2.0


async def take(calls: QueueCalls, count: int, ttl_seconds: int, wait_seconds: float) -> Answer:
    """What the server answers. A cancellation gives back what it took."""
    asking = asyncio.ensure_future(calls.lock(count, ttl_seconds, wait_seconds))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        await surely(_return_unseen(calls, asking, waits=wait_seconds > 0))
        raise


async def _return_unseen(calls: QueueCalls, asking: asyncio.Future[Answer], *, waits: bool) -> None:
    if waits:
        # The server sees it, and gives back what it would have answered.
        asking.cancel()
    await asyncio.wait({asking}, timeout=_SECONDS_FOR_AN_ANSWER)
    if asking.cancel():
        await asyncio.wait({asking})
    if not asking.cancelled() and asking.exception() is None and "lock_id" in asking.result():
        await calls.abandon(asking.result()["lock_id"], "cancelled before it was seen")
