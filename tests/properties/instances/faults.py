"""Faults during users' calls: crashes, queues that refuse, scheduler outages, incompatible deploys."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from holdfast.runtime.simulated import Faults
from tests.properties.instances.programs import FITTING, UNFIT
from tests.properties.instances.server import QUEUES, Setting

if TYPE_CHECKING:
    import random
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from tests.properties.instances.cases import Case
    from tests.properties.instances.server import Server

Result = TypeVar("Result")

#: How late reminders may be, in seconds.
LATEST = 5.0
#: How long a trouble lasts, in seconds, at most.
LONGEST = 90.0
#: How long code that does not fit may be deployed until every instance that cannot go on with it is BLOCKED.
BLOCKED_WITHIN = 60.0
#: How long an orchestration whose code is there may take meanwhile.
OTHERS_WITHIN = 120.0


@dataclass(frozen=True)
class Scenario:
    """The settings of a run."""

    setting: Setting
    #: How long it is, in seconds, on average, from one trouble to the next.
    peace: float
    troubles: tuple[str, ...]
    #: How long there is trouble at least, in seconds.
    lasts: float

    @classmethod
    def random(cls, random: random.Random) -> Scenario:
        trouble = random.choice((0.0, 0.0, 0.02, 0.1))
        orderly = random.random() < 0.4
        faults = Faults(
            load_fails=trouble,
            remind_fails=trouble / 2,
            save_fails=trouble,
            reply_lost=trouble,
            late_commit=random.choice((0.0, trouble)),
            crash_before_save=0.0 if orderly else trouble / 20,
            crash_after_save=0.0 if orderly else random.choice((trouble / 20, trouble / 4, 0.01)),
            reminder_twice=0.3,
            reminder_late=0.3,
            latest=LATEST,
            slowest=random.choice((0.001, 0.02)),
        )
        setting = Setting(
            faults=faults,
            idle_timeout=random.choice((0.05, 2.0, 60.0)),
            always_replay=random.random() < 0.3,
            slots=random.choice((2, 7)),
            shared_queues=random.random() < 0.3,
        )
        ends = random.choice(((), ("stop",))) if orderly else ("stop", "kill")
        others = [kind for kind in ("refuse", "scheduler", "unfit") if random.random() < 0.5]
        return cls(setting, random.choice((10.0, 40.0, 200.0)), (*ends, *others), random.uniform(0, 300))

    def only(self, troubles: tuple[str, ...]) -> Scenario:
        """Without faults of the storage, and with no other troubles than these."""
        quiet = Faults(reminder_twice=0.3, reminder_late=0.3, latest=LATEST, slowest=self.setting.faults.slowest)
        crashes = replace(quiet, crash_after_save=0.05) if "kill" in troubles else quiet
        return replace(self, troubles=troubles, setting=replace(self.setting, faults=crashes))

    @property
    def orderly(self) -> bool:
        """Whether all processes end by a regular stop."""
        return "kill" not in self.troubles and not self.setting.faults.crash_after_save

    @property
    def loses_replies(self) -> bool:
        """Whether a save may be committed although its caller hears that it failed."""
        return bool(self.setting.faults.reply_lost or self.setting.faults.late_commit)


class FaultInjector:
    """Injects one fault after the other. Between them the server is up."""

    def __init__(self, server: Server, scenario: Scenario, generator: random.Random, cases: Sequence[Case]) -> None:
        self._server = server
        self._scenario = scenario
        self._random = generator
        self._cases = cases
        #: Set when users have done all they do.
        self.users_are_done = False
        self.count = 0

    async def happen(self) -> None:
        """Until users are done and the time is over; then the server is up, with code that fits, and no fault."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._scenario.lasts
        while not (self.users_are_done and clock() >= until):
            await self._while_up(min(self._random.expovariate(1 / self._scenario.peace), 20.0))
            if not self._server.up:
                await self._restart("kill")
            elif self._scenario.troubles and self._random.random() < 20.0 / self._scenario.peace:
                self.count += 1
                await self._have(self._random.choice(self._scenario.troubles))
        if not self._server.up:
            await self._restart("kill")
        self._server.faults = Faults()

    async def _have(self, kind: str) -> None:
        match kind:
            case "refuse":
                await self._refuse()
            case "scheduler":
                await self._lose_scheduler()
            case "unfit":
                await self._deploy_unfit()
            case _:
                await self._restart(kind)

    async def _refuse(self) -> None:
        queue = self._random.choice(QUEUES)
        filler = await self._insist(self._server.refuse(queue))
        await self._while_up(self._random.uniform(0, LONGEST))
        await self._insist(self._server.take_again(queue, filler))

    async def _lose_scheduler(self) -> None:
        self._server.disturbed()
        self._server.storage.scheduler_up = False
        await self._while_up(self._random.uniform(0, LONGEST))
        self._server.disturbed()
        self._server.storage.scheduler_up = True

    async def _deploy_unfit(self) -> None:
        if self._server.starts_under_way:
            return
        self._server.fits.clear()
        self._server.deployed, changed = UNFIT[self._random.choice(sorted(UNFIT))]
        await self._restart(self._some_end(), faults=Faults(slowest=0.01))
        await asyncio.sleep(BLOCKED_WITHIN)
        await self._check_blocked(changed)
        await self._check_others()
        self._server.faults = self._scenario.setting.faults
        await self._while_up(self._random.uniform(0, LONGEST))
        self._server.deployed = FITTING
        await self._restart(self._some_end() if self._server.up else "kill")
        self._server.fits.set()

    async def _check_blocked(self, changed: tuple[str, ...]) -> None:
        """BLOCKED is what cannot go on with this code, and nothing else."""
        for case in self._cases:
            if case.started and case.kept:
                status = await self._server.instance(case.instance_id, "Status")
                expected = case.name in changed and status["ended_at"] is None
                assert (status["status"] == "BLOCKED") == expected, status

    async def _check_others(self) -> None:
        """Asserts that activities whose code is missing delay no others."""
        instance_id = f"meanwhile-{self.count}"
        await self._server.instance(instance_id, "Start", {"name": "side_by_side", "input": 3, "seed": instance_id})
        await asyncio.sleep(OTHERS_WITHIN)
        status = await self._server.instance(instance_id, "Status")
        assert status["status"] == "COMPLETED", status

    def _some_end(self) -> str:
        return self._random.choice([end for end in ("stop", "kill") if end in self._scenario.troubles] or ["stop"])

    async def _restart(self, end: str, *, faults: Faults | None = None) -> None:
        await (self._server.kill() if end == "kill" else self._server.stop())
        await asyncio.sleep(self._random.uniform(0, 3))
        await self._server.start(faults=faults)

    async def _while_up(self, seconds: float) -> None:
        """Lets time pass, until a fault ends the process."""
        while seconds > 0 and self._server.up:
            await asyncio.sleep(min(seconds, 1.0))
            seconds -= 1.0

    async def _insist(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Awaits the work, which must finish despite the fault."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=1.0)
                if not self._server.up:
                    await self._restart("kill")
        finally:
            task.cancel()
        return await task
