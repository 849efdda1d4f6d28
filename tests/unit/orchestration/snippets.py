"""Code that tells what happens in it, and when, whatever loop it runs on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Snippet = Callable[["Trace"], Awaitable[None]]


class Trace:
    """Records steps with their times."""

    def __init__(self) -> None:
        self._beginning = asyncio.get_running_loop().time()
        self.steps: list[str] = []

    def __call__(self, *what: Any) -> None:
        moment = round(asyncio.get_running_loop().time() - self._beginning, 6)
        self.steps.append(" ".join(map(str, (moment, *what))))


async def traced(snippet: Snippet) -> list[str]:
    trace = Trace()
    try:
        await snippet(trace)
    except Exception as error:
        trace("raised", _shape(error))
    return trace.steps


def _shape(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}({', '.join(_shape(inner) for inner in error.exceptions)})"
    return f"{type(error).__name__}({error})"


SNIPPETS: list[Snippet] = []
#: Where asyncio itself promises no order: in these only what happens at each moment is compared.
UNORDERED: list[Snippet] = []


def snippet(function: Snippet) -> Snippet:
    SNIPPETS.append(function)
    return function


def unordered(function: Snippet) -> Snippet:
    UNORDERED.append(function)
    return function


async def later(trace: Trace, name: str, seconds: float) -> str:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        trace(name, "cancelled")
        raise
    trace(name, "done")
    return name


async def failing(trace: Trace, name: str, seconds: float) -> str:
    await later(trace, name, seconds)
    raise ValueError(name)
