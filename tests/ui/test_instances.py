"""The list of instances, one of them with its history, and what can be done with it, live."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.ui.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from playwright.async_api import Route

    from tests.ui.conftest import Visit

pytestmark = pytest.mark.xdist_group("page")

APPROVED = 50
TO_BE_APPROVED = 500
SOLD_OUT = "kedge"


@pytest.fixture(scope="package")
async def orders(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One for all tests that keep to instances of their own."""
    async with Server(tmp_path_factory.mktemp("orders"), app="examples.orders:app") as server:
        yield server


@pytest.fixture
def instance(queue: str) -> str:
    """One no other test has."""
    return queue


async def order(server: Server, instance: str, *lines: str, total: float = APPROVED, customer: str = "ann") -> None:
    body = {"instance_id": instance, "input": {"customer": customer, "lines": lines, "total": total}}
    assert (await server.call("POST", "/orchestrations/order/start", body))["created"]


async def ended(server: Server, instance: str) -> dict[str, Any]:
    return await server.call("GET", f"/orchestrations/{instance}/wait?timeout_seconds=20")


async def test_from_none_to_more_than_one_answer_holds(
    tmp_path: Path, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    async with Server(tmp_path, app="examples.orders:app") as server:
        page = (await open_page(server)).page
        start = f"curl -X POST '{server.url}/orchestrations/order/start'"
        await expect(page.locator("#no-instances")).to_contain_text(start)
        for number in range(52):
            await order(server, f"i{number:02}", "rope", total=TO_BE_APPROVED)
        rows = page.locator("#instance-list li")
        await expect(rows).to_have_count(50)
        await expect(page.locator("#no-instances")).to_be_hidden()
        more = page.get_by_role("button", name="Show more instances")
        await more.click()
        await expect(rows).to_have_count(52)
        await expect(more).to_be_hidden()


async def test_the_list_is_of_the_status_that_is_asked_for_and_follows(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, f"{instance}-waits", "rope", total=TO_BE_APPROVED)
    await order(orders, f"{instance}-done", "rope")
    await ended(orders, f"{instance}-done")
    page = (await open_page(orders)).page
    await page.get_by_role("searchbox", name="Find or open an instance").fill(instance.upper())
    waits = page.get_by_role("link", name=f"{instance}-waits: order, running")
    done = page.get_by_role("link", name=f"{instance}-done: order, completed")
    await expect(waits).to_be_visible()
    await expect(done).to_be_visible()
    await page.get_by_label("Filter by status").select_option("Running")
    await expect(done).to_be_hidden()
    await expect(waits).to_be_visible()
    await orders.call("POST", f"/orchestrations/{instance}-waits/cancel", {})
    await expect(page.locator("#no-instance-found")).to_be_visible()
    await page.get_by_label("Filter by status").select_option("Cancelled")
    await expect(page.get_by_role("link", name=f"{instance}-waits: order, cancelled")).to_be_visible()


async def test_a_history_is_told_in_sentences_and_unfolds(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    markup = "<img src=x onerror=alert(1)>"
    await order(orders, instance, "lantern", SOLD_OUT, customer=markup)
    await ended(orders, instance)
    page = (await open_page(orders)).page
    await page.get_by_role("link", name=f"{instance}: ").click()
    await expect(page).to_have_title(f"{instance} · Holdfast")
    await expect(page.locator("#instance-now")).to_have_text("completed")
    told = page.locator("#timeline .sentence")
    await expect(told).to_have_text(
        [
            "order, version 1, started",
            "charge scheduled",
            re.compile(r"^charge completed after \d"),
            "ship scheduled",
            "ship scheduled",
            *[re.compile(r"^ship (completed after \d|failed after \d.*: kedges are sold out)")] * 2,
            "call_back scheduled",
            re.compile(r"^call_back completed after \d"),
            "refund scheduled",
            re.compile(r"^refund completed after \d"),
            "Completed",
        ]
    )
    await expect(page.locator("#timeline .bad .sentence")).to_have_text(re.compile("sold out"))
    await expect(page.locator("#output")).to_contain_text('"refunded"')
    await expect(page.locator("#input")).to_contain_text(markup)
    await expect(page.locator("main img")).to_have_count(0)
    await page.locator("#timeline summary", has_text="charge scheduled").click()
    await expect(page.locator("#timeline details[open] pre")).to_contain_text('"queue": "activities"')


async def test_one_that_waits_is_told_what_it_waits_for(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, instance, "anchor", total=TO_BE_APPROVED)
    page = (await open_page(orders, f"/#/orchestration/{instance}")).page
    await expect(page.locator("#custom")).to_have_text('"waits for approval"')
    await page.evaluate("window.stillTheSame = true")
    await page.get_by_role("button", name="Raise an event").click()
    await expect(page.get_by_label("Event", exact=True)).to_have_value("approved")
    await page.get_by_label("Data, as JSON").fill("{by: bob}")
    await page.get_by_role("button", name="Raise it").click()
    await expect(page.locator("#instance-answer")).to_contain_text("This is not JSON")
    await page.get_by_label("Data, as JSON").fill('{"by": "bob"}')
    await page.get_by_role("button", name="Raise it").click()
    await expect(page.locator("#instance-answer")).to_have_text("Raised approved.")
    await expect(page.locator("#instance-now")).to_have_text("completed")
    await expect(page.locator("#output")).to_contain_text('"approved_by": "bob"')
    await expect(page.locator("#timeline .sentence", has_text="Event approved received")).to_be_visible()
    await expect(page.get_by_role("button", name="Raise an event")).to_be_hidden()
    assert await page.evaluate("window.stillTheSame")


async def test_what_a_server_refuses_is_said_and_nothing_is_lost(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, instance, "anchor", total=TO_BE_APPROVED)
    visit = await open_page(orders, f"/#/orchestration/{instance}")
    visit.expected.add("400")
    page = visit.page
    await page.get_by_role("button", name="Raise an event").click()
    await page.get_by_label("Data, as JSON").fill("17")
    await page.get_by_role("button", name="Raise it").click()
    await expect(page.locator("#instance-answer.bad")).not_to_be_empty()
    await expect(page.get_by_label("Data, as JSON")).to_have_value("17")
    await expect(page.locator("#instance-now")).to_have_text("running")


async def test_suspended_resumed_cancelled_and_deleted(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, instance, "anchor", total=TO_BE_APPROVED)
    visit = await open_page(orders, f"/#/orchestration/{instance}")
    visit.expected.add("404")  # it may be asked for once more while it is deleted
    page = visit.page
    now = page.locator("#instance-now")
    await page.get_by_role("button", name="Suspend").click()
    await expect(now).to_have_text("suspended")
    await page.get_by_role("button", name="Resume").click()
    await expect(now).to_have_text("running")
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await page.get_by_label("Reason (recorded in the history)").fill("the <b>customer</b> left")
    await page.get_by_role("button", name="Cancel it").click()
    await expect(now).to_have_text("cancelled")
    await expect(page.locator("#reason")).to_have_text("the <b>customer</b> left")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.locator("#delete-question")).to_contain_text("Permanently deletes the instance")
    await page.locator("#delete-confirm").click()
    await expect(page).to_have_title("Holdfast")
    assert (await orders.call("GET", f"/orchestrations/{instance}"))["error_code"] == "NOT_FOUND"


async def test_one_whose_code_is_not_deployed_says_why_and_can_be_cancelled(
    tmp_path: Path, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    async with Server(tmp_path, app="examples.orders:app") as server:
        await order(server, "o-1", "rope", total=TO_BE_APPROVED)
    async with Server(tmp_path, app="examples.counter:app") as server:
        page = (await open_page(server, "/#/orchestration/o-1")).page
        await expect(page.locator("#instance-now")).to_have_text("blocked")
        await expect(page.locator("#blocked")).to_contain_text("No orchestration is called order.")
        facts = page.locator("#blocked-fields")
        await expect(facts.locator("dt")).to_have_text(["Kind", "Since"])
        await expect(facts.locator("dd")).to_have_text(["missing_orchestration", re.compile(r"\d\d:\d\d:\d\d$")])
        boxes = await page.evaluate(
            "['blocked', 'blocked-fields'].map(id => document.getElementById(id).getBoundingClientRect().toJSON())"
        )
        assert boxes[1]["top"] - boxes[0]["bottom"] >= 8
        await expect(page.locator("#failure-card")).to_be_hidden()
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Cancel it").click()
        await expect(page.locator("#instance-now")).to_have_text("cancelled")
        await expect(page.locator("#blocked-card")).to_be_hidden()


async def test_a_blocked_one_offers_to_suspend_or_to_resume_but_not_both(
    tmp_path: Path, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    async with Server(tmp_path, app="examples.orders:app") as server:
        for name in ("suspended", "running"):
            await order(server, name, "rope", total=TO_BE_APPROVED)
        await server.call("POST", "/orchestrations/suspended/suspend", {})
    async with Server(tmp_path, app="examples.counter:app") as server:
        for name, offered in (("suspended", "Resume"), ("running", "Suspend")):
            page = (await open_page(server, f"/#/orchestration/{name}")).page
            await expect(page.locator("#instance-now")).to_have_text("blocked")
            buttons = {text: page.get_by_role("button", name=text) for text in ("Resume", "Suspend")}
            other = buttons["Suspend" if offered == "Resume" else "Resume"]
            await expect(buttons[offered]).to_be_visible()
            await expect(other).to_be_hidden()
            # Kept until the code is there, so the status does not tell.
            await buttons[offered].click()
            await expect(other).to_be_visible()
            await expect(buttons[offered]).to_be_hidden()
            await expect(page.locator("#instance-now")).to_have_text("blocked")
            await page.close()
    async with Server(tmp_path, app="examples.orders:app") as server:
        page = (await open_page(server, "/#/orchestration/running")).page
        await expect(page.locator("#instance-now")).to_have_text("suspended")
        await expect(page.get_by_role("button", name="Suspend")).to_be_hidden()
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()


@pytest.mark.parametrize("width", [360, 420, 768])
async def test_on_a_narrow_screen_every_figure_fits_its_tile(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str, width: int
) -> None:
    await order(orders, instance, "rope", total=TO_BE_APPROVED)
    page = (await open_page(orders, viewport={"width": width, "height": 900})).page

    async def older(route: Route) -> None:
        answer = await route.fetch()
        began = datetime.now(UTC) - timedelta(seconds=88)
        changed = {"name": "waits_activity", "created_at": began.isoformat().replace("+00:00", "Z")}
        await route.fulfill(response=answer, json=await answer.json() | changed)

    await page.route(f"**/orchestrations/{instance}", older)
    await page.evaluate(f"location.hash = '#/orchestration/{instance}'")
    await expect(page.locator("#instance-began")).to_have_text("1 min ago")
    await expect(page.locator("#instance-took")).to_have_text(re.compile(r"^1 min \d+ s$"))
    found = await page.evaluate(_TILES)
    assert found["overflowing"] == []
    assert found["broken"] == []
    assert found["empty"] == 0


# Texts that leave their tile, words that are broken, and the area that no tile covers, but for the lines between them.
_TILES = """() => {
  const box = document.querySelector("#instance .tiles");
  const shown = [...box.children].filter((tile) => !tile.hidden);
  const textBox = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return range.getBoundingClientRect();
  };
  const area = ({width, height}) => width * height;
  const figures = shown.map((tile) => tile.querySelector("dd"));
  const covered = shown.map((tile) => area(tile.getBoundingClientRect())).reduce((one, other) => one + other);
  return {
    overflowing: figures.filter((one) => textBox(one).right > one.parentElement.getBoundingClientRect().right - 8)
      .map((one) => one.textContent),
    broken: figures.filter((one) => textBox(one).height > 1.6 * parseFloat(getComputedStyle(one).lineHeight))
      .map((one) => one.textContent),
    empty: Math.max(0, Math.round((1 - covered / area(box.getBoundingClientRect())) * 10)),
  };
}"""


async def test_one_that_is_not_there(orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str) -> None:
    visit = await open_page(orders)
    visit.expected.add("404")
    page = visit.page
    find = page.get_by_role("searchbox", name="Find or open an instance")
    await find.fill(f"{instance}-not-there")
    await find.press("Enter")
    await expect(page.locator("#instance-problem")).to_be_visible()
    await expect(page.get_by_role("group", name="Instance actions").get_by_role("button")).to_have_count(0)
    await order(orders, f"{instance}-not-there", "rope", total=TO_BE_APPROVED)
    await expect(page.locator("#instance-now")).to_have_text("running")
    await expect(page.locator("#instance-problem")).to_be_hidden()


async def test_of_a_long_history_the_end_is_shown_and_the_rest_on_demand(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, instance, *["rope"] * 60)
    events = (await ended(orders, instance))["events"]
    assert events > 110
    page = (await open_page(orders, f"/#/orchestration/{instance}")).page
    rows = page.locator("#timeline > li")
    await expect(rows).to_have_count(100)
    await expect(page.locator("#events-count")).to_have_text(f"the last 100 of {events}")
    await expect(rows.last).to_contain_text("Completed")
    await page.get_by_role("button", name="Show earlier events").click()
    await expect(rows).to_have_count(events)
    await expect(rows.first).to_contain_text("started")
    await expect(page.get_by_role("button", name="Show earlier events")).to_be_hidden()


async def test_an_id_that_is_given_again_has_a_history_of_its_own(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, instance, "rope")
    await ended(orders, instance)
    visit = await open_page(orders, f"/#/orchestration/{instance}")
    visit.expected.add("404")  # it may be looked at between the two
    page = visit.page
    await expect(page.locator("#timeline .sentence").last).to_have_text("Completed")
    await orders.call("DELETE", f"/orchestrations/{instance}")
    await order(orders, instance, "rope", total=TO_BE_APPROVED)
    await expect(page.locator("#timeline .sentence").last).to_have_text("Waiting for event approved")
    await expect(page.locator("#timeline > li")).to_have_count(3)


async def test_what_was_done_to_one_is_not_told_of_another(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    for name in (instance, f"{instance}-too"):
        await order(orders, name, "rope", total=TO_BE_APPROVED)
    page = (await open_page(orders, f"/#/orchestration/{instance}")).page
    answered = asyncio.Event()

    async def hold(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await page.route("**/suspend", hold)
    await page.get_by_role("button", name="Suspend").click()
    await page.evaluate(f"location.hash = '#/orchestration/{instance}-too'")
    await expect(page.get_by_role("heading", name=f"{instance}-too")).to_be_visible()
    await expect(page.locator("#instance-now")).to_have_text("running")
    async with page.expect_response("**/suspend"):
        answered.set()
    # Another look, after which it would have been told.
    async with page.expect_response(f"**/orchestrations/{instance}-too"):
        pass
    await expect(page.locator("#instance-answer")).to_be_empty()
    assert (await orders.call("GET", f"/orchestrations/{instance}"))["status"] == "SUSPENDED"


async def test_the_focus_stays_with_what_can_be_done(
    orders: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await order(orders, instance, "rope", total=TO_BE_APPROVED)
    page = (await open_page(orders, f"/#/orchestration/{instance}")).page
    await page.get_by_role("button", name="Suspend").click()
    await expect(page.get_by_role("button", name="Raise an event")).to_be_focused()
