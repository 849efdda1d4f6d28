"""Reminders that are saved in the transaction of the state they belong to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from dapr.actor import ActorInterface, Remindable

from holdfast.errors import HoldfastError, SaveFailed
from holdfast.runtime.embedded import EmbeddedHost
from holdfast.runtime.in_process.reminders import FIRING_AT_ONCE
from holdfast.runtime.serialization import dump
from holdfast.runtime.simulated import Faults
from holdfast.runtime.unit_of_work import DurableActor
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dapr.actor import Actor


class AlarmInterface(ActorInterface):
    async def Set(self, seconds: float) -> None: ...
    async def Postpone(self, seconds: float | None) -> None: ...
    async def Count(self) -> int: ...


class Alarm(DurableActor, AlarmInterface, Remindable):
    async def Set(self, seconds: Any) -> None:
        async with self.work.turn() as turn:
            turn.put("set", self.now())
            turn.wake_at(self.now() + seconds)

    async def Postpone(self, seconds: Any) -> None:
        self.work.postpone_wake(None if seconds is None else self.now() + seconds)

    async def Count(self) -> int:
        async with self.work.turn() as turn:
            return int(await turn.load("count") or 0)

    async def on_wake(self) -> None:
        async with self.work.turn() as turn:
            turn.put("count", int(await turn.load("count") or 0) + 1)


class Stage(ActorStage):
    def __init__(self) -> None:
        super().__init__(saves_reminders=True)

    def actors(self) -> Iterable[type[Actor]]:
        return (Alarm,)

    async def ask(self, actor_id: str, method: str, data: Any = None) -> Any:
        return await self.invoke("Alarm", actor_id, method, data)

    def due(self) -> set[str]:
        return {address.id for address, _ in self.host.storage.reminders}


on_stage = on_simulated_host(Stage)


@on_stage
async def test_state_and_reminder_are_saved_both_or_neither(stage: Stage) -> None:
    stage.host.faults = Faults(save_fails=1.0)
    with pytest.raises(SaveFailed):
        await stage.ask("a", "Set", 5)
    assert (stage.host.storage.rows, stage.due()) == ({}, set())
    stage.host.faults = Faults()
    await stage.ask("a", "Set", 5)
    assert (len(stage.host.storage.rows), stage.due()) == (1, {"a"})
    await asyncio.sleep(6)
    assert await stage.ask("a", "Count") == 1
    assert stage.due() == set()


@on_stage
async def test_a_crash_after_the_save_keeps_the_reminder(stage: Stage) -> None:
    stage.host.faults = Faults(crash_after_save=1.0)
    asked = asyncio.ensure_future(stage.ask("a", "Set", 5))
    await stage.host.crashed.wait()
    with suppress(HoldfastError):
        await asked
    stage.host.faults = Faults()
    await stage.restart()
    await asyncio.sleep(6)
    assert await stage.ask("a", "Count") == 1


@on_stage
async def test_a_postponed_reminder_fires_at_the_later_time_only(stage: Stage) -> None:
    await stage.ask("a", "Set", 5)
    await stage.ask("a", "Postpone", 20)
    await asyncio.sleep(15)
    assert await stage.ask("a", "Count") == 0
    await asyncio.sleep(10)
    assert await stage.ask("a", "Count") == 1


@on_stage
async def test_a_removed_reminder_does_not_fire_and_the_next_save_of_any_actor_deletes_it(stage: Stage) -> None:
    await stage.ask("a", "Set", 5)
    await stage.ask("a", "Postpone", None)
    await asyncio.sleep(10)
    assert await stage.ask("a", "Count") == 0
    assert stage.due() == {"a"}
    await stage.ask("b", "Set", 3600)
    assert stage.due() == {"b"}


@on_stage
async def test_a_crash_before_that_fires_the_reminder_at_its_earlier_time(stage: Stage) -> None:
    await stage.ask("a", "Set", 5)
    await stage.ask("a", "Postpone", None)
    await stage.restart()
    await asyncio.sleep(10)
    assert await stage.ask("a", "Count") == 1


@on_stage
async def test_a_reminder_that_is_set_again_is_not_removed_by_an_earlier_postponement(stage: Stage) -> None:
    await stage.ask("a", "Set", 5)
    await stage.ask("a", "Postpone", None)
    await stage.ask("a", "Set", 7)
    await stage.ask("b", "Set", 3600)
    await asyncio.sleep(10)
    assert await stage.ask("a", "Count") == 1


@on_stage
async def test_a_save_that_fails_leaves_postponements_to_the_next(stage: Stage) -> None:
    await stage.ask("a", "Set", 5)
    await stage.ask("a", "Postpone", None)
    stage.host.faults = Faults(save_fails=1.0)
    with pytest.raises(SaveFailed):
        await stage.ask("b", "Set", 3600)
    stage.host.faults = Faults()
    await asyncio.sleep(10)
    await stage.ask("b", "Set", 3600)
    assert (await stage.ask("a", "Count"), stage.due()) == (0, {"b"})


@on_stage
async def test_many_removed_reminders_do_not_wait_for_a_save(stage: Stage) -> None:
    names = [f"a-{number}" for number in range(FIRING_AT_ONCE + 1)]
    for name in names:
        await stage.ask(name, "Set", 60)
    for name in names:
        await stage.ask(name, "Postpone", None)
    assert len(stage.due()) == len(names)
    await asyncio.sleep(70)
    assert stage.due() == set()


async def test_an_orderly_stop_of_the_embedded_host_deletes_what_was_removed(tmp_path: Path) -> None:
    host = EmbeddedHost(tmp_path)
    await host.register(Alarm)
    await host.start()
    await host.client.invoke_method("Alarm", "a", "Set", dump(3600))
    await host.client.invoke_method("Alarm", "a", "Postpone", dump(None))
    assert await host._storage.earliest_reminders(10) != []
    await host.stop()
    storage = EmbeddedHost(tmp_path)._storage
    await storage.open()
    assert await storage.earliest_reminders(10) == []
    await storage.close()
