"""The documentation site: built without a warning and without a network, and read without a network."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import click
import pytest
from playwright.async_api import expect

import holdfast
import holdfast.client
from holdfast import errors
from holdfast.cli.main import cli
from tests.support.browser import chromium
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# In one process, which builds the site once.
pytestmark = pytest.mark.xdist_group("site")

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
        timeout=900,
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


def text_of(page: Path) -> str:
    """Returns the text of a page as a reader sees it."""
    article = page.read_text("utf-8").partition("<article")[2].partition("</article>")[0]
    return html.unescape(re.sub(r"<[^>]+>", "", article))


def test_the_reference_has_every_error_command_and_call(site: Path) -> None:
    reference = site / "docs" / "reference"
    missing = {found.code for found in subclasses(errors.HoldfastError)} - words(reference / "errors.html")
    assert missing == set()
    assert {"holdfast orchestration bulk rerun", "holdfast queue push"} <= set(commands(cli, "holdfast"))
    shown = text_of(reference / "commands.html")
    assert [name for name in commands(cli, "holdfast") if f"{name} [OPTIONS]" not in shown] == []
    shown = text_of(reference / "rest.html")
    assert [
        call for call in ("POST /queue/{queue}/push", "GET /definitions", "GET /metrics") if call not in shown
    ] == []
    assert {"HOLDFAST_GRPC_PORT", "max_bytes", "retry_delay_factor"} <= words(reference / "configuration.html")


def test_the_reference_has_the_metrics_that_are_documented(site: Path) -> None:
    explained = re.findall(r"^\| `(holdfast_\w+)`", (ROOT / "docs/metrics.md").read_text("utf-8"), re.MULTILINE)
    shown = {word for word in words(site / "docs/reference/metrics.html") if word.startswith("holdfast_")}
    assert shown == set(explained)


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "docs/reference/python.html").read_text("utf-8")
    explained = set(re.findall(r'id="([\w.]+)"', page))
    public = {f"{module.__name__}.{name}" for module in (holdfast, holdfast.client) for name in module.__all__}
    assert public - explained == {"holdfast.__version__", "holdfast.client.Client"}


def words(page: Path) -> set[str]:
    return set(re.findall(r"\w+", text_of(page)))


def subclasses(found: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    yield found
    for child in found.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from subclasses(child)


def commands(group: click.Group, prefix: str) -> Iterator[str]:
    """Yields the commands that are not groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


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
