"""Pops items under a lock, and abandons them when the caller is cancelled before it receives them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import string
from typing import TYPE_CHECKING

from holdfast.client.shielding import finish_even_if_cancelled
from holdfast.errors import HoldfastError
from holdfast.logs import message_of

if TYPE_CHECKING:
    from holdfast.client.api.queues import Answer, QueueCalls

log = logging.getLogger(__name__)

_SECONDS_FOR_AN_ANSWER = 2.0
_OWNER_LETTERS = 16


async def acquire_lock(calls: QueueCalls, count: int, ttl_seconds: int, wait_seconds: float) -> Answer:
    """Returns the server's response. On cancellation, abandons the items the server locked for this call."""
    owner = "".join(secrets.choice(string.ascii_lowercase) for _ in range(_OWNER_LETTERS))
    asking = asyncio.ensure_future(calls.lock(count, ttl_seconds, wait_seconds, owner))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        await finish_even_if_cancelled(_return_unseen(calls, asking, owner, waits=wait_seconds > 0))
        raise


async def _return_unseen(calls: QueueCalls, asking: asyncio.Future[Answer], owner: str, *, waits: bool) -> None:
    if waits:
        # The server notices that the connection is closed, and ends the poll.
        asking.cancel()
    await asyncio.wait({asking}, timeout=_SECONDS_FOR_AN_ANSWER)
    if asking.cancel():
        await asyncio.wait({asking})
    answer = None if asking.cancelled() or asking.exception() is not None else asking.result()
    try:
        async with asyncio.timeout(_SECONDS_FOR_AN_ANSWER):
            if answer is None:
                # The server may have locked items; their lock id was in the response that is lost.
                await calls.abandon_owned(owner)
            elif "lock_id" in answer:
                await calls.abandon(answer["lock_id"], "cancelled before it was seen", counted=False)
    except (HoldfastError, TimeoutError) as error:
        # Raising this would replace the cancellation, and a consumer or worker that is being stopped would go on.
        log.warning(
            "Queue %s: items locked by a cancelled pop were not abandoned, they wait for the lock's expiry: %s",
            calls.queue,
            message_of(error),
        )
