"""The list of instances: filters, search, several at once; and the form that starts one."""

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


def row(page: Page, instance: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=instance, exact=True))


async def test_the_filters_are_the_address_and_the_list_follows(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    await server.order(f"{instance}-waits", "rope", total=500)
    await server.order(f"{instance}-done", "rope")
    tagged = {"instance_id": f"{instance}-tagged", "tags": {"customer": instance}}
    await server.call("POST", "/orchestrations/report/start", tagged)
    for name in ("done", "tagged"):
        await server.ended(f"{instance}-{name}")
    page = (await open_page(server, "/#/orchestrations")).page
    await page.get_by_label("Instance id begins with").fill(instance)
    await expect(page.locator("tbody tr")).to_have_count(3)
    # Newest first.
    await expect(page.locator("tbody .name").first).to_have_text(f"{instance}-tagged")
    await page.get_by_label("Status").select_option("Running")
    await expect(row(page, f"{instance}-done")).to_have_count(0)
    await page.get_by_label("Orchestration", exact=True).fill("order")
    await expect(page.locator("tbody tr")).to_have_count(1)
    assert "status=RUNNING" in page.url
    await server.call("POST", f"/orchestrations/{instance}-waits/cancel", {})
    await expect(page.get_by_text("No instances match.")).to_be_visible()
    await page.get_by_label("Status").select_option("Cancelled")
    await expect(row(page, f"{instance}-waits").locator(".badge")).to_have_text("cancelled")

    await page.goto(f"{server.url}/#/orchestrations?id_prefix={instance}")
    await row(page, f"{instance}-tagged").get_by_role("button", name=f"customer: {instance}").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_label("Started after").fill("2099-01-01T00:00")
    await expect(page.get_by_text("No instances match.")).to_be_visible()
    await page.get_by_label("Started after").fill("")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_label("Ended before").fill("2000-01-01T00:00")
    await expect(page.get_by_text("No instances match.")).to_be_visible()
    assert "ended_before=2000" in page.url


async def test_enter_opens_an_instance(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    visit = await open_page(server, "/#/orchestrations")
    visit.expected.add("404")
    page = visit.page
    await page.get_by_label("Instance id begins with").fill(instance)
    await page.get_by_label("Instance id begins with").press("Enter")
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_role("group", name="Instance actions")).to_be_hidden()
    await server.order(instance, "rope", total=500)
    await expect(page.locator(".now")).to_have_text("running")
    await expect(page.get_by_role("alert")).to_be_hidden()


async def test_more_than_one_answer_holds(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    for number in range(52):
        await server.start_one("report", f"{instance}-{number:02}", None)
    page = (await open_page(server, f"/#/orchestrations?id_prefix={instance}")).page
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(50)
    more = page.get_by_role("button", name="Show more")
    await more.click()
    await expect(rows).to_have_count(52)
    await expect(more).to_be_hidden()


async def test_several_at_once(server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str) -> None:
    for number in range(4):
        await server.order(f"{instance}-{number}", "rope", total=500)
    visit = await open_page(server, f"/#/orchestrations?id_prefix={instance}")
    visit.expected.add("409")
    page = visit.page
    bulk = page.get_by_role("group", name="Actions on several instances")
    await expect(bulk.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    await page.get_by_label(f"Choose {instance}-1").check()
    await page.get_by_label(f"Choose {instance}-2").check()
    await bulk.get_by_role("button", name="Suspend").click()
    await expect(bulk).to_contain_text("Suspend 2 chosen instances?")
    await bulk.get_by_role("button", name="Yes, suspend").click()
    await expect(bulk).to_contain_text("2 instances done.")
    await expect(row(page, f"{instance}-1").locator(".badge")).to_have_text("suspended")
    await expect(row(page, f"{instance}-0").locator(".badge")).to_have_text("running")

    await bulk.get_by_label("all that match the filter").check()
    await bulk.get_by_role("button", name="Cancel", exact=True).click()
    await expect(bulk).to_contain_text("Cancel 4 instances that match?")
    await bulk.get_by_role("button", name="Yes, cancel").click()
    await expect(bulk).to_contain_text("4 instances done.")
    await expect(page.locator("tbody .badge")).to_have_text(["cancelled"] * 4)

    await bulk.get_by_label("all that match the filter").uncheck()
    for action in ("Resume", "Rerun from the failure"):
        await page.get_by_label("Choose all that are listed").check()
        await bulk.get_by_role("button", name=action).click()
        await bulk.get_by_role("button", name=f"Yes, {action.lower()}").click()
        await expect(bulk).to_contain_text("Not possible for 4")
        await expect(page.locator("tbody :checked")).to_have_count(0)


async def test_a_form_from_the_schema_of_the_input(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    visit = await open_page(server, "/#/start/cart")
    visit.expected.add("400")
    page = visit.page
    await expect(page.get_by_label("Customer")).to_have_attribute("required", "")
    await expect(page.get_by_text("Who ordered it.")).to_be_visible()
    await page.get_by_label("Customer").fill("ann & co")
    await page.get_by_label("Many").fill("3")
    await page.get_by_label("Speed").select_option("fast")
    await page.get_by_label("Gift").check()
    await page.get_by_label("Lines").fill("[1]")
    await page.get_by_label("Instance id").fill(instance)
    await page.get_by_label("Tags").fill("team:blue, plain:")
    await page.get_by_role("button", name="Start it").click()
    await expect(page.locator(".outcome.bad")).to_contain_text("lines")
    await page.get_by_label("Lines").fill('["oar"]')
    await page.get_by_role("button", name="Start it").click()
    await expect(page.get_by_role("heading", name=instance)).to_be_visible()
    found = await server.call("GET", f"/orchestrations/{instance}")
    assert found["input"] == {"customer": "ann & co", "many": 3, "speed": "fast", "gift": True, "lines": ["oar"]}
    assert found["tags"]["team"] == "blue"


async def test_an_input_without_fields_is_json(
    server: Server, open_page: Callable[..., Awaitable[Visit]], instance: str
) -> None:
    page = (await open_page(server, "/#/start")).page
    await page.get_by_role("combobox", name="Orchestration").select_option("part")
    await page.get_by_label("Input, as JSON").fill("wheel")
    await page.get_by_label("Instance id").fill(instance)
    await page.get_by_role("button", name="Start it").click()
    await expect(page.locator(".outcome.bad")).to_contain_text("This is not JSON")
    await page.get_by_label("Input, as JSON").fill('"wheel"')
    await page.get_by_role("button", name="Start it").click()
    await expect(page.locator(".output pre")).to_have_text('"wheel is ready"')
