"""Heartbeats of activities that run in a worker of its own process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from holdfast import Client
from tests.cli.test_worker import ACTIVITIES, Worker
from tests.support import workflows
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    shutil.copy(Path(workflows.__file__), tmp_path)
    async with Server(tmp_path, "workflows:app", "--no-worker") as server:
        yield server


async def test_the_next_worker_finds_what_a_killed_one_has_reported(server: Server, tmp_path: Path) -> None:
    async with Client(server.url) as client:
        async with Worker(tmp_path, server.url, name="first") as first:
            run = await client.start(workflows.reporting, 17)
            awaited = f"{server.url}/orchestrations/{run.instance_id}/awaited"

            async def saved() -> bool:
                place = {"execution_id": 1, "scheduled_seq": 2}
                async with aiohttp.ClientSession() as session, session.post(awaited, json=place) as answer:
                    return (await answer.json()).get("heartbeat_details") == '{"row":17}'

            await eventually(saved, what="the report is saved")
            await first.process.kill()
        queue = client.queue(ACTIVITIES)
        [lock] = await queue.in_flight()
        # Not to wait until it expires.
        await queue.requeue(lock.lock_id_prefix)
        async with Worker(tmp_path, server.url, name="second"):
            assert await run.result(timeout=30) == {"row": 17}


async def test_a_report_of_a_thread_hears_at_once_that_it_is_cancelled(server: Server, tmp_path: Path) -> None:
    async with Client(server.url) as client, Worker(tmp_path, server.url) as worker:
        run = await client.start(workflows.reporting_in_thread)
        await worker.says(workflows.BEGUN)
        await run.cancel()
        await worker.says("an activity was cancelled")
        assert await worker.stop() == 0
