"""Runs cleanup to its end even if the calling task is cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

from holdfast.logs import message_of

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: How long a cancellation of the caller is held back for the work to finish.
SECONDS_LEFT = 5.0


async def finish_even_if_cancelled(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs ``work`` to its end. A cancellation is raised after that, or after ``SECONDS_LEFT`` at most."""
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
            continue  # the caller is being cancelled already
        if not task.done():
            given_up = task.cancel()
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("Cleanup after a cancellation failed: %s", message_of(error))
