"""An event loop on which waiting takes no time: when nothing is ready, the clock jumps to what comes next."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# Some moment, the same in every run.
_BEGINNING = 1_800_000_000.0


class Deadlock(Exception):
    """Every task waits for something that nothing will ever do."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """``asyncio.sleep``, ``timeout`` and ``call_later`` as ever, but an hour passes in no time at all."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._wall_clock_ahead = _BEGINNING
        super().__init__(_JumpingSelector(self._jump))

    @classmethod
    def run(cls, main: Coroutine[Any, Any, Result]) -> Result:
        """Like ``asyncio.run``."""
        with asyncio.Runner(loop_factory=cls) as runner:
            return runner.run(main)

    def time(self) -> float:
        return self._virtual_now

    def wall_clock(self) -> float:
        """Unix seconds, as an actor's clock has them."""
        return self._wall_clock_ahead + self._virtual_now

    def step_wall_clock(self, seconds: float) -> None:
        """Forward, or back when below zero, as somebody may do with a real one. What sleeps does not notice."""
        self._wall_clock_ahead += seconds

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        # A thread would run in real time; what the SDK gives to one is over in an instant.
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            # Belongs to whoever awaits it, as with a thread.
            future.set_exception(error)
        return future

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise Deadlock
        # Never short of what comes next: the sum may be rounded down.
        self._virtual_now = max(self._virtual_now + seconds, self._scheduled[0].when())  # type: ignore[attr-defined]


class _JumpingSelector(selectors.BaseSelector):
    def __init__(self, jump: Callable[[float | None], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if not ready and (timeout is None or timeout > 0):
            self._jump(timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
