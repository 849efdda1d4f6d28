"""A server refuses pages of other sites, unknown host names and, where tokens are set, calls without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "open-sesame-0123456789"
POP = "/queue/orders/pop"

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("gateway")


@pytest.fixture(scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with Server(tmp_path_factory.mktemp("guarded"), "--token", TOKEN) as running:
        yield running


async def asked(server: Server, verb: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Status and body."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, server.url + path, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("verb", "path"), [("POST", POP), ("GET", "/status"), ("GET", "/v1.0/metadata")])
async def test_a_page_of_another_site_is_refused(server: Server, verb: str, path: str, site: str) -> None:
    status, body = await asked(server, verb, path, {"Sec-Fetch-Site": site})
    assert status == 403
    assert json.loads(body)["error_code"] == "FORBIDDEN"


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}])
async def test_the_page_itself_and_programs_are_not(server: Server, headers: dict[str, str]) -> None:
    assert (await asked(server, "POST", POP, headers))[0] == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "192.168.0.7:8080", "[2001:db8::1]:80", ""]
)
async def test_a_strange_name_is_refused(server: Server, name: str) -> None:
    status, body = await asked(server, "POST", POP, {"Host": name, "Sec-Fetch-Site": "same-origin"})
    assert status == 403
    assert "--token" in json.loads(body)["message"]


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.8.9.10:1", "[::1]", "[::1]:8080"])
async def test_every_name_of_this_machine_alone_is_taken(server: Server, name: str) -> None:
    assert (await asked(server, "POST", POP, {"Host": name}))[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/"])
async def test_probes_and_a_link_to_the_page_work_from_anywhere(server: Server, path: str) -> None:
    headers = {"Host": "pod.example", "Sec-Fetch-Site": "cross-site"}
    assert (await asked(server, "GET", path, headers))[0] == 200


async def test_with_a_token_the_name_does_not_matter(guarded: Server) -> None:
    headers = {"Host": "queues.example", "Authorization": f"Bearer {TOKEN}"}
    assert (await asked(guarded, "POST", POP, headers))[0] == 200


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "A token is required"),
        ({"Authorization": "Bearer a-guess"}, "Unknown token"),
        ({"Authorization": f"Basic {TOKEN}"}, "A token is required"),
        ({"dapr-api-token": TOKEN}, "A token is required"),
    ],
)
async def test_a_wrong_token_is_told_from_none(guarded: Server, headers: dict[str, str], why: str) -> None:
    status, body = await asked(guarded, "GET", "/status", headers)
    assert status == 401
    assert why in json.loads(body)["message"]


@pytest.mark.parametrize("query", ["count=1&count=2", "count=1&count=1", "count=1&%63ount=2"])
async def test_a_query_says_each_thing_once(server: Server, query: str) -> None:
    status, body = await asked(server, "POST", f"{POP}?{query}", {})
    assert (status, json.loads(body)["error_code"]) == (400, "INVALID_REQUEST")
    assert "twice" in json.loads(body)["message"]


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/v1.0/metadata", TOKEN, 200),
        ("/v1.0/metadata", "a guess", 401),
        ("/v1.0/metadata", "", 401),
        ("/status", TOKEN, 401),
    ],
)
async def test_the_sdks_own_header_carries_the_token_where_the_sdk_calls(
    guarded: Server, path: str, token: str, status: int
) -> None:
    assert (await asked(guarded, "GET", path, {"dapr-api-token": token}))[0] == status
