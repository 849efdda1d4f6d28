"""Tasks and futures that lie in sets in the same order in every process.

asyncio keeps futures in sets (``wait``, ``as_completed``, ``TaskGroup``), and walks over them to add callbacks and to
cancel. A set's order comes from the hashes of what is in it, and the hash of a future is its address. Here it is the
number of the future on its loop, so that the order is the same whenever the same code is run.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Result = TypeVar("Result")


class NumberedFuture(asyncio.Future[Result], Generic[Result]):
    """What ``loop.create_future`` gives."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Result], Generic[Result]):
    """What ``create_task`` gives."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        # Before the task is made: that puts it into a set of all tasks.
        self._number = number
        super().__init__(coro, **options)
        # An instance that leaves memory takes its tasks with it; they go on where it is loaded again.
        self._log_destroy_pending = False

    @property
    def number(self) -> int:
        return self._number

    def __hash__(self) -> int:
        return self._number


class Promise(NumberedFuture[str]):
    """What only history can resolve. Says so when nobody waits for it any more."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(number, loop=loop)
        self.on_withdrawal: Callable[[], None] | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        if self.on_withdrawal is not None:
            self.on_withdrawal()
        return True


def install() -> None:
    """Makes asyncio's own sets of futures keep an order on loops that number them; on others nothing changes."""
    # As of Python 3.14 wait() and as_completed() begin with set(what they were given), coroutines too, whose hashes are
    # addresses for good. The name is looked up in the module each time, and both only count it and walk over it.
    asyncio.tasks.set = _distinct  # type: ignore[attr-defined]
    # gather() makes futures of this class of its own.
    asyncio.tasks._GatheringFuture.__hash__ = _number_of  # type: ignore[attr-defined]
    # It picks from the set of the tasks of all loops, whose order comes from those of others.
    asyncio.all_tasks = asyncio.tasks.all_tasks = _all_tasks


_all_tasks_of_any_loop = asyncio.all_tasks


@wraps(_all_tasks_of_any_loop)
def _all_tasks(loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
    live_tasks = getattr(asyncio.get_running_loop() if loop is None else loop, "live_tasks", None)
    return _all_tasks_of_any_loop(loop) if live_tasks is None else set(live_tasks())


def _distinct(items: Iterable[Any] | None = None) -> Any:
    if items is None:
        return set()
    return dict.fromkeys(items) if hasattr(asyncio._get_running_loop(), "next_number") else set(items)


def _number_of(future: Any) -> int:
    number: int | None = getattr(future, "_holdfast_number", None)
    if number is None:
        next_number = getattr(future.get_loop(), "next_number", None)
        number = future._holdfast_number = object.__hash__(future) if next_number is None else next_number()
    return number
