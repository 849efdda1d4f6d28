"""The page of a queue: its figures, items and actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Locator, Page

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


@pytest.fixture
async def visit(server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str) -> Visit:
    """At a queue with three items in two priorities."""
    await server.push(queue, {"order": "A-1"}, {"order": "A-2"}, priority=1)
    await server.push(queue, {"order": "urgent"}, priority=0)
    return await open_page(server, f"/#/queue/{queue}")


def tile(page: Page, name: str) -> Locator:
    return page.locator(f"[data-tile={name}]")


async def test_waiting_items_in_the_order_of_pops(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await expect(page.get_by_role("heading", name=queue, exact=True)).to_be_visible()
    await expect(tile(page, "waiting")).to_have_text("3")
    await expect(page.locator(".peek summary code")).to_have_text(
        ['{"order":"urgent"}', '{"order":"A-1"}', '{"order":"A-2"}']
    )
    await expect(page.locator(".priorities li")).to_have_text(["01", "12"])
    await expect(page.get_by_role("region", name="Counters")).to_contain_text("Pushed3")
    await expect(page.locator(".config")).to_contain_text("Max locks1")
    # Unfolded items stay unfolded while others go.
    await page.locator(".peek summary").nth(1).click()
    await expect(page.locator(".peek pre").nth(1)).to_have_text('{\n  "order": "A-1"\n}')
    await server.call("POST", f"/queue/{queue}/pop")
    await expect(page.locator(".peek li")).to_have_count(2)
    await expect(page.locator(".peek li").first.locator("pre")).to_be_visible()
    await expect(page.locator(".peek li").first.locator("summary")).to_be_focused()
    await page.locator(".peek li").first.get_by_role("button", name="Remove this item").click()
    await expect(page.locator(".peek summary code")).to_have_text(['{"order":"A-2"}'])


async def test_depth_over_time_comes_from_the_server(server: Server, visit: Visit, queue: str) -> None:
    # The server samples every ten seconds.
    chart = visit.page.get_by_role("img", name="Depth over time; now 3 waiting, 0 locked.")
    await expect(chart).to_be_visible(timeout=60_000)
    await visit.page.goto(f"{server.url}/#/queues")
    row = visit.page.get_by_role("row").filter(has=visit.page.get_by_role("link", name=queue, exact=True))
    await expect(row.locator(".spark .line")).to_have_attribute("d", "M0.0 3.0L2.0 3.0")


async def test_locks_and_until_when(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    held = await server.call("POST", f"/queue/{queue}/pop?require_ack=true&ttl_seconds=90&count=2")
    lock = page.locator(".locks > li")
    await expect(lock.locator("summary.lock")).to_contain_text(f"{held['lock_id'][:6]}…2 items")
    await expect(lock.locator("summary.lock time")).to_contain_text("1 min")
    await expect(lock.locator(".items code")).to_have_text(['{"order":"urgent"}', '{"order":"A-1"}'])
    await expect(tile(page, "locked")).to_have_text("2")
    assert held["lock_id"] not in await page.content()
    await page.get_by_role("button", name="Extend by 60 s").click()
    await expect(lock.locator("summary.lock time")).to_contain_text("2 min")
    await page.get_by_role("button", name="Give back now").click()
    await expect(page.get_by_text("No locks.")).to_be_visible()
    await expect(page.locator(".peek li")).to_have_count(3)


async def test_pushing_keeps_priority_and_every_digit(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Push", exact=True).click()
    await page.get_by_label("Item, as JSON").fill("{order: 1}")
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator(".outcome.bad")).to_contain_text("This is not JSON")
    assert not any(url.endswith("/push") for url in visit.requests)
    await page.get_by_label("Item, as JSON").fill('{"big": 9007199254740993, "name": "Zoë"}')
    await page.get_by_label("Priority, lowest first").fill("7")
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator(".outcome").first).to_contain_text("Pushed, with the id ")
    await expect(page.locator(".peek summary code").last).to_have_text('{"big":9007199254740993,"name":"Zoë"}')
    answer = await server.call("GET", f"/queue/{queue}/peek?count=10")
    assert answer["items"][-1] == {"big": 9007199254740993, "name": "Zoë"}
    assert answer["messages"][-1]["priority"] == 7
    await page.get_by_label("Delay in seconds").fill("500")
    await page.get_by_role("button", name="Push it").click()
    await expect(tile(page, "delayed")).to_have_text("1")


async def test_popping_without_a_lock(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Pop", exact=True).click()
    await page.get_by_label("without a lock").check()
    await page.get_by_role("form", name="Pop items").get_by_role("button", name="Pop").click()
    await expect(page.locator(".popped")).to_contain_text('{"order":"urgent"}')
    await expect(tile(page, "waiting")).to_have_text("2")
    assert await server.depth(queue) == 2
    await page.get_by_role("button", name="Dismiss").click()
    await expect(page.locator(".popped > *")).to_have_count(0)


@pytest.mark.parametrize(
    ("button", "said", "waiting", "dead"),
    [
        ("Acknowledge", "1 item acknowledged.", "2", "0"),
        ("Abandon", "1 item abandoned.", "3", "0"),
        ("Dead-letter", "1 item dead-lettered.", "2", "1"),
    ],
)
async def test_popping_with_a_lock(visit: Visit, queue: str, button: str, said: str, waiting: str, dead: str) -> None:
    page = visit.page
    visit.expected.add("423")
    await page.get_by_role("button", name="Pop", exact=True).click()
    form = page.get_by_role("form", name="Pop items")
    await page.get_by_label("Lock duration in seconds").fill("45")
    await form.get_by_role("button", name="Pop").click()
    await expect(tile(page, "locked")).to_have_text("1")
    await form.get_by_role("button", name="Pop").click()
    await expect(page.locator(".outcome.bad")).to_contain_text("The queue is locked until")
    await expect(page.locator(".taking .lock time")).to_contain_text(" s left")
    await page.get_by_role("button", name="Extend by 30 s").click()
    await expect(page.locator(".taking .lock time")).to_contain_text("1 min")
    # It is kept while other views are shown.
    await page.get_by_role("link", name="All queues").click()
    await page.get_by_role("link", name=queue, exact=True).click()
    await page.get_by_role("button", name=button).click()
    await expect(page.locator(".popped")).to_contain_text(said)
    await expect(tile(page, "locked")).to_have_text("0")
    await expect(tile(page, "waiting")).to_have_text(waiting)
    await expect(tile(page, "dead")).to_have_text(dead)


async def test_pausing(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_text("Paused: pops get nothing.")).to_be_visible()
    await page.get_by_role("button", name="Pop", exact=True).click()
    await page.get_by_role("form", name="Pop items").get_by_role("button", name="Pop").click()
    await expect(page.locator(".outcome").first).to_have_text("The queue is paused.")
    await page.get_by_role("button", name="Resume").click()
    await expect(page.get_by_text("Paused: pops get nothing.")).to_be_hidden()
    assert not (await server.call("GET", f"/queue/{queue}/config"))["paused"]


async def test_purging_and_deleting_need_the_name(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Purge", exact=True).click()
    purge = page.get_by_role("button", name="Purge 3 items")
    await expect(purge).to_be_disabled()
    await page.get_by_role("button", name="Keep them").click()
    await page.get_by_role("button", name="Purge", exact=True).click()
    await page.get_by_label(f"Type {queue} to confirm").fill(queue[:-1])
    await page.get_by_label(f"Type {queue} to confirm").press("Enter")
    assert await server.depth(queue) == 3
    await page.get_by_label(f"Type {queue} to confirm").fill(queue)
    await purge.click()
    await expect(page.locator(".outcome").first).to_have_text("Purged 3 items.")
    await expect(page.get_by_text("No waiting items.")).to_be_visible()

    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_label(f"Type {queue} to confirm").fill(queue)
    await page.get_by_role("button", name="Delete the queue").click()
    await expect(page).to_have_title("Queues · Holdfast")
    assert queue not in [one["queue"] for one in (await server.call("GET", "/queues?limit=100"))["queues"]]


async def test_changing_the_configuration(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    visit.expected.add("400")
    await page.get_by_role("button", name="Change").click()
    await page.get_by_label("Max locks").fill("0")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".config .outcome")).to_contain_text("max_locks")
    await page.get_by_label("Max locks").fill("5")
    await page.get_by_label("Dead letter queue").fill("morgue")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".config")).to_contain_text("morgue")
    config = await server.call("GET", f"/queue/{queue}/config")
    assert (config["max_locks"], config["dead_letter_queue"]) == (5, "morgue")


async def test_more_waiting_items(server: Server, visit: Visit, queue: str) -> None:
    await server.push(queue, *range(20), priority=2)
    await expect(visit.page.locator(".peek .side")).to_have_text("10 of 23")
    await visit.page.locator(".peek").get_by_role("button", name="Show more", exact=True).click()
    await expect(visit.page.locator(".peek li")).to_have_count(23)


async def test_items_are_fetched_again_only_when_the_queue_changed(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await expect(page.locator(".peek li")).to_have_count(3)
    looks = len([url for url in visit.requests if url.endswith(f"/queue/{queue}")])
    while len([url for url in visit.requests if url.endswith(f"/queue/{queue}")]) < looks + 2:
        async with page.expect_response(f"**/queue/{queue}"):
            await page.evaluate("dispatchEvent(new Event('online'))")
    assert len([url for url in visit.requests if "/peek" in url]) == 1
    await server.push(queue, "another", priority=3)
    await expect(page.locator(".peek li")).to_have_count(4)


async def test_dead_letters_are_redriven_and_deleted_one_by_one_some_or_all(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    for number in range(7):
        await server.dead_letter(queue, number, f"reason <b>{number}</b>")
    page = (await open_page(server, f"/#/queue/{queue}")).page
    letters = page.locator(".letters li")
    await expect(letters).to_have_count(7)
    await expect(letters.locator(".reason").first).to_have_text("reason <b>0</b>")
    first = letters.filter(has_text="reason <b>0</b>")
    await first.locator("summary").click()
    await expect(first).to_contain_text(f"Original queue{queue}")
    await first.get_by_role("button", name="Redrive").click()
    await expect(letters).to_have_count(6)
    await expect(page.locator(".peek summary code")).to_have_text(["0"])

    second = letters.filter(has_text="reason <b>1</b>")
    await second.locator("summary").click()
    await second.get_by_role("button", name="Delete…").click()
    await page.get_by_role("button", name="Delete for good").click()
    await expect(letters).to_have_count(5)

    for number in (2, 3):
        await letters.filter(has_text=f"reason <b>{number}</b>").get_by_role("checkbox").check()
    await page.get_by_role("button", name="Redrive 2 chosen").click()
    await expect(page.locator(".dead-letters .outcome")).to_have_text("2 dead letters redriven.")
    await letters.filter(has_text="reason <b>4</b>").get_by_role("checkbox").check()
    await page.get_by_role("button", name="Delete chosen").click()
    await page.get_by_role("button", name="Delete for good").click()
    await expect(letters).to_have_count(2)

    await page.get_by_label("Error contains").fill("in no error")
    await page.get_by_role("button", name="Redrive those whose error contains the text").click()
    await expect(page.locator(".dead-letters .outcome")).to_have_text("0 dead letters redriven.")
    await page.get_by_label("Error contains").fill("")
    await page.get_by_role("button", name="Delete all").click()
    await page.get_by_label(f"Type {queue} to confirm").fill(queue)
    await page.get_by_role("button", name="Delete for good").click()
    await expect(page.locator(".dead-letters .outcome")).to_have_text("2 dead letters deleted.")
    await expect(letters).to_have_count(0)
    assert await server.depth(queue) == 3


async def test_finding_a_queue_and_opening_a_new_one(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    await server.push(queue, 1)
    await server.push(f"{queue}-too", 1)
    page = (await open_page(server, "/#/queues")).page
    find = page.get_by_role("searchbox", name="Name")
    await expect(page.get_by_role("link", name=f"{queue}-too")).to_be_visible()
    await find.fill(f"{queue}-TOO")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody td.number")).to_have_text(["1", "0", "0"])
    await find.fill("brand-new")
    await expect(page.get_by_text("No match among the listed queues.")).to_be_visible()
    await find.press("Enter")
    await expect(page.get_by_role("heading", name="brand-new")).to_be_focused()
    await expect(page.get_by_text("No waiting items.")).to_be_visible()
    await expect(page).to_have_title("brand-new · Holdfast")
