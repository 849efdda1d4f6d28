"""A server with tokens: asked for once, kept in this tab, never shown; roles decide which buttons there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.ui.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from playwright.async_api import Page

    from tests.ui.conftest import Visit

pytestmark = pytest.mark.xdist_group("page")

TOKENS = {role: f"correct-horse-battery-{role}" for role in ("reader", "user", "operator")}
TOKEN = TOKENS["operator"]


@pytest.fixture(scope="module")
async def closed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("closed")
    entry = '[[token]]\nname = "{0}"\nrole = "{0}"\ntenant = "*"\ntoken = "{1}"\n'
    (folder / "tokens.toml").write_text("".join(entry.format(role, token) for role, token in TOKENS.items()))
    async with Server(folder, "--tokens", str(folder / "tokens.toml"), sent_token=TOKEN) as server:
        await server.push("orders", 1)
        await server.order("order-1", "rope", total=500)
        yield server


@pytest.fixture
async def visit(closed: Server, open_page: Callable[..., Awaitable[Visit]]) -> Visit:
    visit = await open_page(closed, "/#/queue/orders")
    visit.expected.add("401")
    return visit


async def enter(page: Page, token: str) -> None:
    await page.get_by_role("textbox", name="Token").fill(token)
    await page.get_by_role("button", name="Use it").click()


async def test_once_for_a_tab(closed: Server, visit: Visit) -> None:
    page = visit.page
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.locator(".state")).to_have_text("token needed")
    field = page.get_by_role("textbox", name="Token")
    await expect(field).to_be_focused()

    await field.fill("wrong")
    await field.press("Enter")
    await expect(page.locator("dialog output")).to_have_text("The server does not accept this token.")
    await field.fill("not a token")
    await field.press("Enter")
    await expect(page.locator("dialog output")).to_contain_text("without spaces")

    await field.fill(TOKEN)
    await field.press("Enter")
    await expect(page.locator(".peek li")).to_have_count(1)
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page.locator(".problem")).to_have_count(0)

    await page.reload()
    await expect(page.locator(".peek li")).to_have_count(1)
    await expect(page.get_by_role("dialog")).to_be_hidden()
    kept = await page.evaluate("[localStorage.length, document.cookie, location.href]")
    assert kept == [0, "", f"{closed.url}/#/queue/orders"]
    assert not any(TOKEN in url for url in visit.requests)
    assert TOKEN not in await page.content()

    await page.get_by_role("button", name="Forget the token").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.locator(".peek li")).to_have_count(0)
    assert await page.evaluate("sessionStorage.length") == 0

    await page.get_by_role("button", name="Not now").click()
    await expect(page.locator(".problem")).to_contain_text("This server requires a token.")
    await page.get_by_role("button", name="Enter a token").click()
    await enter(page, TOKEN)
    await expect(page.locator(".state")).to_have_text("ready")
    await page.goto(f"{closed.url}/#/developers")
    await expect(page.locator(".command")).to_contain_text('-H "Authorization: Bearer $HOLDFAST_TOKEN"')


@pytest.mark.parametrize(
    ("role", "queue", "instance"),
    [
        ("reader", [], []),
        ("user", ["Push", "Pop"], ["Raise an event", "Send a request", "Cancel"]),
        (
            "operator",
            ["Push", "Pop", "Pause", "Purge", "Delete"],
            ["Raise an event", "Send a request", "Suspend", "Rerun", "Cancel", "Delete"],
        ),
    ],
)
async def test_buttons_of_a_role(
    closed: Server, visit: Visit, role: str, queue: list[str], instance: list[str]
) -> None:
    page = visit.page
    await enter(page, TOKENS[role])
    await expect(page.locator(".peek li")).to_have_count(1)
    await expect(page.get_by_role("group", name="Queue actions").get_by_role("button")).to_have_text(queue)
    operates = role == "operator"
    await expect(page.locator(".config").get_by_role("button")).to_have_count(int(operates))
    await page.goto(f"{closed.url}/#/orchestration/order-1")
    await expect(page.locator(".now")).to_have_text("running")
    await expect(page.get_by_role("group", name="Instance actions").get_by_role("button")).to_have_text(instance)
    await page.goto(f"{closed.url}/#/orchestrations")
    await expect(page.get_by_role("link", name="order-1", exact=True)).to_be_visible()
    await expect(page.get_by_label("Choose order-1")).to_have_count(int(operates))
    await page.goto(f"{closed.url}/#/schedules")
    await expect(page.get_by_text("No schedules yet.")).to_be_visible()
    await expect(page.get_by_role("button", name="New schedule")).to_have_count(int(operates))
    await page.goto(f"{closed.url}/#/start/order")
    await expect(page.get_by_role("heading", name="Start an orchestration")).to_be_visible()
    await expect(page.get_by_role("button", name="Start it")).to_have_count(int(role != "reader"))
