"""Ids that the server makes up: what need not be read of their instances, and what is done for them ahead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, Context
from holdfast.errors import SaveFailed
from holdfast.kinds import ORCHESTRATION_TYPE, RESCUER_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.recovery.fresh_ids import FreshIds
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults, SimulatedHost
from holdfast.server import OWN_ACTORS
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()


@app.orchestration
async def waits(ctx: Context) -> Any:
    return await ctx.event("go")


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__(idle_timeout=3600)
        #: What was read, and what was called.
        self.read: list[str] = []
        self.called: list[str] = []

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry))

    async def start(self) -> None:
        await super().start()
        load_state, invoke = self.host.client.load_state, self.host.client.invoke_method

        async def noted_load(actor_type: str, actor_id: str, keys: Any) -> Any:
            self.read.append(actor_type)
            return await load_state(actor_type, actor_id, keys)

        async def noted_call(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
            self.called.append(actor_type)
            return await invoke(actor_type, actor_id, method, data)

        self.host.client.load_state = noted_load  # type: ignore[method-assign]
        self.host.client.invoke_method = noted_call  # type: ignore[method-assign]
        self.fresh_ids = FreshIds.of(self.host.client)

    async def begin(self) -> str:
        with self.fresh_ids.name("default") as instance_id:
            assert (await self.ask(instance_id, "Start", name="waits"))["created"]
        return instance_id

    def written(self) -> set[str]:
        rows = self.host.storage.rows.items()
        pages = [load(row[0]) for key, row in rows if f"||{RESCUER_TYPE}||" in key and "||page-" in key]
        return {address for page in pages for address in page}


on_stage = on_simulated_host(Stage)


@on_stage
async def test_nothing_is_read_of_one_that_cannot_be_there(stage: Stage) -> None:
    await stage.begin()
    assert ORCHESTRATION_TYPE not in stage.read
    await stage.ask("named-by-the-caller", "Start", name="waits")
    assert ORCHESTRATION_TYPE in stage.read


@on_stage
async def test_one_that_may_have_been_saved_is_looked_for(stage: Stage) -> None:
    with stage.fresh_ids.name("default") as instance_id:
        await stage.begin()  # the rescuer is registered already
        stage.host.faults = Faults(reply_lost=1.0)
        with pytest.raises(SaveFailed):
            await stage.ask(instance_id, "Start", name="waits")
        stage.host.faults = Faults()
        assert not stage.fresh_ids.claim(instance_id)
        stage.read.clear()
        await stage.ask(instance_id, "Start", name="waits")
        assert ORCHESTRATION_TYPE in stage.read


@on_stage
async def test_a_start_that_is_made_again_does_not_begin_anew(stage: Stage) -> None:
    """The start was saved in another process, and daprd repeats it here a second later."""
    with stage.fresh_ids.name("default") as instance_id:
        other = SimulatedHost(storage=stage.host.storage, idle_timeout=3600)
        for actor_class in (*OWN_ACTORS, orchestration_actor(app.registry)):
            await other.register(actor_class)
        await other.start()
        body = dump({"name": "waits", "seed": "s"})
        first = load(await other.client.invoke_method(ORCHESTRATION_TYPE, instance_id, "Start", body))
        other.crash()
        stage.host.storage.before, stage.host.storage.after = stage.host._before, stage.host._after
        await asyncio.sleep(1)
        again = await stage.ask(instance_id, "Start", name="waits", seed="s")
    assert (first["created"], again["created"]) == (True, False)


@on_stage
async def test_an_id_is_new_only_while_it_is_being_started(stage: Stage) -> None:
    with stage.fresh_ids.name("acme") as instance_id:
        assert not stage.fresh_ids.claim(instance_id)  # another tenant's
    assert not stage.fresh_ids.claim(f"@acme@{instance_id}")


@on_stage
async def test_many_are_written_down_before_they_are_started(stage: Stage) -> None:
    for _ in range(20):
        await stage.begin()
    await asyncio.sleep(0.5)
    ahead = stage.written()
    stage.called.clear()
    begun = {await stage.begin() for _ in range(5)}
    assert begun <= ahead
    assert RESCUER_TYPE not in stage.called


@on_stage
async def test_ids_that_nobody_wanted_are_forgotten(stage: Stage) -> None:
    for _ in range(20):
        await stage.begin()
    await asyncio.sleep(60)
    assert stage.written() == set()
    stage.called.clear()
    late = await stage.begin()
    # It is written down by itself, as those are no longer.
    assert RESCUER_TYPE in stage.called
    assert late in stage.written()
