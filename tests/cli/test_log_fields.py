"""The log of a server and of a worker: what a line is about, and why something failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from tests.cli.test_worker import Worker
from tests.support.server import Server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Command

SHOP = """
import asyncio
import logging

from holdfast import App, Context

app = App()
log = logging.getLogger("shop")


@app.activity(queue="parcels")
def ship(card: str) -> None:
    log.warning("shipping")


@app.activity
async def charge(card: str) -> None:
    await asyncio.to_thread(log.warning, "charging")
    raise ValueError(card)


@app.orchestration
async def checkout(ctx: Context, card: str) -> None:
    ctx.log.warning("begins")
    log.warning("once more")
    await ctx.call(ship, card)
    await ctx.call(charge, card)
"""
SECRET = "4111-1111"


def lines_of(log: str) -> list[dict[str, Any]]:
    """Every line of it, from the first on."""
    return [json.loads(line) for line in log.splitlines()]


async def test_lines_have_the_instance_and_the_activity_as_fields(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    as_json = ("--log-format", "json")
    async with (
        Server(tmp_path, "shop:app", "--no-worker", *as_json) as server,
        Worker(tmp_path, server.url, *as_json, app="shop:app") as worker,
        Client(server.url) as client,
    ):
        run = await client.start("checkout", SECRET, instance_id="order-17")
        with pytest.raises(errors.OrchestrationFailed):
            await run.result(timeout=30)
        assert await worker.stop() == 0
    on_server, on_worker = lines_of(server.logged()), lines_of(worker.process.logged())
    assert SECRET not in server.logged() + worker.process.logged()
    instance = {"instance_id": "order-17", "tenant": "default"}
    shipping = {**instance, "queue": "parcels", "activity": "ship", "attempt": 1}
    charging = {**instance, "queue": "activities", "activity": "charge", "attempt": 1}

    def found(lines: list[dict[str, Any]], message: str) -> dict[str, Any]:
        [line] = [line for line in lines if message in line["message"]]
        return line

    for lines, message, fields in [
        (on_worker, "shipping", shipping),
        (on_worker, "charging", charging),
        (on_worker, "charge of order-17 failed in attempt 1 with ValueError (error)", charging),
        (on_server, "begins", instance),
        (on_server, "once more", instance),
        (on_server, "orchestration order-17 failed with ActivityFailed (error)", instance),
    ]:
        line = found(lines, message)
        assert line | fields == line
    assert "raise ValueError(card)" in found(on_worker, "failed in attempt")["trace"]
    assert "await ctx.call(charge, card)" in found(on_server, "failed with")["trace"]
    assert "caused by ValueError" in found(on_server, "failed with")["trace"]


def test_a_refusal_to_start_is_a_json_line_too(holdfast: Command) -> None:
    ended = holdfast("serve", "nowhere", "--log-format", "json")
    assert ended.code == 1
    [line] = lines_of(ended.error)
    assert line["message"].startswith("There is no module nowhere")
    assert line["level"] == "critical"
