"""The simulated host's own promises: a seed plays the same run again, and its faults break no rule."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

from conformance import actors
from conformance.actors import PARTS
from holdfast.errors import HoldfastError
from holdfast.runtime.simulated import Faults, SimulatedHost, VirtualTimeLoop

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
