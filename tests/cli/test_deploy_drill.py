"""A drill: an incompatible deploy under 200 running instances, and both ways out of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Client
from tests.cli import drilled
from tests.cli.conftest import Command
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
INSTANCES = 200
NOTES = 2
# How many calls are made at once.
CALLERS = 20

CHARGED = "receipt = await ctx.call(charge, number)"
#: The code of each deploy: what the first version has instead of this line.
TEXTS = {
    "first": CHARGED,
    "broken": f"await ctx.call(add_tax, number)\n    {CHARGED}",
    "mended": f'if ctx.patched("2026-12-tax"):\n        await ctx.call(add_tax, number)\n    {CHARGED}',
}


class Drill:
    """A shop whose code is replaced between two starts of its server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder, "drilled:app")
        self.client = Client(self.server.url)
        self.ids = [f"order-{number:03}" for number in range(INSTANCES)]

    async def deploy(self, text: str) -> None:
        """Kills the server and starts it with other code."""
        await self.server.kill()
        self._write(text, "drilled")
        await self.server.start()

    def check(self, text: str) -> tuple[int, set[str]]:
        """Returns the exit code of the check of a code before its deploy, and the instances that it names."""
        self._write(text, f"to_deploy_{text}")
        app = f"to_deploy_{text}:app"
        ended = Command(self.server.url, self.folder).orchestration("check", app, "--json")
        found = ended.json()
        assert (found["instances"], found["checked"], found["unchecked"]) == (INSTANCES, INSTANCES, {})
        return ended.code, {one["instance_id"] for one in found["blocked"]}

    async def each(self, call: Callable[[str], Awaitable[object]]) -> None:
        """Makes a call for each instance."""
        ids = iter(self.ids)

        async def caller() -> None:
            for instance_id in ids:
                await call(instance_id)

        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(caller())

    async def counts_are(self, **statuses: int) -> None:
        async def counted() -> bool:
            return dict((await self.client.orchestration_counts()).counts) == statuses

        await eventually(counted, what=f"the counts are {statuses}")

    async def note(self, number: int) -> None:
        """Sends a note to each BLOCKED instance."""
        sent = await self.client.bulk("raise", event="notes", data=f"note {number}", status="BLOCKED")
        assert (sent.done, sent.failed) == (INSTANCES, [])

    def _write(self, text: str, module: str) -> None:
        code = Path(drilled.__file__).read_text()
        assert CHARGED in code
        file = self.folder / f"{module}.py"
        file.write_text(code.replace(CHARGED, TEXTS[text]))
        # Python takes a compiled module for current by the size and the whole seconds of its source.
        os.utime(file, (0, len(TEXTS[text])))


@pytest.mark.parametrize("way_out", ["first", "mended"])
async def test_an_incompatible_deploy_loses_nothing(
    tmp_path: Path, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    drill = Drill(tmp_path)
    await drill.deploy("first")
    try:
        async with drill.client as client:
            await drill.each(lambda instance_id: client.start("order", instance_id[-3:], instance_id=instance_id))

            async def all_charged() -> bool:
                return len([one async for one in client.orchestrations(tags={"charged": "yes"})]) == INSTANCES

            await eventually(all_charged, what="all wait for a note")
            if way_out == "mended":
                assert await asyncio.to_thread(drill.check, "broken") == (1, set(drill.ids))

            await drill.deploy("broken")
            await drill.counts_are(BLOCKED=INSTANCES)
            reason = (await client.orchestration(drill.ids[-1]).status()).blocked
            assert reason is not None
            assert (reason.expected, reason.found) == (
                "event 2, ActivityScheduled (charge)",
                "ActivityScheduled (add_tax)",
            )
            shown = await asyncio.to_thread(Command(drill.server.url, tmp_path).orchestration, "status", drill.ids[0])
            for text in (reason.expected, reason.found, "drilled.py:", "await ctx.call(add_tax, number)"):
                assert text in shown.output
            await drill.note(0)
            # What they were sent survives the next crash.
            await drill.deploy("broken")
            await drill.note(1)
            if way_out == "mended":
                assert await asyncio.to_thread(drill.check, way_out) == (0, set())

            await drill.deploy(way_out)
            await drill.counts_are(COMPLETED=INSTANCES)

            async def ended_as_it_began(instance_id: str) -> None:
                result = await client.orchestration(instance_id).result(timeout=30)
                assert result == f"{instance_id[-3:]} charged: note 0, note 1"

            await drill.each(ended_as_it_began)
            new = await client.start("order", "new", instance_id="order-new")
            for note in range(NOTES):
                assert await new.raise_event("notes", f"note {note}")
            assert await new.result(timeout=30) == "new charged: note 0, note 1"
            calls = [event.details["name"] async for event in new.history() if event.type == "ActivityScheduled"]
            assert calls == (["charge"] if way_out == "first" else ["add_tax", "charge"])
    finally:
        await drill.server.kill()
