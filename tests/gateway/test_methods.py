"""A method that a path does not accept is refused, with the list of methods that it accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

if TYPE_CHECKING:
    from tests.support.server import Server

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("gateway")


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/queue/orders/push", "POST"),
        ("DELETE", "/queue/orders/config", "GET, PUT"),
        ("POST", "/queues", "GET"),
        ("POST", "/healthz", "GET"),
    ],
)
async def test_the_answer_names_the_methods_there_are(server: Server, verb: str, path: str, allowed: str) -> None:
    async with aiohttp.ClientSession() as session, session.request(verb, server.url + path) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, allowed)
        assert (await answer.json())["error_code"] == "METHOD_NOT_ALLOWED"
