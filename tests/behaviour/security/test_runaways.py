"""Orchestrations that never yield: stopped soon, and not started again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

APP = """
import holdfast

app = holdfast.App()

@app.orchestration
async def spin(ctx, spins: bool):
    if not spins:
        await ctx.event("go")
        return "gone on"
    while True:
        pass

@app.orchestration
async def parent(ctx):
    await ctx.sub(spin, True)
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    (tmp_path / "spinning.py").write_text(APP)
    async with Server(tmp_path, "spinning:app") as running:
        yield running


async def ask(server: Server, verb: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, server.url + path, json=body, headers=headers) as answer,
    ):
        return answer.status, await answer.json(), answer.headers


async def start(
    server: Server, instance_id: str, name: str = "spin", given: Any = True, **headers: str
) -> tuple[int, Any, Any]:
    body = {"instance_id": instance_id, "input": given}
    return await ask(server, "POST", f"/orchestrations/{name}/start", body, **headers)


async def ended(server: Server, instance_id: str) -> Any:
    return (await ask(server, "GET", f"/orchestrations/{instance_id}/wait?timeout_seconds=60"))[1]


async def test_what_never_yields_is_stopped_soon_and_then_refused(server: Server) -> None:
    assert (await start(server, "waiting", given=False))[0] == 202
    for number in range(3):
        assert (await start(server, f"spinning-{number}"))[0] == 202
        error = (await ended(server, f"spinning-{number}"))["error"]
        assert (error["kind"], "more than 2 seconds" in error["message"]) == ("never_yields", True)
    status, answer, headers = await start(server, "one-too-many")
    assert (status, answer["error_code"]) == (429, "STARTS_REFUSED")
    assert 0 < int(headers["Retry-After"]) <= 60
    assert (await ask(server, "GET", "/orchestrations/one-too-many"))[0] == 404
    # A child of it fails at once, and is no start that is tried again and again.
    assert (await start(server, "parent", "parent", None))[0] == 202
    assert "SubOrchestrationRefused" in (await ended(server, "parent"))["error"]["message"]
    # Another tenant has done nothing, and what runs goes on.
    assert (await start(server, "theirs", given=False, **{"Holdfast-Tenant": "acme"}))[0] == 202
    assert (await ask(server, "POST", "/orchestrations/waiting/events/go", 1))[0] == 202
    assert (await ended(server, "waiting"))["output"] == "gone on"
