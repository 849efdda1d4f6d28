"""Calls that are made until they get through."""

from __future__ import annotations

import asyncio
import logging
from random import uniform
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0


async def insist(call: Callable[[], Awaitable[Result]], what: str) -> Result:
    """Again and again, as long as trying again can help."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await call()
        except HoldfastError as error:
            if not error.retryable:
                raise
            log.warning("%s: %s", what, error)
        await asyncio.sleep(uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)
