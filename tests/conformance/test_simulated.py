"""The simulated host's own promises: a seed plays the same run again, and its faults break no rule."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.runtime.simulated import Faults, SimulatedHost, VirtualTimeLoop
from tests.support.stacks import actors
from tests.support.stacks.actors import PARTS

pytestmark = pytest.mark.xdist_group("simulated")

FAULTS = Faults(
    save_fails=0.1,
    reply_lost=0.1,
    crash_before_save=0.03,
    crash_after_save=0.03,
    reminder_twice=0.2,
    reminder_late=0.3,
    latest=5.0,
)


class World:
    """A host that is started again whenever it crashes, and what its callers were told."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.failures: list[Any] = []
        self.read: dict[str, list[int]] = {}
        self.woken: list[Any] = []
        self.tried: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}
        self.crashes = 0

    async def run(self) -> None:
        self.host = SimulatedHost(seed=self.seed, faults=FAULTS)
        for actor_class in actors.ACTORS:
            await self.host.register(actor_class)
        await self.host.start()
        keeper = asyncio.create_task(self._keep_running())
        try:
            await asyncio.gather(*(self._write(f"ledger-{n}") for n in range(4)))
            await self._be_woken()
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            await self.host.stop()

    async def _keep_running(self) -> None:
        while True:
            await self.host.crashed.wait()
            self.crashes += 1
            await asyncio.sleep(0.5)
            self.host = await self.host.restarted()

    async def call(self, actor_type: str, actor_id: str, method: str, *data: Any) -> Any:
        body = json.dumps(data[0]).encode() if data else None
        try:
            return json.loads(await self.host.client.invoke_method(actor_type, actor_id, method, body))
        except HoldfastError as error:
            self.failures.append((actor_id, method, error.error_code))
            await asyncio.sleep(0.2)
            raise

    async def insist(self, *call: Any) -> Any:
        """Until it succeeds."""
        while True:
            with contextlib.suppress(HoldfastError):
                return await self.call(*call)

    async def _write(self, ledger: str) -> None:
        for number in range(1, 30):
            self.tried[ledger] = number
            with contextlib.suppress(HoldfastError):
                self.acknowledged[ledger] = await self.call("Ledger", ledger, "write", number)
        self.read[ledger] = await self.insist("Ledger", ledger, "read")

    async def _be_woken(self) -> None:
        await self.insist("Alarm", "alarm", "wake_in", 60)
        await asyncio.sleep(120)
        self.woken = await self.insist("Alarm", "alarm", "woken")


def simulate(seed: int) -> World:
    world = World(seed)
    VirtualTimeLoop.run(world.run())
    return world


def story(world: World) -> tuple[Any, ...]:
    return world.failures, world.read, world.woken, world.crashes


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_plays_the_same_run_again(seed: int) -> None:
    assert story(simulate(seed)) == story(simulate(seed))
    assert story(simulate(seed)) != story(simulate(seed + 1))


@pytest.mark.parametrize("seed", range(25))
def test_faults_break_no_rule(seed: int) -> None:
    world = simulate(seed)
    rows = world.host.storage.rows
    for ledger, tried in world.tried.items():
        stored = [json.loads(value) for key, (value, _) in rows.items() if f"||{ledger}||" in key]
        assert world.acknowledged[ledger] <= stored[0] <= tried
        assert stored == [stored[0]] * len(PARTS) == world.read[ledger]
    assert world.woken


def test_the_faults_happen() -> None:
    worlds = [simulate(seed) for seed in range(10)]
    assert sum(world.crashes for world in worlds) > 10
    assert {code for world in worlds for _, _, code in world.failures} == {"UNAVAILABLE"}
    assert any(len(world.woken) > 1 for world in worlds), "no reminder fired twice"


def test_a_scheduler_that_is_down_takes_and_fires_no_reminder_while_state_is_saved() -> None:
    async def run() -> None:
        host = SimulatedHost()
        for actor_class in actors.ACTORS:
            await host.register(actor_class)
        await host.start()

        async def call(actor_type: str, method: str, *data: Any) -> Any:
            body = json.dumps(data[0]).encode() if data else None
            return json.loads(await host.client.invoke_method(actor_type, "one", method, body))

        await call("Alarm", "wake_in", 60)
        host.stop_scheduler(seconds=300)
        with pytest.raises(HoldfastError):
            await call("Alarm", "wake_in", 10)
        await call("Ledger", "write", 1)
        await asyncio.sleep(290)
        assert await call("Ledger", "read") == [1] * len(PARTS)
        assert not await call("Alarm", "woken")
        await asyncio.sleep(20)
        assert await call("Alarm", "woken")
        await host.stop()

    VirtualTimeLoop.run(run())


def test_a_scheduler_stops_by_chance_and_comes_back() -> None:
    async def run() -> list[bool]:
        host = SimulatedHost(seed=1, faults=Faults(scheduler_stops=0.5, longest_outage=20.0))
        for actor_class in actors.ACTORS:
            await host.register(actor_class)
        await host.start()
        seen = []
        for number in range(20):
            with contextlib.suppress(HoldfastError):
                await host.client.invoke_method("Alarm", f"alarm-{number}", "wake_in", b"1")
            seen.append(host.storage.scheduler_up)
            await asyncio.sleep(5)
        await asyncio.sleep(20)
        assert host.storage.scheduler_up
        await host.stop()
        return seen

    seen = VirtualTimeLoop.run(run())
    assert set(seen) == {True, False}
    assert VirtualTimeLoop.run(run()) == seen


@pytest.mark.parametrize("before", [{"a": 0, "b": 0}, {"a": 0}, {"b": 0}, {}])
def test_a_save_that_is_committed_late_is_whole_or_undone(before: dict[str, int]) -> None:
    async def run(seed: int) -> None:
        host = SimulatedHost(seed=seed)
        for actor_class in actors.ACTORS:
            await host.register(actor_class)
        await host.start()

        async def call(method: str, *data: Any) -> Any:
            body = json.dumps(data[0]).encode() if data else None
            return json.loads(await host.client.invoke_method("Keeper", "one", method, body))

        await call("put", before)
        host.faults = Faults(late_commit=1.0, latest_commit=1.0, slowest=0.5)
        with pytest.raises(HoldfastError):
            await call("put", {"a": 1, "b": 1})
        host.faults = Faults(slowest=0.5)
        seen = {key: value for key in "ab" for value in await call("get", key)}
        await call("put", {"c": 2})
        await asyncio.sleep(10)
        rows = {key.rpartition("||")[2]: json.loads(value) for key, (value, _) in host.storage.rows.items()}
        assert rows == seen | {"c": 2}
        await host.stop()

    for seed in range(40):
        VirtualTimeLoop.run(run(seed))


def test_a_commit_that_is_under_way_is_done_before_the_next_process_starts() -> None:
    async def run() -> None:
        host = SimulatedHost(faults=Faults(late_commit=1.0, latest_commit=1e6))
        for actor_class in actors.ACTORS:
            await host.register(actor_class)
        await host.start()
        with pytest.raises(HoldfastError):
            await host.client.invoke_method("Keeper", "one", "put", b'{"a": 1}')
        assert not host.storage.rows
        host.faults = Faults()
        host = await host.restarted()
        assert json.loads(await host.client.invoke_method("Keeper", "one", "get", b'"a"')) == [1]
        await host.stop()

    VirtualTimeLoop.run(run())
