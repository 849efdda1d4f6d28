"""The documentation site: built without a warning and without a network, and read without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.support.browser import chromium
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

#: Sphinx in a process that cannot connect to anything.
_OFFLINE = """
import socket, sys

def refuse(*address):
    raise OSError("there is no network")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--conf-dir", "docs", "--doctree-dir", folder / "trees"]
    built = subprocess.run(
        [sys.executable, "-c", _OFFLINE, *options, ".", folder / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


class Loaded(HTMLParser):
    """The addresses that a browser loads together with a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag != "a":
            self.addresses += [str(given[name]) for name in ("src", "srcset", "poster", "data") if name in given]
        if tag == "link" and given.get("rel") not in ("author", "index", "search", "next", "prev"):
            self.addresses.append(str(given["href"]))


def test_every_document_is_a_page(site: Path) -> None:
    documents = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert len(documents) > 25
    assert documents <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = {(page, address) for page in site.rglob("*.html") for address in Loaded(page).addresses}
    assert {address.rpartition("/")[2].partition("?")[0] for _, address in loaded} >= {"furo.css", "page.png"}
    elsewhere = [address for _, address in loaded if re.match(r"(\w+:)?//", address)]
    styles = "\n".join(style.read_text("utf-8") for style in site.rglob("*.css"))
    elsewhere += re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]+)""", styles)
    assert elsewhere == []


@pytest.mark.xdist_group("browser")
async def test_the_search_works_in_a_folder(site: Path) -> None:
    requests: list[str] = []
    complaints: list[str] = []
    async with chromium() as browser:
        page = await browser.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        await page.goto((site / "index.html").as_uri())
        await page.wait_for_url("**/docs/index.html")
        await page.get_by_placeholder("Search").first.fill("redrive")
        await page.keyboard.press("Enter")
        await expect(page.locator("#search-results a", has_text="Queues").first).to_be_visible(timeout=30_000)
    assert [url for url in requests if not url.startswith((site.as_uri(), "data:"))] == []
    assert complaints == []
