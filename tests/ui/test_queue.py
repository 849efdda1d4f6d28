"""One queue: what it shows, and what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


@pytest.fixture
async def visit(server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str) -> Visit:
    """At a queue with three items in two priorities."""
    await server.push(queue, {"order": "A-1"}, {"order": "A-2"}, priority=1)
    await server.push(queue, {"order": "urgent"}, priority=0)
    return await open_page(server, f"/#/queue/{queue}")


async def test_what_waits_in_the_order_of_pops(visit: Visit, queue: str) -> None:
    page = visit.page
    await expect(page.get_by_role("heading", name=queue, exact=True)).to_be_visible()
    await expect(page.locator("#waiting")).to_have_text("3")
    await expect(page.locator("#peek summary code")).to_have_text(
        ['{"order":"urgent"}', '{"order":"A-1"}', '{"order":"A-2"}']
    )
    await expect(page.locator("#priorities li")).to_have_text(["01", "12"])
    await expect(page.locator("#counters")).to_contain_text("Pushed3")
    await expect(page.locator("#config")).to_contain_text("Max locks1")
    await expect(page.get_by_role("img", name="Depth over time; now 3 waiting, 0 locked.")).to_be_visible()


async def test_an_item_unfolds_and_stays_unfolded_while_others_go(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.locator("#peek summary").nth(1).click()
    await expect(page.locator("#peek pre")).to_have_text('{\n  "order": "A-1"\n}')
    await server.call("POST", f"/queue/{queue}/pop")
    await expect(page.locator("#peek li")).to_have_count(2)
    await expect(page.locator("#peek li").first.locator("pre")).to_be_visible()
    await expect(page.locator("#peek li").first.locator("summary")).to_be_focused()


async def test_what_is_locked_and_until_when(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    held = await server.call("POST", f"/queue/{queue}/pop?require_ack=true&ttl_seconds=90&count=2")
    lock = page.locator("#locks > li")
    await expect(lock.locator("summary.lock")).to_contain_text(f"{held['lock_id'][:6]}…2 items")
    await expect(lock.locator("summary.lock time")).to_contain_text("1 min")
    await expect(lock.locator(".items code")).to_have_text(['{"order":"urgent"}', '{"order":"A-1"}'])
    await expect(page.locator("#locked")).to_have_text("2")
    assert held["lock_id"] not in await page.content()
    await server.call("POST", f"/queue/{queue}/abandon", {"lock_id": held["lock_id"], "error": "no stock"})
    await expect(page.locator("#locks-empty")).to_be_visible()
    await page.locator("#peek summary").first.click()
    await expect(page.locator("#peek .item-body").first).to_contain_text("Last errorno stock")


async def test_pushing_keeps_priority_and_every_digit(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Push", exact=True).click()
    await page.get_by_label("Item, as JSON").fill('{"big": 9007199254740993, "name": "Zoë"}')
    await page.get_by_label("Priority, lowest first").fill("7")
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator("#push-answer")).to_contain_text("Pushed, with the id ")
    await expect(page.locator("#peek summary code").last).to_have_text('{"big":9007199254740993,"name":"Zoë"}')
    answer = await server.call("GET", f"/queue/{queue}/peek?count=10")
    assert answer["items"][-1] == {"big": 9007199254740993, "name": "Zoë"}
    assert answer["messages"][-1]["priority"] == 7


async def test_what_is_not_json_is_not_sent(server: Server, visit: Visit) -> None:
    page = visit.page
    await page.get_by_role("button", name="Push", exact=True).click()
    await page.get_by_label("Item, as JSON").fill("{order: 1}")
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator("#push-answer")).to_contain_text("This is not JSON")
    assert not any("/push" in url for url in visit.requests)


async def test_popping_for_good(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Pop", exact=True).click()
    await page.get_by_label("without a lock").check()
    await page.locator("#pop-panel").get_by_role("button", name="Pop").click()
    await expect(page.locator("#popped")).to_contain_text('{"order":"urgent"}')
    await expect(page.locator("#waiting")).to_have_text("2")
    assert await server.depth(queue) == 2
    await page.get_by_role("button", name="Dismiss").click()
    await expect(page.locator("#popped > *")).to_have_count(0)


@pytest.mark.parametrize(
    ("button", "said", "waiting", "dead"),
    [
        ("Acknowledge", "1 item acknowledged.", "2", "0"),
        ("Abandon", "1 item abandoned.", "3", "0"),
        ("Dead-letter", "1 item dead-lettered.", "2", "1"),
    ],
)
async def test_popping_under_a_lock(visit: Visit, button: str, said: str, waiting: str, dead: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Pop", exact=True).click()
    await page.locator("#pop-panel").get_by_role("button", name="Pop").click()
    await expect(page.locator("#locked")).to_have_text("1")
    await page.get_by_role("button", name=button).click()
    await expect(page.locator("#popped")).to_contain_text(said)
    await expect(page.locator("#locked")).to_have_text("0")
    await expect(page.locator("#waiting")).to_have_text(waiting)
    await expect(page.locator("#dead-letters")).to_have_text(dead)


async def test_holding_longer_and_coming_back_to_it(visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Pop", exact=True).click()
    await page.get_by_label("Lock duration in seconds").fill("45")
    await page.locator("#pop-panel").get_by_role("button", name="Pop").click()
    await expect(page.locator(".taking .lock time")).to_contain_text(" s left")
    await page.get_by_role("button", name="Extend by 30 s").click()
    await expect(page.locator(".taking .lock time")).to_contain_text("1 min")
    await page.get_by_role("link", name="All queues").click()
    await page.get_by_role("link", name=f"{queue}: ").click()
    await page.get_by_role("button", name="Acknowledge").click()
    await expect(page.locator("#popped")).to_contain_text("1 item acknowledged.")


async def test_a_locked_queue_refuses_in_words(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    visit.expected.add("423")
    await server.call("POST", f"/queue/{queue}/pop?require_ack=true")
    await page.get_by_role("button", name="Pop", exact=True).click()
    await page.locator("#pop-panel").get_by_role("button", name="Pop").click()
    await expect(page.locator("#pop-answer")).to_contain_text("The queue is locked until")


async def test_purging_asks_first(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Purge", exact=True).click()
    await expect(page.locator("#purge-question")).to_contain_text("Permanently removes the 3 waiting items")
    await page.get_by_role("button", name="Keep them").click()
    assert await server.depth(queue) == 3
    await page.get_by_role("button", name="Purge", exact=True).click()
    await page.get_by_role("button", name="Purge 3 items").click()
    await expect(page.locator("#purge-answer")).to_have_text("Purged 3 items.")
    await expect(page.locator("#peek-empty")).to_be_visible()
    assert await server.depth(queue) == 0


async def test_changing_the_configuration(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    visit.expected.add("400")
    await page.get_by_role("button", name="Change").click()
    await page.get_by_label("Max locks").fill("0")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#config-answer")).to_contain_text("max_locks")
    await page.get_by_label("Max locks").fill("5")
    await page.get_by_label("Dead letter queue").fill("morgue")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#config")).to_contain_text("morgue")
    config = await server.call("GET", f"/queue/{queue}/config")
    assert (config["max_locks"], config["dead_letter_queue"]) == (5, "morgue")


async def test_dead_letters_are_a_link_to_where_they_are(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    held = await server.call("POST", f"/queue/{queue}/pop?require_ack=true")
    await server.call("POST", f"/queue/{queue}/dead-letter", {"lock_id": held["lock_id"], "reason": "no such customer"})
    await page.locator("#dead-letters a").click()
    await expect(page.get_by_role("heading", name=f"{queue}-deadletter")).to_be_visible()
    await page.locator("#peek summary").first.click()
    await expect(page.locator("#peek .item-body").first).to_contain_text("Reasonno such customer")
    await expect(page.locator("#peek .item-body").first).to_contain_text(f"Original queue{queue}")


async def test_more_of_what_waits(server: Server, visit: Visit, queue: str) -> None:
    await server.push(queue, *range(20), priority=2)
    await expect(visit.page.locator("#peek-count")).to_have_text("10 of 23")
    await visit.page.get_by_role("button", name="Show more", exact=True).click()
    await expect(visit.page.locator("#peek li")).to_have_count(23)


async def test_items_are_fetched_again_only_when_the_queue_changed(server: Server, visit: Visit, queue: str) -> None:
    page = visit.page
    await expect(page.locator("#peek li")).to_have_count(3)
    looks = len([url for url in visit.requests if url.endswith(f"/queue/{queue}")])
    while len([url for url in visit.requests if url.endswith(f"/queue/{queue}")]) < looks + 2:
        await page.wait_for_event("requestfinished")
    assert len([url for url in visit.requests if "/peek" in url]) == 1
    await server.push(queue, "another", priority=3)
    await expect(page.locator("#peek li")).to_have_count(4)
