"""Background tasks of an actor, run after its turn: calls to other actors that its callers do not wait for."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class BackgroundTasks:
    """Runs at most one task of each name at a time. A task started again while it runs is run once more.

    A task is outside every turn, so two actors that call each other do not deadlock. A failed task is only logged: its
    starter also has a reminder that starts it again. ``idle`` is called when no task runs any more.
    """

    def __init__(self, owner: str, idle: Callable[[], None] | None = None) -> None:
        self._owner = owner
        self._idle = idle
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def start(self, name: str, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name in self._running:
            self._again[name] = task  # the running task may have read the state before this start
        else:
            # A separate context: the task is not a part of the turn that started it.
            running = asyncio.get_running_loop().create_task(self._run(name, task), context=contextvars.Context())
            self._running[name] = running

    async def close(self) -> None:
        """Cancels the running tasks; their work is left to the reminder."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, name: str, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await task()
            while following := self._again.pop(name, None):
                await following()
        except HoldfastError as error:
            log.warning("%s: background task %s failed: %s", self._owner, name, error)
        except Exception:
            # No caller awaits the task, so its error is logged here.
            log.exception("%s: background task %s failed", self._owner, name)
        finally:
            self._again.pop(name, None)
            del self._running[name]
            if not self._running and self._idle is not None:
                self._idle()


async def run_some_at_once(calls: Iterable[Coroutine[Any, Any, Result]], at_once: int) -> list[Result]:
    """Runs the calls, some at once, and waits for all. Then raises the first failure, if there is one."""
    free = asyncio.Semaphore(at_once)

    async def run(call: Coroutine[Any, Any, Result]) -> Result:
        async with free:
            return await call

    results: list[Result] = []
    for result in await asyncio.gather(*map(run, calls), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
