"""The machine's own Chromium, driven by Playwright. No browser is ever downloaded."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from playwright.async_api import async_playwright

from holdfast.errors import ComponentMissing
from holdfast.local.chromium import find_chromium, how_to_get_chromium

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser

_ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A headless browser with a fresh profile, gone at the end."""
    found = find_chromium()
    if found is None:
        raise ComponentMissing(f"Chromium was not found. {how_to_get_chromium()}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found.program, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()
