"""Requests that a page of another site can make a visitor's browser send, in every mode of the server."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from holdfast.kinds import ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.api.interface import OrchestrationActorInterface
from holdfast.pushpop.api.interface import PushPopActorInterface, QueueServiceInterface
from tests.behaviour.security.guarded import SPARE
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.behaviour.security.guarded import Guarded

TOKEN = "a-token-0123456789abcdef"
QUEUE = "victim"
MODES = {
    "loopback": [],
    "insecure": ["--listen", "0.0.0.0", "--insecure"],
    "insecure on loopback": ["--insecure"],
    "token": ["--listen", "0.0.0.0", "--token", TOKEN],
    "insecure with names": ["--listen", "0.0.0.0", "--insecure", "--allowed-host", "queues.example"],
    "token with names": ["--token", TOKEN, "--allowed-host", "queues.example", "--allowed-host", "*.inner.example"],
}
_WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}

pytestmark = pytest.mark.xdist_group("attacks-sites")


class Mode(Server):
    name: str

    async def ask(self, verb: str, path: str, **headers: str) -> tuple[int, Any]:
        sent = {**_WITH_TOKEN, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with (
            aiohttp.ClientSession() as session,
            session.request(verb, self.url + path, headers=sent, json={"item": 1} if verb == "POST" else None) as got,
        ):
            text = await got.text()
            return got.status, json.loads(text) if text else None

    async def size(self) -> int:
        size: int = (await self.ask("GET", f"/queue/{QUEUE}/peek?count=10"))[1]["count"]
        return size


@pytest.fixture(scope="module", params=MODES)
async def mode(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mode]:
    async with Mode(tmp_path_factory.mktemp("mode"), *MODES[request.param]) as running:
        running.name = request.param
        assert (await running.ask("POST", f"/queue/{QUEUE}/push"))[0] == 200
        yield running


def methods(interface: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(interface, inspect.isfunction) if name[0].isupper()]


async def test_an_image_changes_nothing(mode: Mode) -> None:
    """A browser says nothing of the page when it gets an image over plain HTTP from an address beyond loopback."""
    for actor_type, interface in (
        (QUEUE_TYPE, PushPopActorInterface),
        (QUEUE_TYPE, QueueServiceInterface),
        (ORCHESTRATION_TYPE, OrchestrationActorInterface),
    ):
        assert methods(interface)
        for method in methods(interface):
            status, answer = await mode.ask("GET", f"/v1.0/actors/{actor_type}/{QUEUE}/method/{method}")
            assert (status, answer["errorCode"]) == (405, "ERR_METHOD_NOT_ALLOWED"), method
    assert await mode.size() == 1


async def test_what_changes_something_is_not_done_by_get(mode: Mode) -> None:
    _, document = await mode.ask("GET", "/openapi.json")
    changing = [path for path, verbs in document["paths"].items() if "get" not in verbs]
    assert len(changing) > 10
    for path in changing:
        for name in ("{queue}", "{instance_id}", "{name}", "{key}", "{tenant}", "{item_id}", "{lock_id_prefix}"):
            path = path.replace(name, QUEUE)
        assert (await mode.ask("GET", path))[0] in (404, 405), path
    assert await mode.size() == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", [f"/queue/{QUEUE}/push", f"/v1.0/actors/{QUEUE_TYPE}/{QUEUE}/method/Pop"])
async def test_a_request_for_a_page_of_another_site_is_refused(mode: Mode, path: str, headers: dict[str, str]) -> None:
    status, answer = await mode.ask("POST", path, **headers)
    assert (status, answer["error_code"]) == (403, "FORBIDDEN")
    assert await mode.size() == 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "queues.example.evil.example"])
async def test_a_name_that_was_rebound_is_refused(mode: Mode, host: str) -> None:
    """To the browser the page at that name is of the same site."""
    status, answer = await mode.ask("GET", f"/queue/{QUEUE}", Host=host, Origin=f"http://{host}")
    if mode.name == "token":
        # The page has no token, and the browser knows none that it would send by itself.
        assert status == 200
    else:
        assert (status, answer["error_code"]) == (403, "FORBIDDEN")
        assert "--allowed-host" in answer["message"]


@pytest.mark.parametrize(
    ("host", "accepting"),
    [
        ("127.0.0.1", set(MODES)),
        ("localhost:8080", set(MODES)),
        ("192.0.2.7:8080", {"insecure", "token"}),
        ("[2001:db8::1]:8080", {"insecure", "token"}),
        ("queues.example", {"token", "insecure with names", "token with names"}),
        ("Queues.Example:8080", {"token", "insecure with names", "token with names"}),
        ("a.inner.example", {"token", "token with names"}),
        ("inner.example", {"token"}),
        ("", {"token"}),
    ],
)
async def test_names_that_are_accepted(mode: Mode, host: str, accepting: set[str]) -> None:
    status, _ = await mode.ask("GET", f"/queue/{QUEUE}", Host=host)
    assert status == (200 if mode.name in accepting else 403)


@pytest.mark.parametrize("site", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}], ids=str)
async def test_a_server_with_a_file_of_tokens_refuses_other_sites_too(guarded: Guarded, site: dict[str, str]) -> None:
    answer = await guarded.ask("POST", f"/queue/{SPARE}/push", {"item": 1}, token="operator", headers=site)
    assert answer.status == 403
