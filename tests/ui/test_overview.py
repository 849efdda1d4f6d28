"""The list of queues, the server's state and its actors, live."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


async def test_from_no_queue_to_more_than_one_answer_holds(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    page = (await open_page(own_server)).page
    await expect(page.locator("#no-queues")).to_contain_text(f"curl -X POST '{own_server.url}/queue/orders/push'")
    for number in range(52):
        await own_server.push(f"q{number:02}", number)
    rows = page.locator("#queue-list li")
    await expect(rows).to_have_count(50)
    await expect(page.locator("#no-queues")).to_be_hidden()
    more = page.get_by_role("button", name="Show more queues")
    await more.click()
    await expect(rows).to_have_count(52)
    await expect(more).to_be_hidden()


async def test_a_damaged_queue_says_so_among_the_others(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    for queue in ("damaged", "whole"):
        await own_server.push(queue, 1)
    await own_server.kill()
    with contextlib.closing(sqlite3.connect(own_server.database)) as connection, connection:
        connection.execute("UPDATE state SET value = '{broken' WHERE key = 'holdfast||PushPopActor||damaged||metadata'")
    await own_server.start()
    page = (await open_page(own_server)).page
    await expect(page.get_by_role("link", name="whole: 1 waiting, 0 locked, 0 dead letters")).to_be_visible()
    damaged = page.get_by_role("link", name="damaged: damaged", exact=True)
    await expect(damaged.locator(".waiting")).to_have_text("damaged")
    await expect(damaged.locator(".locked")).to_be_empty()


async def test_the_server_itself(visit: Visit) -> None:
    page = visit.page
    await expect(page.locator("#state")).to_have_text("ready")
    await expect(page.locator("#facts")).to_contain_text("embedded host · version ")
    await expect(page.get_by_role("row", name="PushPopActor")).to_be_visible()


async def test_the_list_follows_what_others_do_without_reloading(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await expect(page.locator("#state")).to_have_text("ready")
    await page.evaluate("window.stillTheSame = true")

    await server.push(queue, 1, 2, 3)
    await expect(page.get_by_role("link", name=f"{queue}: 3 waiting, 0 locked, 0 dead letters")).to_be_visible()

    held = await server.call("POST", f"/queue/{queue}/pop?require_ack=true&count=2")
    await expect(page.get_by_role("link", name=f"{queue}: 1 waiting, 2 locked, 0 dead letters")).to_be_visible()
    await server.call("POST", f"/queue/{queue}/dead-letter", {"lock_id": held["lock_id"]})
    await expect(page.get_by_role("link", name=f"{queue}: 1 waiting, 0 locked, 2 dead letters")).to_be_visible()
    await expect(page.get_by_role("link", name=f"{queue}-deadletter: 2 waiting")).to_be_visible()
    assert await page.evaluate("window.stillTheSame")


async def test_depth_over_time_is_a_line_through_every_look(server: Server, visit: Visit, queue: str) -> None:
    await server.push(queue, 1)
    line = visit.page.get_by_role("link", name=f"{queue}: ").locator(".spark .line")
    await expect(line).to_have_attribute("d", _points(2))
    await server.push(queue, 2)
    await expect(line).to_have_attribute("d", _points(4))
    heights = {point.split()[1] for point in (await line.get_attribute("d") or "").strip("M").split("L")}
    assert len(heights) > 1


def _points(at_least: int) -> re.Pattern[str]:
    return re.compile(rf"^M[^ML]+(L[^ML]+){{{at_least - 1},}}$")


async def test_hours_of_looks_take_bounded_room_and_keep_their_peaks(visit: Visit) -> None:
    kept = await visit.page.evaluate(
        """async () => {
            const { seriesOf } = await import(`${location.origin}/page/series.js`);
            const series = seriesOf("hours");
            for (let look = 0; look < 20000; look += 1) series.add(2000 * look, look === 7000 ? 999 : look % 10, 0);
            return series.points;
        }"""
    )
    assert 400 < len(kept) <= 900
    assert [point["time"] for point in kept] == sorted(point["time"] for point in kept)
    assert max(point["waiting"] for point in kept) == 999
    assert kept[0]["time"] < 1_000_000
    assert kept[-1]["time"] == 2000 * 19999


async def test_finding_a_queue_and_opening_one_that_is_not_there(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await server.push(queue, 1)
    await server.push(f"{queue}-too", 1)
    await expect(page.get_by_role("link", name=f"{queue}-too: ")).to_be_visible()
    find = page.get_by_role("searchbox", name="Find or open a queue")
    await find.fill(f"{queue}-TOO")
    await expect(page.locator("#queue-list li")).to_have_count(1)
    await find.fill("brand-new")
    await expect(page.locator("#none-found")).to_be_visible()
    await find.press("Enter")
    await expect(page.get_by_role("heading", name="brand-new")).to_be_visible()
    await expect(page.locator("#peek-empty")).to_be_visible()
    await expect(page).to_have_title("brand-new · Holdfast")


async def test_calling_an_actor(visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_label("Id", exact=True).fill(queue)
    await page.get_by_label("JSON", exact=True).fill("41")
    await expect(page.locator("#call-command")).to_contain_text(f"/CounterActor/{queue}/method/Add' -d '41'")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#call-answer")).to_have_text("41")
    await expect(page.get_by_role("row", name="CounterActor 1")).to_be_visible()

    visit.expected.add("500")
    await page.get_by_label("Method").fill("Nothing")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#call-answer")).to_contain_text("Nothing")
    await expect(page.locator("#call-answer")).not_to_contain_text("{")
