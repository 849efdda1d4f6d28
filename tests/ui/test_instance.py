"""The page of an instance: its steps, history, awaited events and actions, live."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.ui.server import Server
from tests.ui.workshop import HTML

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from playwright.async_api import Route

    from tests.ui.conftest import Visit

pytestmark = pytest.mark.xdist_group("page")

TO_BE_APPROVED = 500
DEPLOYED = """
from holdfast import App, Context

app = App()


@app.activity
async def charge(number: int) -> str:
    return f"{number} charged"


@app.activity
async def add_tax(number: int) -> None: ...


@app.orchestration
async def checkout(ctx: Context, number: int) -> str:
    receipt = await ctx.call(charge, number)
    await ctx.event("shipped")
    return receipt
"""
SOLD_OUT = "kedge"


async def test_steps_are_bars_with_retries_and_children_and_requests_are_answered(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.start_one("cart", instance, {"customer": "ann"})
    visit = await open_page(server, f"/#/orchestration/{instance}")
    visit.expected.add("409")
    page = visit.page
    retried = page.locator(".bars li", has_text="fails_once")
    await expect(retried).to_have_count(1)
    await expect(retried.locator(".what")).to_have_text("fails_once activity, 2 attempts")
    await expect(retried.locator(".part.bad")).to_have_count(1)
    await expect(retried.locator(".part.good")).to_have_count(1)
    # The delay between the attempts is no row of its own.
    await expect(page.locator(".bars li", has_text="timer")).to_have_count(0)
    await retried.locator("summary").first.click()
    await expect(retried).to_contain_text(f"ConnectionError: refused {HTML}")
    await expect(retried.locator("pre", has_text="raise ConnectionError")).to_be_visible()
    assert await page.evaluate("window.stolen") is None

    await expect(page.locator(".waiting")).to_contain_text("request add-line")
    await page.get_by_role("button", name="Send a request").click()
    await expect(page.get_by_label("Request", exact=True)).to_have_value("add-line")
    for said in ('Reply: {"lines":1}', "oar is there"):
        if not await page.get_by_label("Data, as JSON").is_visible():
            await page.get_by_role("button", name="Send a request").click()
        await page.get_by_label("Data, as JSON").fill('"oar"')
        await page.get_by_role("button", name="Send it").click()
        await expect(page.locator(".outcome").first).to_have_text(said)
    await page.get_by_label("Data, as JSON").fill('"end"')
    await page.get_by_role("button", name="Send it").click()
    await expect(page.locator(".now")).to_have_text("completed")
    await expect(page.locator(".output")).to_contain_text("oar")
    await expect(page.locator(".bars li", has_text="add-line")).to_have_count(3)

    await page.locator(".links a").click()
    await expect(page.locator(".links")).to_have_text(f"Started by {instance}")
    await expect(page.locator(".output pre")).to_have_text('"wheel is ready"')


async def test_a_failure_shows_its_traceback_and_causes(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.start_one("failing", instance, {"customer": HTML})
    page = (await open_page(server, f"/#/orchestration/{instance}")).page
    failure = page.get_by_role("region", name="Failure", exact=True)
    await expect(failure).to_contain_text(f"no customer {HTML}")
    await expect(failure).to_contain_text("KeyError")
    await expect(failure.locator("pre").first).to_contain_text("ctx.call(fails, order.customer)")
    await expect(page.locator("main :is(img, script)")).to_have_count(0)
    await expect(page.get_by_role("button", name="Raise an event")).to_be_hidden()


async def test_a_rerun_from_a_step_and_from_the_failure(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.start_one("failing", instance, {"customer": instance})
    await server.ended(instance)
    await server.start_one("mending", f"{instance}-mend", instance)
    await server.ended(f"{instance}-mend")
    page = (await open_page(server, f"/#/orchestration/{instance}")).page
    step = page.locator(".bars li", has_text="fails")
    await step.locator("summary").first.click()
    await step.get_by_role("button", name="Rerun from here").click()
    await expect(page.locator(".links")).to_contain_text(f"Rerun of {instance} from event 2")
    await expect(page.locator(".now")).to_have_text("completed")
    await expect(page.locator(".output pre")).to_have_text(f'"{instance} is there"')

    await page.get_by_role("link", name=instance, exact=True).click()
    await expect(page.locator(".links")).to_contain_text("Reruns: ")
    await page.get_by_role("button", name="Rerun", exact=True).click()
    await page.get_by_role("button", name="From the failure").click()
    await expect(page.locator(".links")).to_contain_text(f"Rerun of {instance} from event 3")
    await expect(page.locator(".now")).to_have_text("completed")
    await page.get_by_role("button", name="Rerun", exact=True).click()
    await expect(page.get_by_role("button", name="From the failure")).to_be_hidden()


async def test_the_history_as_sentences_that_unfold(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.order(instance, "lantern", SOLD_OUT)
    await server.ended(instance)
    page = (await open_page(server, f"/#/orchestration/{instance}")).page
    await expect(page).to_have_title(f"{instance} · Holdfast")
    await page.get_by_role("button", name="list").click()
    await expect(page.locator(".timeline .sentence")).to_have_text(
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
    await page.locator(".timeline summary", has_text="charge scheduled").click()
    await expect(page.get_by_role("region", name="ActivityScheduled")).to_contain_text('"queue": "activities"')
    await expect(page.locator(".custom pre")).to_have_text('"ships"')


async def test_an_event_is_raised_for_what_waits(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.order(instance, "anchor", total=TO_BE_APPROVED)
    visit = await open_page(server, f"/#/orchestration/{instance}")
    visit.expected.add("400")
    page = visit.page
    await expect(page.locator(".waiting")).to_contain_text("event approved")
    await expect(page.locator(".waiting")).to_contain_text("due in 23 h 59 min")
    await expect(page.locator(".bars li.open")).to_have_count(2)
    await page.evaluate("window.stillTheSame = true")
    await page.get_by_role("button", name="Raise an event").click()
    await expect(page.get_by_label("Event", exact=True)).to_have_value("approved")
    for wrong, said in (("{by: bob}", "This is not JSON"), ("17", "should be an object")):
        await page.get_by_label("Data, as JSON").fill(wrong)
        await page.get_by_role("button", name="Raise it").click()
        await expect(page.locator(".outcome.bad")).to_contain_text(said)
    await page.get_by_label("Data, as JSON").fill('{"by": "bob"}')
    await page.get_by_role("button", name="Raise it").click()
    await expect(page.locator(".outcome").first).to_have_text("Raised approved.")
    await expect(page.locator(".now")).to_have_text("completed")
    await expect(page.locator(".output")).to_contain_text('"approved_by": "bob"')
    assert await page.evaluate("window.stillTheSame")


async def test_suspended_resumed_cancelled_and_deleted(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.order(instance, "anchor", total=TO_BE_APPROVED)
    visit = await open_page(server, f"/#/orchestration/{instance}")
    visit.expected.add("404")  # it may be asked for once more while it is deleted
    page = visit.page
    now = page.locator(".now")
    await page.get_by_role("button", name="Suspend").click()
    await expect(now).to_have_text("suspended")
    # The focused button is gone.
    await expect(page.get_by_role("button", name="Raise an event")).to_be_focused()
    await page.get_by_role("button", name="Resume").click()
    await expect(now).to_have_text("running")
    await page.get_by_role("button", name="Raise an event").click()
    await page.get_by_label("Event", exact=True).fill("unheard")
    await page.get_by_role("button", name="Raise it").click()
    await expect(page.locator(".outcome").first).to_contain_text("nothing waits for it")
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await page.get_by_label("Reason (recorded in the history)").fill("the <b>customer</b> left")
    await page.get_by_role("button", name="Cancel it").click()
    await expect(now).to_have_text("cancelled")
    await expect(page.locator(".reason")).to_contain_text("the <b>customer</b> left")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text("Permanently deletes the instance")).to_be_visible()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page).to_have_title("Orchestrations · Holdfast")
    assert (await server.call("GET", f"/orchestrations/{instance}"))["error_code"] == "NOT_FOUND"


async def test_a_blocked_one_says_why_and_offers_what_is_possible(
    tmp_path: Path, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    async with Server(tmp_path, apps=["examples.orders:app"]) as server:
        for name in ("suspended", "running"):
            await server.order(name, "rope", total=TO_BE_APPROVED)
        await server.call("POST", "/orchestrations/suspended/suspend", {})
    async with Server(tmp_path, apps=["examples.counter:app"]) as server:
        visit = await open_page(server)
        visit.expected.add("net::ERR_")  # the server ends before the page
        page = visit.page
        await expect(page.locator(".attention li")).to_have_count(2)
        for name, offered, other in (("suspended", "Resume", "Suspend"), ("running", "Suspend", "Resume")):
            await page.goto(f"{server.url}/#/orchestration/{name}")
            await expect(page.get_by_role("heading", name=name)).to_be_visible()
            await expect(page.locator(".now")).to_have_text("blocked")
            await expect(page.locator(".blocked")).to_contain_text("No orchestration is called order.")
            await expect(page.locator(".blocked dt")).to_have_text(["Kind", "Since"])
            await expect(page.locator(".blocked dd").first).to_have_text("missing_orchestration")
            await expect(page.get_by_role("button", name=other)).to_be_hidden()
            # Kept until the code is there, so the status does not tell.
            await page.get_by_role("button", name=offered).click()
            await expect(page.get_by_role("button", name=other)).to_be_visible()
            await expect(page.get_by_role("button", name=offered)).to_be_hidden()
            await expect(page.locator(".now")).to_have_text("blocked")
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Cancel it").click()
        await expect(page.locator(".now")).to_have_text("cancelled")
        await expect(page.locator(".blocked")).to_have_count(0)


async def test_a_blocked_one_shows_the_step_expected_the_step_found_and_the_line(
    tmp_path: Path, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    charged = "    receipt = await ctx.call(charge, number)\n"
    (tmp_path / "shop.py").write_text(DEPLOYED)
    (tmp_path / "departed.py").write_text(DEPLOYED.replace(charged, f"    await ctx.call(add_tax, number)\n{charged}"))
    async with Server(tmp_path, apps=["shop:app"], imports=tmp_path) as server:
        await server.start_one("checkout", "order-17", 17)
    async with Server(tmp_path, apps=["departed:app"], imports=tmp_path) as server:
        visit = await open_page(server, "/#/orchestration/order-17")
        visit.expected.add("net::ERR_")  # the server ends before the page
        page = visit.page
        await expect(page.locator(".now")).to_have_text("blocked")
        shown = page.locator(".blocked")
        await expect(shown.locator("dt")).to_have_text(
            ["Kind", "Since", "Expected by history", "Found in code", "Line"]
        )
        kind, _, expected, found, line = await shown.locator("dd").all_inner_texts()
        assert (kind, expected, found) == (
            "non_determinism",
            "event 2, ActivityScheduled (charge)",
            "ActivityScheduled (add_tax)",
        )
        assert re.fullmatch(r".*departed\.py:\d+, in checkout: await ctx\.call\(add_tax, number\)", line)
        await expect(page.get_by_text("goes on by itself when code that fits is deployed")).to_be_visible()


async def test_of_a_long_history_the_end_is_shown_and_the_rest_on_demand(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.order(instance, *["rope"] * 110)
    events = (await server.ended(instance))["events"]
    page = (await open_page(server, f"/#/orchestration/{instance}")).page
    await page.get_by_role("button", name="list").click()
    rows = page.locator(".timeline > li")
    await expect(rows).to_have_count(200)
    await expect(rows.last).to_contain_text("Completed")
    await expect(page.locator(".steps")).to_contain_text(f"the last 200 of {events} events")
    await page.get_by_role("button", name="Show earlier events").click()
    await expect(rows).to_have_count(events)
    await expect(rows.first).to_contain_text("started")
    await expect(page.get_by_role("button", name="Show earlier events")).to_be_hidden()


async def test_an_id_that_is_given_again_has_a_history_of_its_own(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.order(instance, "rope")
    await server.ended(instance)
    visit = await open_page(server, f"/#/orchestration/{instance}")
    visit.expected.add("404")  # it may be looked at between the two
    page = visit.page
    await expect(page.locator(".now")).to_have_text("completed")
    await server.call("DELETE", f"/orchestrations/{instance}")
    await server.order(instance, "rope", total=TO_BE_APPROVED)
    await expect(page.locator(".now")).to_have_text("running")
    await page.get_by_role("button", name="list").click()
    await expect(page.locator(".timeline .sentence").last).to_have_text("Waiting for event approved")
    await expect(page.locator(".timeline > li")).to_have_count(3)


async def test_the_outcome_of_an_action_is_not_shown_at_another_instance(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    for name in (instance, f"{instance}-too"):
        await server.order(name, "rope", total=TO_BE_APPROVED)
    page = (await open_page(server, f"/#/orchestration/{instance}")).page
    answered = asyncio.Event()

    async def hold(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await page.route("**/suspend", hold)
    await page.get_by_role("button", name="Suspend").click()
    await page.evaluate(f"location.hash = '#/orchestration/{instance}-too'")
    await expect(page.get_by_role("heading", name=f"{instance}-too")).to_be_visible()
    await expect(page.locator(".now")).to_have_text("running")
    async with page.expect_response("**/suspend"):
        answered.set()
    # Another look, after which it would have been shown.
    async with page.expect_response(f"**/orchestrations/{instance}-too"):
        pass
    await expect(page.locator(".outcome").first).to_be_empty()
    assert (await server.call("GET", f"/orchestrations/{instance}"))["status"] == "SUSPENDED"
