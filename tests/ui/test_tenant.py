"""The page of one tenant: its queues, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


async def test_its_queues_are_shown_and_what_is_pushed_is_its_own(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    await own_server.push("theirs", 1)
    page = (await open_page(own_server, "/?tenant=acme")).page
    await expect(page.locator("#facts")).to_contain_text("tenant acme · embedded host")
    command = f"curl -X POST -H 'Holdfast-Tenant: acme' '{own_server.url}/queue/orders/push'"
    await expect(page.locator("#no-queues")).to_contain_text(command)
    await page.get_by_role("searchbox", name="Find or open a queue").fill("theirs")
    await page.get_by_role("searchbox", name="Find or open a queue").press("Enter")
    await page.get_by_role("button", name="Push").first.click()
    form = page.get_by_role("form", name="Push an item")
    await form.get_by_role("textbox").first.fill("7")
    await form.get_by_role("button", name="Push").click()
    await expect(page.get_by_role("link", name="theirs: 1 waiting")).to_be_visible()
    assert await own_server.depth("theirs") == 1


@pytest.mark.parametrize("tenant", ["a@b", "%C3%A9", "%0A"])
async def test_what_is_no_tenant_is_said(
    own_server: Server, open_page: Callable[..., Awaitable[Visit]], tenant: str
) -> None:
    visit = await open_page(own_server, f"/?tenant={tenant}")
    visit.expected.add("400")
    await expect(visit.page.locator("#problem")).to_contain_text("tenant")
