"""Retries calls until they succeed."""

from __future__ import annotations

import asyncio
import logging
from random import uniform
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError
from holdfast.logs import RepeatFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
# Repeated warnings with the same reason are suppressed for this long.
_QUIET_SECONDS = 60.0


async def retry_forever(call: Callable[[], Awaitable[Result]], what: str) -> Result:
    """Makes a call until it succeeds. Raises errors that are not retryable. ``what`` names the call in the log."""
    pause = _FIRST_PAUSE
    warnings = RepeatFilter(_QUIET_SECONDS)
    while True:
        try:
            return await call()
        except HoldfastError as error:
            if not error.retryable:
                raise
            if warnings.passes(str(error), asyncio.get_running_loop().time()):
                log.warning("%s failed, retrying: %s", what, error)
        await asyncio.sleep(uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)
