"""Orchestrations and their users on a simulated host, while things break; and what must hold in the end."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.kinds import QUEUE_TYPE
from holdfast.orchestration.recovery.rescuer import SCAN_SECONDS
from holdfast.runtime.simulated import VirtualTimeLoop
from tests.properties.instances.cases import (
    EXPECTED,
    Asked,
    Cancelled,
    Case,
    Collected,
    Collision,
    Delayed,
    Family,
    Forgotten,
    Letters,
    Limited,
    Nap,
    Replaced,
)
from tests.properties.instances.faults import LATEST, FaultInjector, Scenario
from tests.properties.instances.programs import record
from tests.properties.instances.server import QUEUES, Server
from tests.properties.sizes import small_index, small_instances
from tests.support.index_contents import check_stored_index
from tests.support.seeds import noting_seed, reproducible

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_ID = 255

KINDS: dict[str, type[Case]] = dict.fromkeys(EXPECTED, Case) | {
    "reader": Letters,
    "delayed": Delayed,
    "limited": Limited,
    "forgotten": Forgotten,
    "settled": Letters,
    "sleeper": Letters,
    "mailed": Letters,
    "collector": Collected,
    "asked": Asked,
    "perpetual": Cancelled,
    "parent_of_perpetual": Family,
    "collision": Collision,
    "replaced": Replaced,
    "napper": Nap,
}
#: Kinds whose activity takes longer than processes live that are killed: it would be poison, and rightly so.
SLOW = ("long_winded", "settled")


@dataclass(frozen=True)
class Focus:
    """Some kinds of cases and some troubles only: what these are to find, a short run finds."""

    kinds: tuple[str, ...]
    troubles: tuple[str, ...]


def simulate_instances(
    seed: int, instances: int, focus: Focus | None = None, *, saves_reminders: bool | None = None
) -> int:
    """Runs so many under what the seed stands for, and checks what came of them.

    With ``saves_reminders`` reminders are saved together with state; by default they are for every other seed. Answers
    how many operations that were: calls of users, activities that ran, and troubles.
    """
    generator = random.Random(seed)
    index_sizes = small_index(random.Random(seed))
    with noting_seed(seed, "test_instances.py"), small_instances(generator), index_sizes, reproducible(seed):
        saves_reminders = bool(seed % 2) if saves_reminders is None else saves_reminders
        return VirtualTimeLoop.run(_Run(seed, generator, instances, focus, saves_reminders).run())


class _Run:
    def __init__(
        self, seed: int, generator: random.Random, instances: int, focus: Focus | None, saves_reminders: bool
    ) -> None:
        self._random = generator
        self._seed = seed
        scenario = Scenario.random(generator)
        self._scenario = replace(scenario, setting=replace(scenario.setting, saves_reminders=saves_reminders))
        self._kinds: Sequence[str] = list(KINDS)
        if focus is not None:
            self._scenario = self._scenario.only(focus.troubles)
            self._kinds = focus.kinds
        self._cases = [self._case(number) for number in range(instances)]

    def _case(self, number: int) -> Case:
        kind = self._random.choice([kind for kind in self._kinds if self._scenario.orderly or kind not in SLOW])
        if kind in SLOW and self._scenario.loses_replies:
            # A pop whose reply is lost holds its lock until that expires, which is a delivery like any other.
            kind = "in_a_row"
        instance_id, size = f"i-{number}", self._random.randint(0, 5)
        if self._random.random() < 0.2:
            instance_id += "x" * (self._random.randint(200, LONGEST_ID) - len(instance_id))
            size = 20 if kind == "side_by_side" else size
        if kind == "collector":
            size = self._random.choice((1, 5, 60))
        elif kind == "parent_of_perpetual":
            size = max(1, size)
        name = {"collision": "reader", "replaced": "reader"}.get(kind, kind)
        made = KINDS[kind]
        if name in ("mailed", "sleeper") and size and self._random.random() < 0.3:
            made = Cancelled
        return made(
            instance_id=instance_id,
            name=name,
            number=size,
            begins_at=self._random.choice((0.0, self._random.uniform(0, self._scenario.lasts))),
            random=random.Random(self._random.random()),
        )

    async def run(self) -> int:
        record.clear()
        self._server = Server(self._seed, self._random, self._scenario.setting)
        await self._server.start()
        troubles = FaultInjector(self._server, self._scenario, self._random, self._cases)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(troubles.happen())
                async with asyncio.TaskGroup() as users:
                    for case in self._cases:
                        users.create_task(self._use(case))
                troubles.users_are_done = True
            await self._check()
        except* Exception as errors:
            error: BaseException = errors
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from None
        finally:
            await self._server.kill()
        return self._server.calls + record.ran.total() + troubles.count

    async def _use(self, case: Case) -> None:
        await asyncio.sleep(case.begins_at)
        await case.drive(self._server)

    async def _check(self) -> None:
        assert self._server.broken is None, self._server.broken
        for case in self._cases:
            await case.check(self._server)
        self._check_runs()
        await asyncio.sleep(60)
        await self._check_queues()
        await self._check_index()
        await self._check_deletion()

    def _check_runs(self) -> None:
        """Once, where nothing went wrong. What did explains two more runs: of what was delivered, and of what was sent
        again because nothing says that it had arrived. So does an instance that leaves memory within moments."""
        if self._scenario.setting.idle_timeout < SCAN_SECONDS + LATEST:
            return
        most = 1 + 2 * self._server.disturbances + self._server.stops
        too_often = {key: count for key, count in record.ran.items() if count > most}
        assert not too_often, f"{too_often} after {self._server.disturbances} disturbances"

    async def _check_queues(self) -> None:
        """Everything is off the queues when no instance waits for anything any more."""
        for queue in QUEUES:
            stats = await self._server.ask(QUEUE_TYPE, queue, "Stats")
            assert stats["count"] == 0, f"left in {queue}: {stats}"

    async def _check_index(self) -> None:
        listed = await self._server.listed()
        for case in self._cases:
            if case.kept:
                assert listed[case.instance_id] == (case.name, case.status)
        assert check_stored_index(self._server.storage.rows) == len(listed)

    async def _check_deletion(self) -> None:
        """Nothing is left of what is deleted; children are not."""
        for case in self._cases:
            if case.kept:
                await self._server.instance(case.instance_id, "Delete")
        await asyncio.sleep(60)
        listed = await self._server.listed()
        for case in self._cases:
            assert not self._server.rows_of(case.instance_id)
            assert case.instance_id not in listed
        assert check_stored_index(self._server.storage.rows) == len(listed)
