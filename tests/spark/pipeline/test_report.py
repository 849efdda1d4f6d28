"""The report in a browser: all of it there, nothing from elsewhere, and what is stored stays text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from holdfast.spark.pipeline.manifest import Manifest
from holdfast.spark.report import render
from holdfast.spark.report.html import element, text
from holdfast.spark.session import suited_to
from holdfast.spark.statistics import figures
from tests.spark.pipeline.sample_tables import AS_OF, SampleTables, ago, started
from tests.spark.pipeline.shop import HTML
from tests.support.browser import chromium

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Request
    from pyspark.sql import SparkSession

    from tests.spark.pipeline.conftest import Kept

TITLES = {
    *("Depth by queue and priority", "How long items have been waiting", "Waiting, delayed, locked"),
    *("Locks about to expire", "Redeliveries", "Dead letters by reason", "Latest dead letters"),
    *("Instances by status", "Orchestration durations", "Activity durations"),
    *("Event wait times", "Slowest instances", "Last failed instance"),
    *("Queues", "Orchestrations", "Consistency checks"),
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
        await expect(page.locator(".verdict")).to_contain_text("Checks passed.")
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


def test_however_much_there_is_the_page_stays_small(spark: SparkSession) -> None:
    shop = SampleTables()
    for number in range(300):
        shop.queue(f"queue-{number}", [{"priority": priority} for priority in range(12)])
        shop.add("dead_letters", queue="d", id=f"{number}", item="x" * 5000, reason=f"reason {number} " + "y" * 900)
        asked = [{"type": "TimerCreated"}] * (500 if number == 7 else 1)
        shop.instance(f"i-{number}", f"orchestration-{number}", [started("o"), *asked], created_at=ago(900 - number))
    with ThreadPoolExecutor(2) as pool, suited_to(spark, 0):
        counted = figures(shop.tables(spark), AS_OF.timestamp(), pool)
    manifest = Manifest(AS_OF, "0", "sqlite:///x", None, None, 1.0, {}, counted.totals, [], [], [])
    page = render(manifest, counted, [], None, [])
    for told in ("and 288 more queues", "and 288 more reasons", "and 292 more dead letters", "and 288 more instances"):
        assert told in page
    assert counted.instances.names == 300
    assert len(page) < 150_000


def test_what_is_not_markup_is_text() -> None:
    assert element("p", "<b onclick=x>&", title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;b onclick=x&gt;&amp;</p>'
    )
    # A mark that would turn the rest of a line around is shown instead.
    assert text("abc\u202edef") == "abc\\u202edef"
