"""On a phone, with a keyboard alone, in the dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")

PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}


async def _overflow(page: Page) -> int:
    overflow: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return overflow


async def test_a_phone_never_scrolls_sideways(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str
) -> None:
    long = f"{queue}-{'wide.' * 30}end"
    await server.dead_letter(long, "x" * 300, "why" * 90)
    await server.push(long, {"text": "W" * 500, "deep": [["x" * 300]]}, *range(30), priority=2**31 - 1)
    await server.call("POST", f"/queue/{long}/pop?require_ack=true")
    page = (await open_page(server, "/#/queues", **PHONE)).page
    await expect(page.get_by_role("link", name=long, exact=True)).to_be_visible()
    assert await _overflow(page) == 0
    await page.get_by_role("link", name=long, exact=True).tap()
    await expect(page.get_by_role("heading", name=long)).to_be_focused()
    await page.locator(".locks .items summary").first.tap()
    await page.locator(".letters summary").first.tap()
    for panel in ("Push", "Pop", "Purge"):
        await page.get_by_role("button", name=panel, exact=True).tap()
        assert await _overflow(page) == 0
    await page.get_by_role("button", name="Change").tap()
    await page.get_by_role("button", name="Show more", exact=True).tap()
    await expect(page.locator(".peek li")).to_have_count(30)
    assert await _overflow(page) == 0


VIEWS = ("", "orchestrations", "queues", "schedules", "workers", "idempotency", "developers", "start/cart")


@pytest.mark.parametrize("width", [320, 700, 1000, 1160])
async def test_no_view_scrolls_sideways(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str, width: int
) -> None:
    await server.push(queue, {"text": "W" * 500})
    await server.start_one("failing", queue, {"customer": "W" * 300})
    await server.ended(queue)
    page = (await open_page(server, viewport={"width": width, "height": 800})).page
    for view in (*VIEWS, f"queue/{queue}", f"orchestration/{queue}"):
        await page.goto(f"{server.url}/#/{view}")
        await expect(page.locator("main .title")).to_be_visible()
        await expect(page.locator("main :is(.card, form)").first).to_be_visible()
        assert await _overflow(page) == 0, view


async def test_a_keyboard_is_enough(server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str) -> None:
    await server.push(queue, 1)
    page = (await open_page(server, "/#/queues", viewport={"width": 800, "height": 800})).page
    row = page.get_by_role("link", name=queue, exact=True)
    await expect(row).to_be_visible()
    keyboard = page.keyboard
    await keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await keyboard.press("Enter")
    while not await row.evaluate("(link) => link === document.activeElement"):
        await keyboard.press("Tab")
    await keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=queue)).to_be_focused()

    push = page.get_by_role("button", name="Push", exact=True)
    await expect(push).to_be_visible()
    await keyboard.press("Tab")
    await expect(push).to_be_focused()
    await keyboard.press("Enter")
    item = page.get_by_label("Item, as JSON")
    await expect(item).to_be_focused()
    await keyboard.press("Control+A")
    await keyboard.type('"typed"')
    await keyboard.press("Control+Enter")
    await expect(page.locator(".peek summary code")).to_have_text(["1", '"typed"'])
    await keyboard.press("Escape")
    await expect(item).to_be_hidden()
    await expect(push).to_be_focused()

    for _ in range(3):
        await keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Purge", exact=True)).to_be_focused()
    await keyboard.press("Enter")
    await expect(page.get_by_label(f"Type {queue} to confirm")).to_be_focused()
    await keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Purge", exact=True)).to_be_focused()
    assert await server.depth(queue) == 2


async def test_light_and_dark_follow_the_system_and_can_be_read(visit: Visit) -> None:
    page = visit.page
    await expect(page.locator(".state")).to_have_text("ready")
    grounds = set()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        grounds.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        for text in ("ink", "quiet", "bad", "good", "locked", "accent"):
            for ground in ("card", "ground", "hover"):
                assert await page.evaluate(_CONTRAST, [f"--{text}", f"--{ground}"]) >= 4.5, (scheme, text, ground)
    assert len(grounds) == 2


# As the Web Content Accessibility Guidelines reckon it.
_CONTRAST = """([text, ground]) => {
    const light = (name) => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
        const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
            .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [low, high] = [light(text), light(ground)].sort((one, other) => one - other);
    return (high + 0.05) / (low + 0.05);
}"""
