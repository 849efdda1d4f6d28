"""Schedules through the client and the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client
from holdfast.errors import InvalidRequest, NotFound
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

APP = """
from holdfast import App, Context

app = App()

@app.schedule(every_seconds=1, input=4)
@app.orchestration
async def double(ctx: Context, number: int) -> int:
    return 2 * number
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    (tmp_path / "scheduled.py").write_text(APP)
    async with Server(tmp_path, "scheduled:app") as server:
        yield server


async def test_declared_and_made_schedules_run(server: Server) -> None:
    async with Client(server.url) as client:

        async def has_run() -> bool:
            try:
                found = await client.schedule("double")
            except NotFound:
                return False
            return any(tick.status == "COMPLETED" for tick in found.last)

        await eventually(has_run, what="a tick of the declared schedule ran")
        made = await client.schedule(
            "yearly", orchestration="double", input=21, cron="0 0 1 1 *", timezone="Asia/Tokyo"
        )
        assert [tick.month for tick in made.next_at] == [12] * 5  # New Year in Tokyo is still December in UTC
        assert await (await made.trigger()).result(timeout=20) == 42
        now = datetime.now(UTC)
        assert await made.backfill(now - timedelta(days=3 * 366), now) == 3
        await made.pause()
        assert (await made.refresh()).paused
        assert made.next_at == []
        await made.resume()

        async def listed() -> bool:
            return [one.name async for one in client.schedules()] == ["double", "yearly"]

        await eventually(listed, what="both schedules are listed")
        await made.delete()
        with pytest.raises(NotFound):
            await made.refresh()


async def test_wrong_definitions_are_refused(server: Server) -> None:
    async with Client(server.url) as client:
        with pytest.raises(NotFound, match="unknown"):
            await client.schedule("s", orchestration="unknown", cron="0 6 * * *")
        with pytest.raises(InvalidRequest, match="cron"):
            await client.schedule("s", orchestration="double", cron="0 6 * *", input=1)
        with pytest.raises(InvalidRequest, match="input"):
            await client.schedule("s", orchestration="double", cron="0 6 * * *", input="many")
        with pytest.raises(InvalidRequest, match="200"):
            await client.schedule("s" * 201, orchestration="double", cron="0 6 * * *", input=1)
        with pytest.raises(NotFound):
            await client.schedule("s")


async def test_options_of_a_schedule_need_its_orchestration(server: Server) -> None:
    """Without one the schedule would be read, and the options be lost."""
    async with Client(server.url) as client:
        made = await client.schedule("s", orchestration="double", cron="0 6 * * *", input=1)
        for options in ({"cron": "0 7 * * *"}, {"paused": True}, {"input": 2}):
            with pytest.raises(TypeError, match=f"{next(iter(options))}.*orchestration"):
                await client.schedule("s", **options)  # type: ignore[arg-type]
        assert (await made.refresh()).fields["cron"] == "0 6 * * *"


async def test_the_command_line_does_all_of_it(server: Server) -> None:
    def holdfast(*arguments: str) -> Any:
        command = [
            str(Path(sys.executable).with_name("holdfast")),
            "schedule",
            *arguments,
            "--url",
            server.url,
            "--json",
        ]
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)

    made = holdfast("put", "s", "double", "3", "--cron", "0 6 * * *", "--timezone", "Europe/Berlin", "--paused")
    assert (made["input"], made["paused"], made["next_at"]) == (3, True, [])
    assert holdfast("trigger", "s")["instance_id"].startswith("s-manual-")
    holdfast("resume", "s")
    assert len(holdfast("show", "s")["next_at"]) == 5
    assert holdfast("backfill", "s", "--from", "2026-10-23", "--to", "2026-10-27")["ticks"] == 4
    holdfast("pause", "s")

    async def listed() -> bool:
        return "s" in [one["name"] for one in holdfast("list")["schedules"]]

    await eventually(listed, what="the schedule is listed")
    with pytest.raises(subprocess.CalledProcessError):
        holdfast("delete", "s")  # asks, and nobody answers
    assert holdfast("show", "s")["name"] == "s"
    assert holdfast("delete", "s", "--yes") == {"success": True}
