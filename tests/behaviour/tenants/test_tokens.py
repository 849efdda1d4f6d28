"""Callers whose tokens belong to tenants: what they see is theirs, and what they name cannot be another's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Client
from holdfast.errors import Capacity, Forbidden, NotFound
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ACME, UMBRELLA, EVERYBODY = "acme-0123456789abcdef", "umbrella-0123456789", "everybody-0123456789"
TOKENS = f"""
[[token]]
name = "acme"
role = "operator"
tenant = "acme"
token = "{ACME}"

[[token]]
name = "umbrella"
role = "operator"
tenant = "umbrella"
token = "{UMBRELLA}"

[[token]]
name = "everybody"
role = "operator"
tenant = "*"
token = "{EVERYBODY}"
"""

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("gateway-tenants")


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("tenants")
    tokens = folder / "tokens.toml"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    async with Server(folder, "--tokens", str(tokens)) as running:
        yield running


async def asked(server: Server, token: str, verb: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """Status and body."""
    data = None if body is None else json.dumps(body).encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()} | {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, server.url + path, data=data, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_token_says_whose_queues_are_meant(shared: Server) -> None:
    async with (
        Client(shared.url, ACME) as acme,
        Client(shared.url, UMBRELLA) as umbrella,
        Client(shared.url, EVERYBODY) as everybody,
        Client(shared.url, EVERYBODY, tenant="acme") as acting,
        Client(shared.url, ACME, tenant="umbrella") as posing,
    ):
        await acme.queue("orders").push({"secret": 1})
        for other in (umbrella, everybody):
            assert (await other.queue("orders").stats()).count == 0
            assert "orders" not in [queue.queue async for queue in other.queues()]
        assert (await acting.queue("orders").stats()).count == 1
        with pytest.raises(Forbidden):
            await posing.queue("orders").push(1)
        [message] = await acting.queue("orders").peek()
        assert message.item == {"secret": 1}


async def test_a_key_of_another_tenant_is_forbidden_whether_or_not_it_exists(shared: Server) -> None:
    async with Client(shared.url, ACME) as acme, Client(shared.url, EVERYBODY) as everybody:
        outcome = await acme.idempotent(key="invoice", run=lambda: "sent")
        assert (outcome.result, outcome.ran) == ("sent", True)
        assert not (await acme.idempotent(tenant_id="acme", key="invoice", run=lambda: "again")).ran
        assert (await everybody.idempotent(tenant_id="acme", key="invoice", run=lambda: "again")).result == "sent"
        assert (await everybody.idempotent(key="invoice", run=lambda: "another")).ran
    answers = set()
    for key in ("invoice", "nothing"):
        for verb, what in (("POST", "/begin"), ("POST", "/commit"), ("POST", "/fail"), ("POST", "/renew"), ("GET", "")):
            body = {"owner": "x"} if verb == "POST" else None
            answers.add(await asked(shared, UMBRELLA, verb, f"/idempotency/acme/{key}{what}", body))
    [(status, text)] = answers
    assert (status, json.loads(text)["error_code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("tenant_id", ["umbrella", "default", "ACME"])
async def test_nobody_pushes_on_behalf_of_another_tenant(shared: Server, tenant_id: str) -> None:
    ours, theirs = {"item": 1, "tenant_id": "acme"}, {"item": 1, "tenant_id": tenant_id, "idempotency_key": "invoice"}
    for body in (theirs, {"items": [theirs]}, {"items": [{"item": 1}, ours, theirs]}):
        status, text = await asked(shared, ACME, "POST", "/queue/behalf/push", body)
        assert (status, json.loads(text)["error_code"]) == (403, "FORBIDDEN")
    async with Client(shared.url, ACME) as acme:
        assert (await acme.queue("behalf").stats()).count == 0


async def test_for_oneself_one_may_and_those_of_no_tenant_may_for_anybody(shared: Server) -> None:
    own = {"items": [{"item": 1}, {"item": 2, "tenant_id": ""}, {"item": 3, "tenant_id": "acme"}]}
    assert (await asked(shared, ACME, "POST", "/queue/own/push", own))[0] == 200
    anybody = {"item": 1, "tenant_id": "umbrella"}
    assert (await asked(shared, EVERYBODY, "POST", "/queue/own/push", anybody))[0] == 200


async def test_metrics_and_the_state_of_the_process_are_for_those_of_no_tenant(shared: Server) -> None:
    async with Client(shared.url, ACME) as acme:
        await acme.queue("measured").push(1)

        async def listed() -> bool:
            return "measured" in [queue.queue async for queue in acme.queues()]

        await eventually(listed, what="the queue is listed")

    async def names(token: str) -> tuple[set[str], set[str]]:
        status, text = await asked(shared, token, "GET", "/metrics")
        assert status == 200
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return {sample.name for sample in samples}, {
            sample.labels["queue"] for sample in samples if "queue" in sample.labels
        }

    theirs, queues = await names(UMBRELLA)
    assert queues == set()
    assert theirs
    assert all(name.startswith(("holdfast_queue", "holdfast_scrape")) for name in theirs)
    everything, _ = await names(EVERYBODY)
    assert "process_resident_memory_bytes" in everything
    assert "holdfast_http_requests_total" in everything
    shown = json.loads((await asked(shared, UMBRELLA, "GET", "/status"))[1])
    assert (shown["tenant"], shown["actors"]) == ("umbrella", [])
    assert json.loads((await asked(shared, EVERYBODY, "GET", "/status"))[1])["actors"]


@pytest.mark.parametrize("token", [ACME, UMBRELLA])
@pytest.mark.parametrize("actor", ["@acme@orders", "orders", "@umbrella@orders"])
async def test_actors_are_not_for_callers_of_a_tenant(shared: Server, token: str, actor: str) -> None:
    for header in ("Authorization", "dapr-api-token"):
        value = f"Bearer {token}" if header == "Authorization" else token
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{shared.url}/v1.0/actors/PushPopActor/{actor}/method/Pop", headers={header: value}
            ) as answer,
        ):
            assert answer.status == 403


async def test_one_who_belongs_to_nobody_may_call_any_actor(shared: Server) -> None:
    async with Client(shared.url, ACME) as acme:
        await acme.queue("seen").push("x")
    status, text = await asked(shared, EVERYBODY, "POST", "/v1.0/actors/PushPopActor/@acme@seen/method/Pop")
    assert (status, json.loads(text)["items"]) == (200, ["x"])
    # Each has one name only.
    status, _ = await asked(shared, EVERYBODY, "POST", "/v1.0/actors/PushPopActor/@default@seen/method/Pop")
    assert status == 500


async def test_instances_of_another_tenant_are_not_found(shared: Server) -> None:
    async with Client(shared.url, UMBRELLA) as umbrella:
        with pytest.raises(NotFound):
            await umbrella.orchestration("anything").status()
        assert [run async for run in umbrella.orchestrations()] == []


async def test_quotas_are_those_of_the_settings_file(tmp_path: Path) -> None:
    settings = '[tenants.acme]\nmax-items = 2\n\n[tenants."*"]\nmax_queues = 1\n'
    (tmp_path / "holdfast.toml").write_text(settings)
    async with (
        Server(tmp_path) as server,
        Client(server.url, tenant="acme", retries=0) as acme,
        Client(server.url, tenant="other", retries=0) as other,
    ):
        await acme.queue("a").push_many([1])
        with pytest.raises(Capacity, match="2 items"):
            await acme.queue("b").push_many([1, 2])
        await acme.queue("b").push(1)
        await other.queue("a").push_many(list(range(10)))
        with pytest.raises(Capacity, match="1 queues"):
            await other.queue("b").push(1)
