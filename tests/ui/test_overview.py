"""The overview, and the smaller views: schedules, workers, idempotency, developers, the REST calls."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


async def test_a_new_server_says_what_to_do_first_and_fills(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    server = own_server
    page = (await open_page(server)).page
    await expect(page.get_by_text("Nothing has failed, and nothing is blocked.")).to_be_visible()
    await page.get_by_role("link", name="How to begin").click()
    await expect(page.locator(".empty pre")).to_contain_text(f"curl -X POST '{server.url}/queue/orders/push'")
    await page.get_by_role("link", name="Orchestrations").click()
    await expect(page.locator(".empty pre")).to_contain_text(f"curl -X POST '{server.url}/orchestrations/")
    await page.get_by_role("link", name="Overview").click()

    await server.start_one("failing", "broken-1", {"customer": "ann"})
    await server.order("order-1", "rope", total=500)
    await server.dead_letter("mails", 1, "no address")
    await server.call("PUT", "/schedules/nightly", {"orchestration": "report", "cron": "0 6 * * *"})
    await server.start_one("holding", "held-1", 3600)
    counts = page.get_by_role("navigation", name="Orchestrations by status")
    await expect(counts.get_by_role("link", name="Failed 1")).to_be_visible()
    await expect(counts.get_by_role("link", name="Running 2")).to_be_visible()
    await expect(page.locator(".attention li")).to_contain_text("broken-1")
    await expect(page.locator(".oldest li")).to_contain_text(["order-1", "held-1"])
    await expect(page.locator(".dead li")).to_contain_text("mails")
    await expect(page.locator(".ticks li")).to_contain_text("nightly")
    await expect(page.locator(".workers li")).to_contain_text("held-1")
    await expect(page.get_by_role("img", name="Items in queues; now")).to_be_visible(timeout=60_000)
    await expect(page.get_by_role("img", name="Rates; now")).to_be_visible()
    await expect(page.get_by_role("img", name="Age of the oldest waiting item; now")).to_be_visible()
    await counts.get_by_role("link", name="Failed 1").click()
    await expect(page.locator("tbody .name")).to_have_text("broken-1")

    await page.goto(f"{server.url}/#/workers")
    await expect(page.locator(".worker li")).to_contain_text("hold")
    await expect(page.get_by_role("link", name="activities", exact=True)).to_be_visible()


async def test_a_damaged_queue_is_marked_among_the_others(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    for queue in ("damaged", "whole"):
        await own_server.push(queue, 1)
    await own_server.kill()
    with contextlib.closing(sqlite3.connect(own_server.database)) as connection, connection:
        connection.execute("UPDATE state SET value = '{broken' WHERE key = 'holdfast||PushPopActor||damaged||metadata'")
    await own_server.start()
    page = (await open_page(own_server, "/#/queues")).page
    await expect(page.get_by_role("row", name="damaged damaged")).to_be_visible()
    await expect(page.get_by_role("row", name="whole 1 0 0")).to_be_visible()


async def test_the_newest_tick_of_a_schedule_is_shown_first(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    await server.call("PUT", f"/schedules/{queue}", {"orchestration": "report", "every_seconds": 1, "overlap": "allow"})

    async def has_ticked_often() -> bool:
        return len((await server.call("GET", f"/schedules/{queue}"))["last"]) >= 3

    await eventually(has_ticked_often)
    await server.call("POST", f"/schedules/{queue}/pause")
    ticks = [tick["instance_id"] for tick in (await server.call("GET", f"/schedules/{queue}"))["last"]]
    page = (await open_page(server, "/#/schedules")).page
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=queue, exact=True))
    newest = row.get_by_role("cell").last.get_by_role("link")
    await expect(newest).to_have_attribute("href", re.compile(f"/{ticks[0]}$"))
    await row.get_by_role("link", name=queue, exact=True).click()
    await expect(page.locator(".last li a:first-of-type")).to_have_text(ticks)


async def test_a_schedule_is_made_changed_and_deleted(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    visit = await open_page(server, "/#/schedules")
    visit.expected |= {"400", "404"}
    page = visit.page
    await page.get_by_role("button", name="New schedule").click()
    await page.get_by_label("Name").fill(queue)
    await page.get_by_label("Orchestration").fill("report")
    await page.get_by_label("Cron, or seconds").fill("every day")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".outcome.bad")).to_contain_text("cron")
    await page.get_by_label("Cron, or seconds").fill("0 6 * * *")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("link", name=queue, exact=True).click()
    await expect(page.locator(".definition")).to_contain_text("0 6 * * * (Europe/Berlin)")
    await expect(page.locator(".next li")).to_have_count(5)
    await page.get_by_role("button", name="Start one now").click()
    await expect(page.locator(".outcome").first).to_contain_text(f"Started {queue}-manual-")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".note")).to_contain_text("Paused")
    await page.get_by_role("button", name="Resume").click()
    await page.get_by_role("button", name="Change").click()
    await page.get_by_label("Cron, or seconds").fill("3600")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".definition")).to_contain_text("every 3,600 seconds")
    await page.get_by_role("button", name="Backfill").click()
    await page.get_by_label("From").fill("2026-01-01T00:00")
    await page.get_by_label("To", exact=True).fill("2026-01-01T02:30")
    await page.get_by_role("button", name="Start them").click()
    await expect(page.locator(".outcome").first).to_contain_text("started.")
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page).to_have_title("Schedules · Holdfast")
    assert (await server.call("GET", f"/schedules/{queue}"))["error_code"] == "NOT_FOUND"


async def test_looking_up_an_idempotency_record(visit: Visit, server: Server, queue: str) -> None:
    visit.expected.add("404")
    page = visit.page
    await page.get_by_role("link", name="Idempotency").click()
    await page.get_by_label("Key").fill(f"{queue}/1")
    await page.get_by_role("button", name="Find").click()
    await expect(page.locator(".outcome.bad")).not_to_be_empty()
    path = f"/idempotency/default/{queue}%2F1"
    begun = await server.call("POST", f"{path}/begin", {})
    await server.call("POST", f"{path}/commit", {"owner": begun["owner"], "result": {"<b>": 1}})
    await page.get_by_role("button", name="Find").click()
    await expect(page.locator(".record")).to_contain_text("StatusSUCCESS")
    await expect(page.locator(".record pre")).to_contain_text('"<b>": 1')


async def test_calling_an_actor(visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("link", name="Developers").click()
    await page.get_by_label("Id", exact=True).fill(queue)
    await page.get_by_label("JSON", exact=True).fill("41")
    await expect(page.locator(".command")).to_contain_text(f"/CounterActor/{queue}/method/Add' -d '41'")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator(".outcome")).to_have_text("41")
    await expect(page.get_by_role("row", name="CounterActor")).not_to_contain_text("CounterActor0")

    visit.expected.add("500")
    await page.get_by_label("Method").fill("Nothing")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator(".outcome")).to_contain_text("Nothing")
    await expect(page.locator(".outcome")).not_to_contain_text("{")


async def test_the_rest_calls_are_described_offline(visit: Visit, server: Server) -> None:
    page = visit.page
    await page.get_by_role("link", name="Developers").click()
    await page.get_by_role("link", name="REST calls").click()
    document = await server.call("GET", "/openapi.json")
    await expect(page.locator(".operation")).to_have_count(sum(map(len, document["paths"].values())))
    await page.get_by_label("Find a call").fill("redrive")
    await expect(page.locator(".operation")).to_have_count(1)
    await page.locator(".operation summary").click()
    await expect(page.locator(".operation")).to_contain_text("The most to redrive or delete.")
    await expect(page.locator(".operation pre").last).to_contain_text('"redriven"')
