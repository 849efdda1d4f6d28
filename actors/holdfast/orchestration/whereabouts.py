"""Which line of the author's code does something, or waits for it."""

from __future__ import annotations

import asyncio
import linecache
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_OURS = str(Path(__file__).parent)
_ASYNCIO = str(Path(asyncio.__file__).parent)

# A call that goes straight into gather or create_task has no caller but the loop: its coroutine tells where it is made.
_ORIGIN_DEPTH = 8


@contextmanager
def traced() -> Iterator[None]:
    """Coroutines that are made meanwhile know where."""
    depth = sys.get_coroutine_origin_tracking_depth()
    sys.set_coroutine_origin_tracking_depth(_ORIGIN_DEPTH)
    try:
        yield
    finally:
        sys.set_coroutine_origin_tracking_depth(depth)


def line_of_caller() -> str | None:
    """Where the running code was called from, or its task was made."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_step_of(frame):
        if _is_authors(frame.f_code.co_filename):
            return _told(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    task = asyncio.current_task()
    return None if task is None else _origin(task.get_coro())


def line_of_waiting(task: asyncio.Task[Any]) -> str | None:
    """Where a task waits: as deep in the author's code as it goes."""
    found = None
    coro: Any = task.get_coro()
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None) or getattr(coro, "gi_frame", None)
        if frame is not None and _is_authors(frame.f_code.co_filename):
            found = _told(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        coro = getattr(coro, "cr_await", None) or getattr(coro, "ag_await", None)
    return found or _origin(task.get_coro())


def line_of_error(error: BaseException) -> str | None:
    """Where it was raised: as deep in the author's code as it goes."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _is_authors(code.co_filename):
            found = _told(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def _origin(coro: Any) -> str | None:
    for filename, line, function in getattr(coro, "cr_origin", None) or ():
        if _is_authors(filename):
            return _told(filename, line, function)
    return None


def _is_step_of(frame: FrameType) -> bool:
    """Whether this is the loop, under which lies what runs the orchestration."""
    return frame.f_code.co_filename.startswith(_OURS) and frame.f_code.co_name == "run_ready"


def _is_authors(filename: str) -> bool:
    return not filename.startswith((_OURS, _ASYNCIO, "<frozen"))


def _told(filename: str, line: int, function: str) -> str:
    source = linecache.getline(filename, line).strip()
    return f"{filename}:{line}, in {function}" + (f": {source}" if source else "")
