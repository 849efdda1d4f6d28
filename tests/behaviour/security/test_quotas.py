"""Quotas on all that a tenant can store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.behaviour.security.guarded import OnDapr, OnEmbedded
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.behaviour.security.guarded import Guarded

KIBIBYTE = 1024
QUOTAS = """
[tenants.greedy]
max_bytes = 200_000
max_idempotency_bytes = 20_000
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    (tmp_path / "holdfast.toml").write_text(QUOTAS)
    async with Server(tmp_path) as running:
        yield running


async def ask(server: Server, tenant: str, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
    headers = {"Holdfast-Tenant": tenant}
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, server.url + path, json=body, headers=headers) as answer,
    ):
        return answer.status, await answer.json()


async def test_large_items_fill_a_quota_though_they_are_few(server: Server) -> None:
    statuses = []
    for number in range(30):
        item = {"item": "x" * 16 * KIBIBYTE, **({"delay_seconds": 100} if number % 2 else {})}
        statuses.append((await ask(server, "greedy", "POST", f"/queue/q-{number % 3}/push", item))[0])
    assert statuses == [200] * 12 + [429] * 18
    status, answer = await ask(server, "greedy", "POST", "/queue/q-0/push", {"item": "x" * 300 * KIBIBYTE})
    assert (status, answer["error_code"]) == (413, "TOO_LARGE")
    assert (await ask(server, "honest", "POST", "/queue/q-0/push", {"item": "x" * 300 * KIBIBYTE}))[0] == 200
    # What is locked still lies there.
    status, popped = await ask(server, "greedy", "POST", "/queue/q-0/pop?require_ack=true")
    assert (status, popped["count"]) == (200, 1)
    assert (await ask(server, "greedy", "POST", "/queue/q-0/push", {"item": "x" * 16 * KIBIBYTE}))[0] == 429
    done = await ask(server, "greedy", "POST", "/queue/q-0/acknowledge", {"lock_id": popped["lock_id"]})
    assert done[0] == 200
    assert (await ask(server, "greedy", "POST", "/queue/q-0/push", {"item": "x" * 16 * KIBIBYTE}))[0] == 200


async def test_idempotency_records_fill_a_quota(server: Server) -> None:
    status, begun = await ask(server, "greedy", "POST", "/idempotency/~/first/begin")
    assert status == 200
    commit = {"owner": begun["owner"], "result": "x" * 30_000}
    # What has happened is recorded, also when it is too much.
    assert (await ask(server, "greedy", "POST", "/idempotency/~/first/commit", commit))[0] == 200
    status, refused = await ask(server, "greedy", "POST", "/idempotency/~/second/begin")
    assert (status, refused["error_code"]) == (429, "CAPACITY")
    assert (await ask(server, "greedy", "GET", "/idempotency/~/second"))[0] == 404
    assert (await ask(server, "greedy", "POST", "/idempotency/~/first/begin"))[1]["outcome"] == "done"
    assert (await ask(server, "honest", "POST", "/idempotency/~/second/begin"))[0] == 200


@pytest.fixture(
    params=[
        pytest.param(kind, id=kind.host, marks=pytest.mark.xdist_group(f"attacks-quotas-{kind.host}"))
        for kind in (OnEmbedded, OnDapr)
    ]
)
async def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Guarded]:
    (tmp_path / "holdfast.toml").write_text("[tenants.acme]\nmax_idempotency_bytes = 20_000\n")
    async with request.param(tmp_path) as running:
        yield running


async def test_idempotency_records_still_count_after_a_restart(guarded: Guarded) -> None:
    async def begin(key: str) -> tuple[int, Any]:
        answer = await guarded.ask("POST", f"/idempotency/~/{key}/begin", token="acme-user")
        return answer.status, answer.body

    status, begun = await begin("first")
    assert status == 200
    commit = {"owner": begun["owner"], "result": "x" * 30_000}
    (await guarded.ask("POST", "/idempotency/~/first/commit", commit, token="acme-user")).ok()
    await guarded.app.terminate()
    await guarded.start_again()
    status, refused = await begin("second")
    assert (status, refused["error_code"]) == (429, "CAPACITY")
    status, begun = await begin("first")
    assert (status, begun["outcome"]) == (200, "done")
    assert (await guarded.ask("POST", "/idempotency/~/second/begin", token="user")).status == 200
