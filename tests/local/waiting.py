"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], bool | Awaitable[bool]], *, what: str, timeout: float = 20.0) -> None:
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        holds = condition()
        if await holds if inspect.isawaitable(holds) else holds:
            return
        assert asyncio.get_running_loop().time() < deadline, f"not within {timeout:g} s: {what}"
        await asyncio.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process ended; one that nobody has waited for yet ended too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
