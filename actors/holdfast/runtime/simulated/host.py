"""A simulated process that can crash at any point, on a storage that survives it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import SaveFailed, SaveUnanswered, Unavailable
from holdfast.runtime.in_process.host import InProcessHost
from holdfast.runtime.simulated.loop import VirtualTimeLoop
from holdfast.runtime.simulated.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from dapr.actor import Actor

    from holdfast.runtime.contract import ActorAddress


@dataclass(slots=True)
class Faults:
    """The probability of each fault, from 0 to 1; all are drawn from one seed, so that a run can be repeated."""

    load_fails: float = 0.0
    #: The reminder is not registered.
    remind_fails: float = 0.0
    #: The scheduler stops when a reminder is registered, for up to ``longest_outage`` seconds; the state store works.
    scheduler_stops: float = 0.0
    #: The save changes nothing.
    save_fails: float = 0.0
    #: The save succeeds, but its caller gets an error.
    reply_lost: float = 0.0
    #: Likewise, but the save is committed up to ``latest_commit`` seconds later, as by a slow database.
    late_commit: float = 0.0
    #: The process ends before the save.
    crash_before_save: float = 0.0
    #: The process ends between the save and the reply.
    crash_after_save: float = 0.0
    reminder_twice: float = 0.0
    reminder_late: float = 0.0
    #: The longest delay of a reminder, and the longest duration of a storage call, in seconds.
    latest: float = 30.0
    slowest: float = 0.01
    longest_outage: float = 60.0
    latest_commit: float = 5.0


class SimulatedHost(InProcessHost):
    """Runs only on a :class:`VirtualTimeLoop`. All random choices come from the seed."""

    name = "simulated"

    def __init__(
        self,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        storage: MemoryStorage | None = None,
        saves_reminders: bool = False,
        **options: Any,
    ) -> None:
        """``saves_reminders`` simulates a host like the embedded one; otherwise reminders are apart, as Dapr's are."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise TypeError("a SimulatedHost runs on a VirtualTimeLoop")
        self.faults = faults or Faults()
        self.storage = storage or MemoryStorage(loop.wall_clock)
        self.storage.before, self.storage.after = self._before, self._after
        self.storage.commit_delay = self._commit_delay
        self.crashed = asyncio.Event()
        #: Called when a fault occurs, except for late or repeated reminders.
        self.struck: Callable[[], None] = _ignore
        self._seed = seed
        self._random = random.Random(seed)
        self._classes: list[type[Actor]] = []
        self._options = options | {"saves_reminders": saves_reminders}
        super().__init__(self.storage, now=loop.wall_clock, **self._options)

    async def register(self, actor_class: type[Actor]) -> None:
        self._classes.append(actor_class)
        await super().register(actor_class)

    def crash(self) -> None:
        """Ends the process: every turn ends at once, and callers get an error."""
        self.abort()
        # A database finishes its commits before another process has started.
        self.storage.finish_commits()
        self.crashed.set()

    async def restarted(self) -> Self:
        """Returns a new process on the same storage, with the same actor classes."""
        if not self.crashed.is_set():
            self.crash()
        following = type(self)(seed=self._seed + 1, faults=self.faults, storage=self.storage, **self._options)
        for actor_class in self._classes:
            await following.register(actor_class)
        await following.start()
        return following

    def stop_scheduler(self, seconds: float | None = None) -> None:
        """Stops the scheduler for so many seconds, or until :meth:`start_scheduler`; the state store works.

        It stays down when the process crashes and is restarted.
        """
        self.storage.scheduler_up = False
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, self.start_scheduler)

    def start_scheduler(self) -> None:
        """Starts the scheduler; reminders that became due meanwhile fire late."""
        self.storage.scheduler_up = True

    async def _before(self, what: str) -> None:
        await asyncio.sleep(self._random.uniform(0, self.faults.slowest))
        if what == "load" and self._strikes(self.faults.load_fails):
            raise Unavailable
        if what == "remind":
            if self._strikes(self.faults.scheduler_stops):
                self.stop_scheduler(self._random.uniform(0, self.faults.longest_outage))
            if self._strikes(self.faults.remind_fails):
                raise Unavailable
        if what == "save":
            if self._strikes(self.faults.crash_before_save):
                await self._die()
            if self._strikes(self.faults.save_fails):
                raise SaveFailed

    async def _after(self, what: str) -> None:
        if what == "save":
            if self._strikes(self.faults.crash_after_save):
                await self._die()
            if self._strikes(self.faults.reply_lost):
                raise SaveUnanswered("The reply was lost.")
        await asyncio.sleep(self._random.uniform(0, self.faults.slowest))

    def _commit_delay(self) -> float | None:
        if self._strikes(self.faults.late_commit):
            return self._random.uniform(0, self.faults.latest_commit)
        return None

    def _strikes(self, likelihood: float) -> bool:
        if self._happens(likelihood):
            self.struck()
            return True
        return False

    def _happens(self, likelihood: float) -> bool:
        return likelihood > 0 and self._random.random() < likelihood

    async def _die(self) -> None:
        self.crash()
        await asyncio.get_running_loop().create_future()  # until the crash cancels this turn too

    async def _fire_reminder(self, address: ActorAddress, name: str, body: bytes) -> None:
        if self._happens(self.faults.reminder_late):
            await asyncio.sleep(self._random.uniform(0, self.faults.latest))
        await super()._fire_reminder(address, name, body)
        if self._happens(self.faults.reminder_twice):
            await super()._fire_reminder(address, name, body)


def _ignore() -> None:
    pass
