"""Recovery where the host saves reminders with state: an instance's own reminder, and no rescuer."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from holdfast.errors import HoldfastError
from holdfast.kinds import ORCHESTRATION_TYPE, QUEUE_TYPE, RESCUER_TYPE
from holdfast.orchestration.actor.actor import RESCUE_SECONDS, orchestration_actor
from holdfast.orchestration.recovery.fresh_ids import FreshIds
from holdfast.runtime.simulated import Faults
from holdfast.server import OWN_ACTORS
from tests.support.index_contents import entries_in_index
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

    from holdfast.runtime.contract import ActorAddress

DAY = 24 * 3600.0

app = App()


@app.activity
async def never_run() -> None: ...


@app.orchestration
async def calls(ctx: Context) -> None:
    await ctx.call(never_run)


@app.orchestration
async def quick(ctx: Context) -> str:
    return "done"


@app.orchestration
async def sleeps(ctx: Context) -> str:
    await asyncio.sleep(3600)
    return "slept"


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__(idle_timeout=3600, saves_reminders=True)
        #: The instances whose reminder has fired.
        self.woken: list[str] = []

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry))

    async def start(self) -> None:
        await super().start()
        self.listen()

    async def restart(self) -> None:
        self.host.faults = Faults()
        await super().restart()
        self.listen()

    def listen(self) -> None:
        fire = self.host.reminders._fire

        async def heard(address: ActorAddress, name: str, body: bytes) -> None:
            if address.type == ORCHESTRATION_TYPE:
                self.woken.append(address.id)
            await fire(address, name, body)

        self.host.reminders._fire = heard

    async def queue(self, method: str, data: Any = None) -> Any:
        return await self.invoke(QUEUE_TYPE, "activities", method, data)

    async def pushed(self) -> int:
        return int((await self.queue("Stats"))["counters"].get("pushed", 0))

    async def fill(self) -> None:
        await self.queue("SetConfig", {"capacity": 1})
        await self.queue("Push", {"item": "in the way"})

    def reminders(self) -> list[str]:
        return [address.id for address, _ in self.host.storage.reminders if address.type == ORCHESTRATION_TYPE]


class RetainingStage(Stage):
    """Ended instances are deleted after a day."""

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry, retention_seconds=DAY))


on_stage = on_simulated_host(Stage)
on_retaining_stage = on_simulated_host(RetainingStage)


@on_stage
async def test_no_rescuer_is_asked(stage: Stage) -> None:
    await stage.ask("i", "Start", name="calls")
    # So many that elsewhere ids would be made up ahead, and told to the rescuer.
    fresh_ids = FreshIds.of(stage.host.client)
    for _ in range(20):
        with fresh_ids.name("default") as instance_id:
            assert (await stage.ask(instance_id, "Start", name="calls"))["created"]
    await asyncio.sleep(60)
    assert not [key for key in stage.host.storage.rows if RESCUER_TYPE in key]


@on_stage
async def test_an_instance_that_settled_is_not_woken(stage: Stage) -> None:
    await asyncio.gather(*(stage.ask(f"i-{number}", "Start", name="quick") for number in range(50)))
    await asyncio.sleep(20)
    assert stage.woken == []
    # The next save of any actor deletes the reminders that are not needed any more.
    await stage.queue("Push", {"item": 1})
    assert stage.reminders() == []


@on_stage
async def test_effects_that_a_crashed_process_did_not_send_are_sent_by_the_next(stage: Stage) -> None:
    stage.host.faults = Faults(crash_after_save=1.0)
    asked = asyncio.ensure_future(stage.ask("i", "Start", name="calls"))
    await stage.host.crashed.wait()
    with suppress(HoldfastError):
        await asked
    await stage.restart()
    assert await stage.pushed() == 0
    await asyncio.sleep(30)
    assert await stage.pushed() == 1
    assert "i" in stage.woken
    await stage.queue("Push", {"item": 1})
    assert stage.reminders() == []


@on_stage
async def test_an_instance_that_is_read_after_a_crash_is_recovered_all_the_same(stage: Stage) -> None:
    stage.host.faults = Faults(crash_after_save=1.0)
    asked = asyncio.ensure_future(stage.ask("i", "Start", name="sleeps"))
    await stage.host.crashed.wait()
    with suppress(HoldfastError):
        await asked
    await stage.restart()
    # Its timer is the later one of its two deadlines.
    assert (await stage.ask("i", "Status"))["status"] == "RUNNING"
    await asyncio.sleep(30)
    assert set(await entries_in_index(stage.host.client)) == {"i"}
    await asyncio.sleep(3600)
    assert (await stage.ask("i", "Status"))["output"] == "slept"


@on_retaining_stage
async def test_an_ended_instance_that_is_read_after_a_crash_is_listed_all_the_same(stage: RetainingStage) -> None:
    """The reminder of its deletion does not take the place of the one that recovers it."""
    stage.host.faults = Faults(crash_after_save=1.0)
    asked = asyncio.ensure_future(stage.ask("i", "Start", name="quick"))
    await stage.host.crashed.wait()
    with suppress(HoldfastError):
        await asked
    await stage.restart()
    assert (await stage.ask("i", "Status"))["status"] == "COMPLETED"
    await asyncio.sleep(30)
    assert (await entries_in_index(stage.host.client))["i"].status == "COMPLETED"
    assert len(stage.woken) == 1
    await asyncio.sleep(DAY)
    assert await entries_in_index(stage.host.client) == {}


@on_stage
async def test_an_instance_that_waits_for_long_is_woken_once_to_save_what_has_arrived(stage: Stage) -> None:
    await stage.ask("i", "Start", name="calls")
    await asyncio.sleep(60)
    assert stage.woken == ["i"]
    await asyncio.sleep(600)
    assert stage.woken == ["i"]


@on_stage
async def test_an_instance_that_cannot_send_is_woken_for_each_attempt(stage: Stage) -> None:
    await stage.fill()
    await stage.ask("i", "Start", name="calls")
    await asyncio.sleep(120)
    assert 3 < len(stage.woken) < 15
    await stage.queue("Pop")
    await asyncio.sleep(70)
    assert await stage.pushed() == 2


@on_stage
async def test_reads_do_not_put_recovery_off(stage: Stage) -> None:
    await stage.fill()
    await stage.ask("i", "Start", name="calls")
    await stage.queue("Pop")
    # More often than the instance is woken.
    for _ in range(60):
        await asyncio.sleep(RESCUE_SECONDS / 4)
        await stage.ask("i", "Status")
    assert await stage.pushed() == 2


@on_stage
async def test_a_timer_fires_when_recovery_was_needed_first(stage: Stage) -> None:
    await stage.ask("i", "Start", name="sleeps")
    await asyncio.sleep(3500)
    assert len(stage.woken) <= 1
    await asyncio.sleep(200)
    assert (await stage.ask("i", "Status"))["output"] == "slept"


@on_stage
async def test_a_deactivated_instance_leaves_memory(stage: Stage) -> None:
    await stage.ask("i", "Start", name="quick")
    actors = stage.host._runtime._actor_managers[ORCHESTRATION_TYPE]._active_actors
    [actor] = map(weakref.ref, actors.values())
    await stage.host.stop()
    assert actor() is None
