"""Schedules over a year, in zones whose clocks change, in processes that crash: each tick starts its instance once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from holdfast import App, Context
from holdfast.errors import HoldfastError
from holdfast.kinds import ORCHESTRATION_TYPE, SCHEDULE_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.runtime.in_process import reminders
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.simulated import Faults, VirtualTimeLoop
from holdfast.schedules.actor import schedule_actor
from holdfast.schedules.index import ScheduleIndexActor
from tests.support.seeds import fresh_seeds, noting_seed
from tests.support.simulated import ActorStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest
    from dapr.actor import Actor

YEAR = timedelta(days=365)

#: The zones, with a time of the day that their clocks skip or repeat on a day of the year.
TIMES = {
    "Europe/Berlin": time(2, 30),
    "America/New_York": time(1, 30),
    "America/Santiago": time(23, 30),
    "Australia/Lord_Howe": time(2, 15),
    "Asia/Kathmandu": time(6, 0),
}
# All clocks change at a weekend.
DAYS = "6,0"
WEEKDAYS = (5, 6)
FAULTS = Faults(crash_before_save=0.05, crash_after_save=0.05, save_fails=0.05, reminder_twice=0.1, reminder_late=0.1)

app = App()


@app.orchestration
async def report(ctx: Context) -> None: ...


class Stage(ActorStage):
    def actors(self) -> Iterable[type[Actor]]:
        made = (schedule_actor(app.registry), orchestration_actor(app.registry))
        return (*made, ScheduleIndexActor, InstanceIndexActor, TenantIndexActor, RescuerActor, NotifierActor)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.host.now(), UTC)

    async def ask(self, name: str, method: str, **data: Any) -> Any:
        """Calls a schedule until the process does not end meanwhile."""
        while True:
            try:
                return await self.invoke(SCHEDULE_TYPE, name, method, data or None)
            except (HoldfastError, asyncio.CancelledError):
                await self.start_again()

    async def start_again(self) -> None:
        if self.host.crashed.is_set():
            await self.restart()

    async def pass_until(self, end: datetime) -> None:
        """Lets time pass; a process that ends is followed by the next at once."""
        while (left := (end - self.now).total_seconds()) > 0:
            stopped = asyncio.ensure_future(self.host.crashed.wait())
            await asyncio.wait({stopped}, timeout=left)
            stopped.cancel()
            await self.start_again()

    def instances(self) -> set[str]:
        """Returns the ids of the instances that are stored."""
        rows = (key.split("||") for key in self.host.storage.rows)
        return {actor_id for _, actor_type, actor_id, *_ in rows if actor_type == ORCHESTRATION_TYPE}


def days(zone: str, at: time, since: datetime, until: datetime) -> Iterator[datetime]:
    """Yields when a local time comes at weekends: at the end of a gap in which it lies, once where it comes twice."""
    local = ZoneInfo(zone)
    day = since.astimezone(local).date() - timedelta(days=1)
    while True:
        wanted = datetime.combine(day, at)
        while (moment := wanted.replace(tzinfo=local).astimezone(UTC)).astimezone(local).replace(tzinfo=None) != wanted:
            wanted += timedelta(minutes=1)
        if moment > until:
            return
        if moment > since and day.weekday() in WEEKDAYS:
            yield moment
        day += timedelta(days=1)


def test_each_tick_of_a_year_starts_its_instance_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # The host looks for reminders of other processes so often; here there are none.
    monkeypatch.setattr(reminders, "LONGEST_WAIT", 86_400.0)

    async def run(seed: int) -> None:
        stage = Stage(seed=seed, faults=FAULTS)
        await stage.start()
        begun = {}
        for number, (zone, at) in enumerate(TIMES.items()):
            cron = f"{at.minute} {at.hour} * * {DAYS}"
            answer = await stage.ask(
                f"s{number}",
                "Put",
                orchestration="report",
                cron=cron,
                timezone=zone,
                overlap="allow",
                catch_up_seconds=3600,
            )
            begun[number] = datetime.fromisoformat(answer["created_at"])
        end = stage.now + YEAR
        await stage.pass_until(end)
        stage.host.faults = Faults()
        await asyncio.sleep(120)
        expected = {
            f"s{number}-{tick:%Y%m%dT%H%M%SZ}"
            for number, (zone, at) in enumerate(TIMES.items())
            for tick in days(zone, at, begun[number], end)
        }
        assert stage.instances() == expected
        states = [await stage.invoke(ORCHESTRATION_TYPE, instance, "Status") for instance in sorted(expected)]
        assert {(state["status"], state["execution_id"], state["events"]) for state in states} == {("COMPLETED", 1, 2)}
        found = [await stage.ask(f"s{number}", "Get") for number in begun]
        assert [schedule["missed"] for schedule in found] == [0] * len(TIMES)
        await stage.stop()

    [seed] = fresh_seeds(1)
    with noting_seed(seed, "test_schedules.py"):
        VirtualTimeLoop.run(run(seed))
