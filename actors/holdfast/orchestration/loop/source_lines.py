"""Finds the line of the author's code that makes a call, waits, or raised an error."""

from __future__ import annotations

import asyncio
import linecache
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_OURS = str(Path(__file__).parents[1])
_ASYNCIO = str(Path(asyncio.__file__).parent)
_PYDANTIC = str(Path(pydantic.__file__).parent)

# A call passed directly to gather or create_task has no caller but the loop; the origin of its coroutine is used.
_ORIGIN_DEPTH = 8


@contextmanager
def traced() -> Iterator[None]:
    """A context in which new coroutines record where they were created."""
    depth = sys.get_coroutine_origin_tracking_depth()
    sys.set_coroutine_origin_tracking_depth(_ORIGIN_DEPTH)
    try:
        yield
    finally:
        sys.set_coroutine_origin_tracking_depth(depth)


def line_of_caller() -> str | None:
    """Returns the line that the running code was called from, or at which its task was created."""
    found = _line_of_frame(sys._getframe(1))
    if found is not None:
        return found
    task = asyncio.current_task()
    return None if task is None else _origin(task.get_coro())


def line_of_thread(thread: int) -> str | None:
    """Returns the line of the orchestration's code that runs in this thread."""
    return _line_of_frame(sys._current_frames().get(thread))


def line_of_function(function: Callable[..., Any]) -> str:
    """Returns the line at which a function is defined."""
    code = function.__code__
    return _location(code.co_filename, code.co_firstlineno, code.co_name)


def line_of_waiting(task: asyncio.Task[Any]) -> str | None:
    """Returns the innermost line of the author's code at which a task waits."""
    found = None
    coro: Any = task.get_coro()
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None) or getattr(coro, "gi_frame", None)
        if frame is not None and _is_authors(frame.f_code.co_filename):
            found = _location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        coro = getattr(coro, "cr_await", None) or getattr(coro, "ag_await", None)
    return found or _origin(task.get_coro())


def line_of_error(error: BaseException) -> str | None:
    """Returns the innermost line of the author's code in the traceback of an error."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _is_authors(code.co_filename):
            found = _location(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def _line_of_frame(frame: FrameType | None) -> str | None:
    while frame is not None and not _is_step_of(frame):
        if _is_authors(frame.f_code.co_filename):
            return _location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def _origin(coro: Any) -> str | None:
    for filename, line, function in getattr(coro, "cr_origin", None) or ():
        if _is_authors(filename):
            return _location(filename, line, function)
    return None


def _is_step_of(frame: FrameType) -> bool:
    """Returns whether a frame is the loop's, below which are the callers of the orchestration."""
    return frame.f_code.co_filename.startswith(_OURS) and frame.f_code.co_name == "run_ready"


def _is_authors(filename: str) -> bool:
    return not filename.startswith((_OURS, _ASYNCIO, _PYDANTIC, "<frozen"))


def _location(filename: str, line: int, function: str) -> str:
    source = linecache.getline(filename, line).strip()
    return f"{filename}:{line}, in {function}" + (f": {source}" if source else "")
