"""A process that can be crashed at any point, on a disk that stays."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import SaveFailed, Unavailable
from holdfast.runtime.inprocess import InProcessHost
from holdfast.runtime.simulated.loop import VirtualTimeLoop
from holdfast.runtime.simulated.storage import MemoryStorage

if TYPE_CHECKING:
    from dapr.actor import Actor

    from holdfast.runtime.contract import ActorAddress


@dataclass(slots=True)
class Faults:
    """How likely each fault is, from 0 to 1; all of them from one seed, so that a run can be played again."""

    load_fails: float = 0.0
    #: The reminder is not registered.
    remind_fails: float = 0.0
    #: The save changes nothing.
    save_fails: float = 0.0
    #: The save is done, but whoever asked for it hears that it failed.
    reply_lost: float = 0.0
    #: The process ends before the save.
    crash_before_save: float = 0.0
    #: The process ends between the save and the reply.
    crash_after_save: float = 0.0
    reminder_twice: float = 0.0
    reminder_late: float = 0.0
    #: The longest a reminder is late, and the longest a storage call takes, in seconds.
    latest: float = 30.0
    slowest: float = 0.01


class SimulatedHost(InProcessHost):
    """Runs on a :class:`VirtualTimeLoop` only. What is random in it comes from the seed."""

    name = "simulated"

    def __init__(
        self, *, seed: int = 0, faults: Faults | None = None, storage: MemoryStorage | None = None, **options: Any
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise TypeError("a SimulatedHost runs on a VirtualTimeLoop")
        self.faults = faults or Faults()
        self.storage = storage or MemoryStorage(loop.wall_clock)
        self.storage.before, self.storage.after = self._before, self._after
        self.crashed = asyncio.Event()
        self._seed = seed
        self._random = random.Random(seed)
        self._classes: list[type[Actor]] = []
        self._options = options
        super().__init__(self.storage, now=loop.wall_clock, **options)

    async def register(self, actor_class: type[Actor]) -> None:
        self._classes.append(actor_class)
        await super().register(actor_class)

    def crash(self) -> None:
        """The process is gone: every turn ends where it stands, and callers hear nothing but an error."""
        self.abort()
        self.crashed.set()

    async def restarted(self) -> Self:
        """A new process on the same disk, with the same actor classes."""
        if not self.crashed.is_set():
            self.crash()
        following = type(self)(seed=self._seed + 1, faults=self.faults, storage=self.storage, **self._options)
        for actor_class in self._classes:
            await following.register(actor_class)
        await following.start()
        return following

    async def _before(self, what: str) -> None:
        await asyncio.sleep(self._random.uniform(0, self.faults.slowest))
        if what == "load" and self._strikes(self.faults.load_fails):
            raise Unavailable
        if what == "remind" and self._strikes(self.faults.remind_fails):
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
                raise SaveFailed("The reply was lost.")
        await asyncio.sleep(self._random.uniform(0, self.faults.slowest))

    def _strikes(self, likelihood: float) -> bool:
        return likelihood > 0 and self._random.random() < likelihood

    async def _die(self) -> None:
        self.crash()
        await asyncio.get_running_loop().create_future()  # until the crash ends this turn too

    async def _fire_reminder(self, address: ActorAddress, name: str, body: bytes) -> None:
        if self._strikes(self.faults.reminder_late):
            await asyncio.sleep(self._random.uniform(0, self.faults.latest))
        await super()._fire_reminder(address, name, body)
        if self._strikes(self.faults.reminder_twice):
            await super()._fire_reminder(address, name, body)
