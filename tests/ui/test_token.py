"""A server with a token: asked for once, kept in this tab, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.ui.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.ui.conftest import Visit

pytestmark = pytest.mark.xdist_group("page")

TOKEN = "correct-horse-battery"


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path, token=TOKEN) as server:
        yield server


@pytest.fixture
async def visit(own_server: Server, open_page: Callable[..., Awaitable[Visit]]) -> Visit:
    visit = await open_page(own_server)
    visit.expected.add("401")
    return visit


async def test_once_for_a_tab(own_server: Server, visit: Visit) -> None:
    page = visit.page
    await own_server.push("orders", 1)
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.locator("#state")).to_have_text("token needed")
    field = page.get_by_role("textbox", name="Token")
    await expect(field).to_be_focused()

    await field.fill("wrong")
    await field.press("Enter")
    await expect(page.locator("#token-answer")).to_have_text("The server does not accept this token.")
    await field.fill("not a token")
    await field.press("Enter")
    await expect(page.locator("#token-answer")).to_contain_text("without spaces")

    await field.fill(TOKEN)
    await field.press("Enter")
    await expect(page.get_by_role("link", name="orders: 1 waiting")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page.locator("#problem")).to_be_hidden()

    await page.reload()
    await expect(page.get_by_role("link", name="orders: 1 waiting")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_be_hidden()
    assert await page.evaluate("[localStorage.length, document.cookie, location.href]") == [0, "", f"{own_server.url}/"]
    assert not any(TOKEN in url for url in visit.requests)
    assert TOKEN not in await page.content()

    await page.get_by_role("button", name="Forget the token").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.get_by_role("link", name="orders: ")).to_have_count(0)
    assert await page.evaluate("sessionStorage.length") == 0


async def test_not_now_and_then_after_all(visit: Visit) -> None:
    page = visit.page
    await page.get_by_role("button", name="Not now").click()
    await expect(page.locator("#problem")).to_contain_text("This server requires a token.")
    await page.get_by_role("button", name="Enter a token").click()
    await page.get_by_role("textbox", name="Token").fill(TOKEN)
    await page.get_by_role("button", name="Use it").click()
    await expect(page.locator("#state")).to_have_text("ready")


async def test_commands_name_the_token_without_showing_it(visit: Visit) -> None:
    page = visit.page
    await page.get_by_role("textbox", name="Token").fill(TOKEN)
    await page.get_by_role("button", name="Use it").click()
    await page.get_by_label("Method").fill("Get")
    await expect(page.locator("#call-command")).to_contain_text('-H "Authorization: Bearer $HOLDFAST_TOKEN"')
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#call-answer")).to_have_text("0")
