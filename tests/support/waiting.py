"""Waiting for a condition, with a deadline, and reading what other processes write."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from tests.support.stacks.base import CallFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from holdfast.local import ChildProcess

Result = TypeVar("Result")


async def eventually(
    condition: Callable[[], Result | Awaitable[Result]], within: float = 30.0, *, what: str = "the condition holds"
) -> Result:
    """Returns the first truthy result of the condition; ``what`` says in the failure what was waited for.

    A call to an actor that fails is made again. Time is that of the event loop, which may be virtual.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    while True:
        seen: Any
        try:
            result = condition()
            if seen := (await result if inspect.isawaitable(result) else result):
                return seen
        except CallFailed as failure:
            seen = failure
        assert clock() < deadline, f"not within {within:g} s: {what}; the last result was {seen!r}"
        await asyncio.sleep(0.05)


async def until_line(process: ChildProcess, pattern: str, *, timeout: float = 20.0) -> re.Match[str]:
    """Waits for a whole line that `pattern` matches from its start to its end, and returns the match.

    A line without its line break is not looked at: a reader may see the first half of what a process writes.
    """
    found: list[re.Match[str]] = []

    def written() -> bool:
        running = process.running
        matches = (re.fullmatch(pattern, line) for line in whole_lines(process.logged()))
        found.extend(match for match in matches if match)
        assert found or running, f"{process.name} {process.ending()} without it: {pattern}\n{process.logged()}"
        return bool(found)

    await eventually(written, timeout, what=f"{process.name} writes a line as {pattern}")
    return found[0]


def whole_lines(text: str) -> list[str]:
    """The lines of a text that another process may still be writing, without a last one that has no line break."""
    return text.rpartition("\n")[0].splitlines()


def lines_of(file: Path) -> list[str]:
    """The whole lines of a file that another process appends to; none when there is no such file yet."""
    return whole_lines(file.read_text("utf-8")) if file.exists() else []


def is_gone(pid: int) -> bool:
    """Returns whether a process has ended. A zombie has ended, too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
