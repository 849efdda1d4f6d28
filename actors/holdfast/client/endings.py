"""What has to happen even when whoever asked for it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: How long a cancelled caller is kept for it.
SECONDS_LEFT = 5.0


async def surely(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs it to its end. A cancellation waits for that, some seconds at most, and then goes on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _finish(task)
        raise


async def _finish(task: asyncio.Future[Any]) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + SECONDS_LEFT
    given_up = False
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=None if given_up else max(0.0, deadline - clock()))
        except asyncio.CancelledError:
            continue  # told already
        if not task.done():
            given_up = task.cancel()
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("After a cancellation: %s", error)
