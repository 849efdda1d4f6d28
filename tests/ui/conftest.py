"""A browser for the session; for each test a server and a page of its own, and an eye on what the page does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.support.browser import chromium
from tests.ui.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from playwright.async_api import Browser, ConsoleMessage, Page

# Looks are two seconds apart, eight while the server does not answer; the machine may be busy.
expect.set_options(timeout=20_000)


@dataclass
class Visit:
    """A page, and what it asked for and complained about."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    #: Parts of complaints that the test is about: the browser itself reports every refused request.
    expected: set[str] = field(default_factory=set)

    def hear(self, message: ConsoleMessage) -> None:
        # Violations of the content security policy are errors here too.
        if message.type == "error":
            self.complaints.append(message.text)

    def check(self) -> None:
        assert self.requests, "the page asked for nothing"
        assert [url for url in self.requests if not url.startswith(f"{self.origin}/")] == []
        assert [text for text in self.complaints if not any(part in text for part in self.expected)] == []


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server for all tests that use queues of their own."""
    async with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path) as server:
        yield server


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue no other test has."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")


@pytest.fixture
def instance(queue: str) -> str:
    """An instance no other test has."""
    return queue


@pytest.fixture
async def open_page(browser: Browser) -> AsyncIterator[Callable[..., Awaitable[Visit]]]:
    """Opens a page in a profile of its own; at the end it is checked that it kept to its server and its policy."""
    visits: list[Visit] = []

    async def open_one(server: Server, where: str = "/", **context: Any) -> Visit:
        page = await (await browser.new_context(**context)).new_page()
        visit = Visit(page, server.url)
        visits.append(visit)
        page.on("request", lambda request: visit.requests.append(request.url))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        page.on("console", visit.hear)
        await page.goto(where if where == "about:blank" else f"{server.url}{where}")
        return visit

    yield open_one
    for visit in visits:
        await visit.page.context.close()
    for visit in visits:
        visit.check()


@pytest.fixture
async def visit(server: Server, open_page: Callable[..., Awaitable[Visit]]) -> Visit:
    return await open_page(server)
