"""An event loop with virtual time: when no task is ready, the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# An arbitrary time, the same in every run.
_BEGINNING = 1_800_000_000.0


class Deadlock(Exception):
    """Raised when every task waits for an event that will never occur."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Supports ``asyncio.sleep``, ``timeout`` and ``call_later`` without real waiting."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._wall_clock_ahead = _BEGINNING
        super().__init__(_JumpingSelector(self._jump, self._reach))
        # Real clocks have a nanosecond, which is lost in the rounding of times beyond 194 days (2^24 s): asyncio would
        # never find a timer due.
        self._clock_resolution = 1e-6

    @classmethod
    def run(cls, main: Coroutine[Any, Any, Result]) -> Result:
        """Like ``asyncio.run``."""
        with asyncio.Runner(loop_factory=cls) as runner:
            return runner.run(main)

    def time(self) -> float:
        return self._virtual_now

    def wall_clock(self) -> float:
        """Returns the time in Unix seconds, as an actor's clock."""
        return self._wall_clock_ahead + self._virtual_now

    def step_wall_clock(self, seconds: float) -> None:
        """Moves the wall clock forward, or back if negative. Sleeping tasks are not affected."""
        self._wall_clock_ahead += seconds

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        # A thread would run in real time; the SDK's calls are short.
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            # Raised where the future is awaited, as with a thread.
            future.set_exception(error)
        return future

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise Deadlock
        # At least to the next timer: the sum may be rounded down.
        self._virtual_now = max(self._virtual_now + seconds, self._scheduled[0].when())  # type: ignore[attr-defined]

    def _reach(self) -> None:
        """Moves the clock to a timer that is closer than the clock's resolution.

        asyncio fires such a timer at once. A loop that waits until a certain time would then wait again and again for
        the rest, and the clock would stand still because something is always ready.
        """
        if self._scheduled:  # type: ignore[attr-defined]
            moment = self._scheduled[0].when()  # type: ignore[attr-defined]
            if moment <= self._virtual_now + self._clock_resolution:
                self._virtual_now = max(self._virtual_now, moment)


class _JumpingSelector(selectors.BaseSelector):
    def __init__(self, jump: Callable[[float | None], None], reach: Callable[[], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._jump = jump
        self._reach = reach

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if not ready and (timeout is None or timeout > 0):
            self._jump(timeout)
        else:
            self._reach()
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
