"""Which instances stay in memory between their turns."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from holdfast import App, Context
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.orchestration.actor import cache
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.actor.cache import InstanceCache
from holdfast.runtime.serialization import load
from holdfast.server import OWN_ACTORS
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()


@app.activity
async def never_run(number: int) -> None: ...


@app.orchestration
async def waits(ctx: Context) -> Any:
    return await ctx.event("go")


@app.orchestration
async def takes(ctx: Context, text: str) -> int:
    await ctx.event("go")
    return len(text)


@app.orchestration
async def calls(ctx: Context) -> None:
    await ctx.call(never_run, 1)


class Stage(InstanceStage):
    def __init__(self) -> None:
        super().__init__(idle_timeout=3600)

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry))

    async def start(self) -> None:
        with patch.object(cache.InstanceCache.__init__, "__defaults__", (3, 1_000_000)):
            InstanceCache.of(self.host.client)
        await super().start()

    def warm(self) -> set[str]:
        actors = self.host._runtime._actor_managers[ORCHESTRATION_TYPE]._active_actors
        return {name for name, actor in actors.items() if actor.work.derived}


on_stage = on_simulated_host(Stage)


@on_stage
async def test_those_used_last_stay_and_the_others_come_back(stage: Stage) -> None:
    names = [f"i-{number}" for number in range(10)]
    for name in names:
        await stage.ask(name, "Start", name="waits")
    # The index has to know of them, and they that it does.
    await asyncio.sleep(60)
    assert len(stage.warm()) <= 4
    await stage.ask(names[0], "Status")
    assert names[0] in stage.warm()
    for name in names:
        await stage.ask(name, "RaiseEvent", name="go", data=name)
    await asyncio.sleep(60)
    for name in names:
        assert (await stage.ask(name, "Status"))["output"] == name


@on_stage
async def test_what_is_under_way_is_not_forgotten(stage: Stage) -> None:
    for number in range(10):
        await stage.ask(f"i-{number}", "Start", name="calls")
    await asyncio.sleep(1)
    # What was sent is crossed off with the next write: until then it is known here only that it was.
    assert len(stage.warm()) == 10
    await asyncio.sleep(60)
    for number in range(10):
        await stage.ask(f"i-{number}", "Status")
    assert len(stage.warm()) <= 4
    answer = load(await stage.host.client.invoke_method("PushPopActor", "activities", "Stats", b""))
    assert answer["counters"]["pushed"] == 10


class _Cup:
    def evict(self) -> bool:
        return True


def test_one_that_has_gone_is_not_kept() -> None:
    kept = InstanceCache(most=1)
    cups = [_Cup() for _ in range(5)]
    for cup in cups:
        kept.used(cup)
    assert len(kept._sizes) == 1
    kept.left(cups[-1])
    assert len(kept._sizes) == 0
    kept.used(cups.pop())
    del cup
    cups.clear()
    gc.collect()
    other = _Cup()
    kept.used(other)
    assert [mark() for mark in kept._sizes] == [other]


class _Busy:
    def evict(self) -> bool:
        return False


def test_large_ones_leave_before_there_are_many() -> None:
    kept = InstanceCache(most=100, most_bytes=50)
    cups = [_Cup() for _ in range(30)]
    for cup in cups:
        kept.used(cup, 10)
    assert (len(kept._sizes), kept._bytes) == (5, 50)
    # One that grows counts once; one that is too large by itself stays while it is the last that was used.
    kept.used(cups[-1], 60)
    assert (len(kept._sizes), kept._bytes) == (1, 60)
    busy = [_Busy() for _ in range(10)]
    for one in busy:
        kept.used(one, 10)
    assert len(kept._sizes) == 10
    for left in (*busy, cups[-1]):
        kept.left(left)
    assert (len(kept._sizes), kept._bytes) == (0, 0)


@on_stage
async def test_instances_with_large_inputs_are_not_all_kept(stage: Stage) -> None:
    InstanceCache.of(stage.host.client)._most = 100
    InstanceCache.of(stage.host.client)._most_bytes = 250_000
    for number in range(10):
        await stage.ask(f"i-{number}", "Start", name="takes", input="x" * 100_000)
    await asyncio.sleep(60)
    assert len(stage.warm()) <= 3
    for number in range(10):
        await stage.ask(f"i-{number}", "RaiseEvent", name="go", data=number)
        assert (await stage.ask(f"i-{number}", "Status"))["output"] == 100_000
