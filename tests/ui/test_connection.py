"""A server that goes away and comes back, and a page that is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


async def test_a_server_that_goes_away_and_comes_back(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    await own_server.push("orders", 1, 2)
    visit = await open_page(own_server, "/#/queue/orders")
    visit.expected.add("net::ERR_")
    page = visit.page
    await expect(page.locator(".peek li")).to_have_count(2)
    await page.get_by_role("button", name="Push", exact=True).click()
    await page.get_by_label("Item, as JSON").fill('"not yet sent"')

    await own_server.kill()
    await expect(page.locator(".problem.top")).to_contain_text("Cannot reach the server, retrying")
    await expect(page.locator(".state")).to_have_text("not connected")
    await expect(page.locator(".peek li")).to_have_count(2)
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator(".outcome.bad")).to_have_text("Cannot reach the server.")

    await own_server.start()
    await expect(page.locator(".problem")).to_have_count(0)
    await expect(page.locator(".state")).to_have_text("ready")
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator(".peek summary code")).to_have_text(["1", "2", '"not yet sent"'])


async def test_a_hidden_page_asks_for_nothing(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    await server.push(queue, 1)
    visit = await open_page(server, f"/#/queue/{queue}")
    page = visit.page
    await expect(page.locator(".peek li")).to_have_count(1)
    await page.clock.install()
    await _set_hidden(page, True)
    await page.wait_for_load_state("networkidle")
    asked = len(visit.requests)
    await page.clock.run_for(60_000)
    assert len(visit.requests) == asked

    await server.push(queue, 2)
    await _set_hidden(page, False)
    await expect(page.locator(".peek li")).to_have_count(2)
    await page.clock.run_for(40_000)
    assert len(visit.requests) > asked


async def test_changes_arrive_as_events_and_by_polling_without_them(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    visit = await open_page(server, "/#/queues")
    page = visit.page
    await expect(page.locator(".state")).to_have_text("ready")
    looks: list[str] = []
    page.on("request", lambda request: looks.append(request.url) if request.url.endswith("/status") else None)
    for number in range(10):
        looks.clear()
        await server.push(f"{queue}-{number}", 1)
        await expect(page.get_by_role("link", name=f"{queue}-{number}", exact=True)).to_be_visible()
        if not looks:
            break
    # A look at everything would have asked for the status too.
    assert looks == []

    visit = await open_page(server, "about:blank")
    visit.expected |= {"429"}
    await visit.page.route("**/events?*", lambda route: route.fulfill(status=429, json={"message": "Too many."}))
    await visit.page.goto(f"{server.url}/#/queue/{queue}")
    await expect(visit.page.get_by_text("No waiting items.")).to_be_visible()
    await server.push(queue, 1)
    await expect(visit.page.locator(".peek li")).to_have_count(1)


async def _set_hidden(page: Page, hidden: bool) -> None:
    await page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )
