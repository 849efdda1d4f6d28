"""The page of one tenant shows the data of this tenant only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


async def test_queues_and_pushes_are_of_the_tenant(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    await server.push(queue, 1)
    page = (await open_page(server, "/?tenant=acme#/queues")).page
    await expect(page.locator(".facts")).to_contain_text("tenant acme · embedded host")
    command = f"curl -X POST -H 'Holdfast-Tenant: acme' '{server.url}/queue/orders/push'"
    await expect(page.locator(".empty pre")).to_contain_text(command)
    await page.get_by_role("searchbox", name="Name").fill(queue)
    await page.get_by_role("searchbox", name="Name").press("Enter")
    await page.get_by_role("button", name="Push", exact=True).click()
    await page.get_by_label("Item, as JSON").fill("7")
    await page.get_by_role("button", name="Push it").click()
    await expect(page.locator(".peek summary code")).to_have_text(["7"])
    assert await server.depth(queue) == 1


@pytest.mark.parametrize("tenant", ["a@b", "%C3%A9", "%0A"])
async def test_an_invalid_tenant_is_reported(
    server: Server, open_page: Callable[..., Awaitable[Visit]], tenant: str
) -> None:
    visit = await open_page(server, f"/?tenant={tenant}")
    visit.expected.add("400")
    await expect(visit.page.locator(".problem").first).to_contain_text("tenant")
