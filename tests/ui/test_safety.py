"""Stored data are shown as text, and the browser enforces the page's content security policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from holdfast.gateway import ui as page_files
from holdfast.gateway.middleware import access
from tests.ui.workshop import HTML

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")


async def test_html_in_what_is_pushed(server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str) -> None:
    await server.push(queue, HTML, {HTML: [HTML]})
    held = await server.call("POST", f"/queue/{queue}/pop?require_ack=true")
    await server.call("POST", f"/queue/{queue}/abandon", {"lock_id": held["lock_id"], "error": HTML})
    page = (await open_page(server, f"/#/queue/{queue}")).page
    await expect(page.locator(".peek summary code").first).to_contain_text("<b>bold</b>")
    await page.locator(".peek summary").first.click()
    await expect(page.locator(".peek .item-body").first).to_contain_text(f"Last error{HTML}")
    await page.locator(".peek summary").nth(1).click()
    await expect(page.locator(".peek pre").nth(1)).to_contain_text("<script>")
    await server.call("POST", f"/queue/{queue}/pop?require_ack=true")
    await expect(page.locator(".locks .items code")).to_contain_text("<b>bold</b>")
    await _nothing_was_made_of_it(page)


async def test_html_in_a_queue_name_and_in_the_refusal_of_it(
    server: Server, open_page: Callable[..., Awaitable[Visit]]
) -> None:
    visit = await open_page(server, f"/#/queue/{quote(HTML, safe='')}")
    visit.expected.add("400")
    page = visit.page
    await expect(page.locator(".title")).to_have_text(HTML)
    await expect(page.locator("main .problem").first).to_contain_text("This queue id is not valid")
    await expect(page).to_have_title(f"{HTML} · Holdfast")
    await _nothing_was_made_of_it(page)


async def test_html_in_an_error_of_the_server(visit: Visit) -> None:
    visit.expected.add("500")
    page = visit.page
    await page.get_by_role("link", name="Developers").click()
    await page.get_by_label("Method").fill(HTML)
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator(".outcome")).to_contain_text("<b>bold</b>")
    await _nothing_was_made_of_it(page)


async def _nothing_was_made_of_it(page: Page) -> None:
    assert await page.evaluate("window.stolen") is None
    assert await page.locator("main :is(img, script)").count() == 0
    assert await page.locator("b", has_text="bold").filter(has_not_text="<").count() == 0


@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "a/b", "a%3Fb%23c", "%", "ü"])
async def test_names_that_would_lead_elsewhere_are_refused_in_words(
    server: Server, open_page: Callable[..., Awaitable[Visit]], name: str
) -> None:
    visit = await open_page(server, f"/#/queue/{name}")
    visit.expected |= {"400", "404"}
    await expect(visit.page.locator("main .problem").first).to_be_visible()
    asked = {url.removeprefix(server.url) for url in visit.requests} - {*page_files.FILES, "/status"}
    assert all(
        path.startswith(("/samples?queue=", "/events?topic=")) or re.fullmatch("/queue/[^/]+(/dead-letters.*)?", path)
        for path in asked
    )


async def test_the_policy_refuses_what_the_page_never_does(visit: Visit) -> None:
    page = visit.page
    await expect(page.locator(".state")).to_have_text("ready")
    refused = await page.evaluate(
        """async () => {
            const refusals = [];
            document.addEventListener("securitypolicyviolation", (event) => refusals.push(event.effectiveDirective));
            const script = document.createElement("script");
            try { document.body.innerHTML = "<b>bold</b>"; } catch {}
            try { script.textContent = "window.stolen = 1"; document.body.append(script); } catch {}
            const image = new Image();
            image.src = "https://elsewhere.invalid/x.png";
            document.body.setAttribute("style", "color: red");
            await fetch("https://elsewhere.invalid/").catch(() => {});
            await new Promise((done) => setTimeout(done));
            return refusals;
        }"""
    )
    assert {"require-trusted-types-for", "img-src", "style-src-attr", "connect-src"} <= set(refused)
    assert await page.evaluate("window.stolen") is None
    assert await page.locator("main").count() == 1
    assert any("Content Security Policy" in text for text in visit.complaints)
    assert "https://elsewhere.invalid/x.png" in visit.requests
    # All of this was the test's own doing.
    visit.complaints.clear()
    visit.requests.remove("https://elsewhere.invalid/x.png")


def test_exactly_the_pages_files_and_the_probes_need_no_token() -> None:
    assert {"/", "/docs", "/page/page.js", "/page/page.css", "/page/vendor/preact.mjs"} <= set(page_files.FILES)
    probes = {"/healthz", "/readyz", "/v1.0/healthz", "/v1.0/healthz/outbound"}
    assert {*probes, *page_files.FILES} == access.OPEN_PATHS
