"""The list of actors to wake: worked off completely, over a crash too; what is refused is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.kinds import WAKE_LIST_TYPE
from holdfast.runtime.contract import ActorAddress, StateChange
from holdfast.runtime.serialization import dump
from holdfast.runtime.wake_list import ACTOR_ID, PAGES, WakeListActor, page_key, work_off
from tests.support.simulated import ActorStage, on_simulated_host
from tests.support.stacks.actors import Alarm, Reminded
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

IDS = [f"a-{number}" for number in range(5)]
AT_ONCE = [["Alarm", name] for name in IDS]


class Stage(ActorStage):
    def actors(self) -> Iterable[type[Actor]]:
        return WakeListActor, Alarm, Reminded

    async def store(self, *pages: list[Any]) -> None:
        values = {PAGES: [0, len(pages)]} | {page_key(number): page for number, page in enumerate(pages)}
        changes = [StateChange(key, dump(value)) for key, value in values.items()]
        await self.host.client.save_state(WAKE_LIST_TYPE, ACTOR_ID, changes)

    async def left(self) -> list[str]:
        keys = [PAGES, *map(page_key, range(9))]
        return list(await self.host.client.load_state(WAKE_LIST_TYPE, ACTOR_ID, keys))

    async def woken(self, name: str) -> int:
        return len(await self.invoke("Alarm", name, "woken"))

    async def all_woken(self) -> bool:
        return all([await self.woken(name) for name in IDS])


@on_simulated_host(Stage)
async def test_every_actor_is_woken_once_and_the_list_is_gone(stage: Stage) -> None:
    later = stage.host.now() + 3600
    await stage.store(AT_ONCE[:3], [*AT_ONCE[3:], ["Alarm", "later", later], ["Alarm", "overdue", 5.0]])
    await work_off(stage.host.client)
    await eventually(stage.all_woken)
    assert [await stage.woken(name) for name in (*IDS, "overdue", "later")] == [1] * 6 + [0]
    assert await stage.left() == []
    reminder = await stage.host.reminders.get(ActorAddress("Alarm", "later"), "wake")
    assert reminder is not None
    assert reminder.due_at == pytest.approx(later, abs=0.01)


@on_simulated_host(Stage)
async def test_a_crash_between_pages_loses_no_actor(stage: Stage) -> None:
    await stage.store(AT_ONCE[:2], AT_ONCE[2:])
    assert (await stage.invoke(WAKE_LIST_TYPE, ACTOR_ID, "RegisterNext", {}))["left"]
    await stage.restart()
    await work_off(stage.host.client)
    await eventually(stage.all_woken)
    assert await stage.left() == []


@on_simulated_host(Stage)
async def test_an_apps_reminder_keeps_its_period_its_data_and_its_end(stage: Stage) -> None:
    now = stage.host.now()
    body = {"period": "R3/PT10S", "data": "aGk=", "failurePolicy": {"constant": {"interval": "2s", "maxRetries": 4}}}
    entry = {"actor_type": "Reminded", "actor_id": "r", "name": "n", "due_at": now + 60, "ttl_at": now + 600}
    over = entry | {"name": "over", "ttl_at": now - 1}
    await stage.store([entry | {"body": body}, over | {"body": body}])
    await work_off(stage.host.client)
    address = ActorAddress("Reminded", "r")
    found = await stage.host.reminders.get(address, "n")
    assert found is not None
    assert (found.period, found.data, found.repeats_left) == ("R3/PT10S", '"aGk="', 3)
    assert (found.retry_interval, found.max_retries) == (2.0, 4)
    assert found.expires_at == pytest.approx(now + 600, abs=0.01)
    assert await stage.host.reminders.get(address, "over") is None
    assert await stage.left() == []


@on_simulated_host(Stage)
async def test_a_reminder_that_is_refused_is_kept_for_the_next_server(stage: Stage) -> None:
    refused = {"actor_type": "Reminded", "actor_id": "r", "name": "n", "due_at": 5.0, "body": {"period": "soon"}}
    await stage.store([refused, *AT_ONCE])
    for _ in range(2):
        await work_off(stage.host.client)
        await eventually(stage.all_woken)
        assert len(await stage.left()) == 2


@pytest.mark.parametrize("wrong", [[], None, "1", {"before": "1"}, {"after": 1}])
def test_other_arguments_are_refused(wrong: object) -> None:
    @on_simulated_host(Stage)
    async def check(stage: Stage) -> None:
        with pytest.raises(InvalidRequest, match="the number of a page"):
            await stage.invoke(WAKE_LIST_TYPE, ACTOR_ID, "RegisterNext", wrong)

    check()
