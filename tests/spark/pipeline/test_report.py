"""The report in a browser: all of it there, nothing from elsewhere, and what is stored stays text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from holdfast.spark.report.markup import element, text
from page.browser import chromium
from spark.pipeline.shop import HTML

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Request

    from spark.pipeline.conftest import Kept

TITLES = {
    *("Depth by queue and priority", "How long items have been waiting", "Waiting, delayed, locked"),
    *("Locks about to expire", "Redeliveries", "Dead letters by reason", "The latest dead letters"),
    *("Instances by status", "How long orchestrations take", "How long activities take"),
    *("How long events are waited for", "The slowest instances", "The instance that failed last"),
    *("Queues", "Orchestrations", "What must hold"),
}


@pytest.mark.parametrize("width", [1200, 390])
async def test_the_report_in_a_browser(kept: Kept, width: int) -> None:
    report = Path(kept.later["report"]).as_uri()
    async with chromium() as browser:
        context = await browser.new_context(viewport={"width": width, "height": 844}, is_mobile=width < 600)
        page = await context.new_page()
        asked: list[str] = []
        complaints: list[str] = []

        def note(request: Request) -> None:
            asked.append(request.url)

        def hear(message: ConsoleMessage) -> None:
            complaints.append(message.text)

        page.on("request", note)
        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(report)
        assert await page.locator("h3").count() >= len(TITLES)
        assert set(await page.locator("h3").all_text_contents()) >= TITLES
        await expect(page.locator(".verdict")).to_contain_text("It adds up.")
        await expect(page.locator(".tiles")).to_contain_text("Instances failed2")
        # Both as a dead letter's reason and in a title that is shown when it is pointed at.
        await expect(page.locator("main")).to_contain_text(f"no such address: {HTML}")
        assert await page.evaluate("window.stolen") is None
        assert await page.locator("script, iframe, img, object, [onclick], main b[onclick]").count() == 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert [url for url in asked if not url.startswith(("data:", report))] == []
        assert complaints == []


async def test_it_refuses_what_it_never_does(kept: Kept) -> None:
    async with chromium() as browser:
        page = await browser.new_page()
        await page.goto(Path(kept.later["report"]).as_uri())
        refused = await page.evaluate(
            """async () => {
                const refusals = [];
                document.addEventListener("securitypolicyviolation", (told) => refusals.push(told.effectiveDirective));
                const script = document.createElement("script");
                script.textContent = "window.stolen = 1";
                document.body.append(script);
                const image = new Image();
                image.src = "https://elsewhere.invalid/x.png";
                await fetch("https://elsewhere.invalid/").catch(() => {});
                await new Promise((done) => setTimeout(done));
                return refusals;
            }"""
        )
        assert {"script-src-elem", "img-src", "connect-src"} <= set(refused)
        assert await page.evaluate("window.stolen") is None


def test_what_is_not_markup_is_text() -> None:
    assert element("p", "<b onclick=x>&", title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;b onclick=x&gt;&amp;</p>'
    )
    # A mark that would turn the rest of a line around is shown instead.
    assert text("abc\u202edef") == "abc\\u202edef"
