"""axe-core finds no serious problem in any view, light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from holdfast.errors import ComponentMissing
from tests.sdks.javascript import packages
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.ui.conftest import Visit
    from tests.ui.server import Server

pytestmark = pytest.mark.xdist_group("page")

# Each view, and the panel to open in it.
VIEWS = {
    "": None,
    "orchestrations": None,
    "orchestration/{0}": "Raise an event",
    "orchestration/{0}-failed": "Delete",
    "queues": None,
    "queue/{0}": "Pop",
    "schedules": "New schedule",
    "workers": None,
    "idempotency": None,
    "developers": None,
    "start/cart": None,
}
_PROBLEMS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 200))])"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The program of axe-core."""
    try:
        _, folder = packages("axe", ROOT / "tests" / "ui" / "axe")
    except ComponentMissing as error:
        pytest.fail(str(error), pytrace=False)
    return (folder / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_a_serious_problem(
    server: Server, open_page: Callable[..., Awaitable[Visit]], queue: str, axe: str, scheme: str
) -> None:
    await server.dead_letter(queue, 1, "no customer")
    await server.push(queue, {"order": 1}, 2)
    await server.call("POST", f"/queue/{queue}/pop?require_ack=true")
    await server.start_one("cart", queue, {"customer": "ann"})
    await server.start_one("failing", f"{queue}-failed", {"customer": "ann"})
    await server.ended(f"{queue}-failed")
    # What is checked must not be hidden by the page's policy from the checker.
    visit = await open_page(server, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page = visit.page
    await page.evaluate(axe)
    found = {}
    for view, panel in VIEWS.items():
        await page.evaluate("(view) => { location.hash = `#/${view}`; }", view.format(queue))
        await expect(page.locator("main .title")).to_be_visible()
        await expect(page.locator("main :is(.card, form)").first).to_be_visible()
        if panel:
            await page.get_by_role("button", name=panel, exact=True).click()
        await page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        if problems := await page.evaluate(_PROBLEMS):
            found[view] = problems
    assert found == {}
