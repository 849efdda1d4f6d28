"""Idempotent activities in workers that are held up, and with results that cannot be stored."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Client, errors
from holdfast.client.idempotency import IdempotencyCalls
from tests.cli import idempotent_activities
from tests.cli.test_worker import Worker
from tests.support.server import Server
from tests.support.waiting import eventually, lines_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

APP = "idempotent_activities:app"


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that runs no activities."""
    shutil.copy(Path(idempotent_activities.__file__), tmp_path)
    async with Server(tmp_path, APP, "--no-worker") as server:
        yield server


@pytest.fixture
async def client(alone: Server) -> AsyncIterator[Client]:
    async with Client(alone.url) as made:
        yield made


def effects(folder: Path) -> list[str]:
    return lines_of(folder / "effects")


async def happened(folder: Path, count: int) -> list[str]:
    """The effects, when there are so many."""

    async def so_many() -> bool:
        return len(effects(folder)) >= count

    await eventually(so_many, what=f"{count} effects")
    return effects(folder)


@pytest.mark.parametrize("late", ["goes on", "ends at once"])
async def test_a_worker_that_was_held_up_is_not_heard_any_more(
    client: Client, alone: Server, tmp_path: Path, late: str
) -> None:
    """Its lock has run out, and another one has the activity: it is stopped, and what it came to does not count."""
    async with AsyncExitStack() as workers:
        await workers.enter_async_context(Worker(tmp_path, alone.url, app=APP, name="stalled"))
        run = await client.start(idempotent_activities.holding)
        stalled = int((await happened(tmp_path, 1))[0].split()[0])
        os.kill(stalled, signal.SIGSTOP)
        await workers.enter_async_context(Worker(tmp_path, alone.url, app=APP, name="next"))
        next_one = int((await happened(tmp_path, 2))[1].split()[0])
        if late == "ends at once":
            (tmp_path / f"released-{stalled}").touch()
        os.kill(stalled, signal.SIGCONT)
        if late == "goes on":
            assert (await happened(tmp_path, 3))[2] == f"{stalled} stopped"
        else:

            async def given_up() -> bool:
                return "WARNING" in (tmp_path / "stalled.log").read_text()

            await eventually(given_up, what="the first worker's report is refused as too late")
        assert (await run.status()).status == "RUNNING"
        (tmp_path / f"released-{next_one}").touch()
        assert await run.result(timeout=20) == next_one
    assert [line for line in effects(tmp_path) if line.endswith("began")] == [
        f"{stalled} began",
        f"{next_one} began",
    ]
    kept = await IdempotencyCalls(client._connection, None, f"activity/{run.instance_id}:1:2").get()
    assert (kept["status"], kept["result"], kept["attempts"]) == ("SUCCESS", {"result": next_one}, 2)


async def test_the_key_of_its_call_is_the_activitys_own_to_use(client: Client, alone: Server, tmp_path: Path) -> None:
    async with Worker(tmp_path, alone.url, app=APP):
        run = await client.start(idempotent_activities.mailing, alone.url)
        assert await run.result(timeout=20) == "sent"
    assert (await IdempotencyCalls(client._connection, None, f"{run.instance_id}:1:2").get())["result"] == "sent"


async def test_a_result_may_be_nested_98_levels_deep(client: Client, alone: Server, tmp_path: Path) -> None:
    async with Worker(tmp_path, alone.url, app=APP):
        run = await client.start(idempotent_activities.nesting, 98)
        assert str(await run.result(timeout=20)) == "[" * 98 + "1" + "]" * 98


@pytest.mark.parametrize("levels", [99, 230, 0])
async def test_a_result_that_cannot_be_kept_does_not_make_it_happen_again(
    client: Client, alone: Server, tmp_path: Path, levels: int
) -> None:
    async with Worker(tmp_path, alone.url, app=APP):
        run = await client.start(idempotent_activities.nesting, levels)
        with pytest.raises(errors.OrchestrationFailed, match="It has happened, but its result cannot be kept"):
            await run.result(timeout=20)
    assert effects(tmp_path) == ["nested"]
    kept = await IdempotencyCalls(client._connection, None, f"activity/{run.instance_id}:1:2").get()
    assert (kept["status"], kept["result"]["error"]["type"]) == ("SUCCESS", "ResultNotKept")
