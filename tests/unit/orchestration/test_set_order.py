"""Sets iterate in the same order in every process, where plain Python orders futures by their addresses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.instance import Instance
from holdfast.orchestration.core.replayer import verify_history
from holdfast.runtime.simulated.loop import VirtualTimeLoop
from tests.support.checkout import ROOT
from tests.unit.orchestration.driver import Driver
from tests.unit.orchestration.set_order import app

if TYPE_CHECKING:
    from holdfast import Context


@pytest.fixture(scope="module")
def histories() -> list[str]:
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.unit.orchestration.set_order"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hashes in ("1", "2", "3")
    ]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    return outputs


def test_every_process_makes_the_same_history(histories: list[str]) -> None:
    assert "grouped" in histories[0]
    assert len(set(histories)) == 1


def test_a_history_of_another_process_is_replayed_here(histories: list[str]) -> None:
    events = [load_event(event) for event in json.loads(histories[0])]
    verify_history(app.registry, "test", events)
    instance = Instance.restore(app.registry, "test", events[:-2])
    assert instance.deliver((), events[-1].timestamp).events == events[-2:]


def test_other_loops_are_left_as_they_are() -> None:
    async def main() -> tuple[set[str], set[str]]:
        async def quick(name: str) -> str:
            return name

        together = asyncio.gather(quick("a"), quick("b"))
        assert hash(together) == hash(together)
        futures: set[asyncio.Future[Any]] = {together, asyncio.create_task(quick("c"))}
        done, _ = await asyncio.wait(futures)
        completed = {await following for following in asyncio.as_completed([quick("d"), quick("e")])}
        assert type(done) is set
        return {str(future.result()) for future in done}, completed

    assert VirtualTimeLoop.run(main()) == ({"['a', 'b']", "c"}, {"d", "e"})


def test_tasks_of_different_instances_are_told_apart_in_the_set_of_all_tasks() -> None:
    """Otherwise the more instances were in memory, the longer it took to make a task."""
    app = App()
    hashes: set[int] = set()

    @app.orchestration
    async def orchestration(ctx: Context) -> None:
        hashes.add(hash(asyncio.current_task()))

    for number in range(500):
        Driver(app, f"i-{number}").start("orchestration")
    assert len(hashes) == 500
