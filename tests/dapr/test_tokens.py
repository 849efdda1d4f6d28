"""The tokens of the sidecar's API and of the app's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from fastapi import FastAPI

from holdfast import errors
from holdfast.runtime.dapr import DaprHost, DaprHostClient
from tests.dapr.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.dapr.cluster import Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-tokens")

TOKENS = {"DAPR_API_TOKEN": "the way in", "APP_API_TOKEN": "the way back"}


@pytest.fixture(scope="module")
async def replica(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replica]:
    """Both ways need a token."""
    async with Cluster(tmp_path_factory.mktemp("tokens")) as cluster:
        replica = await cluster.add(
            sidecar_environment=TOKENS, api_token=TOKENS["DAPR_API_TOKEN"], app_token=TOKENS["APP_API_TOKEN"]
        )
        await replica.ready()
        yield replica


async def test_with_the_right_tokens_all_goes_through(replica: Replica) -> None:
    assert await replica.call("Tally", "a", "add", 1) == 1
    await replica.call("Reminded", "a", "register", {"name": "x", "due": 3600})


async def test_without_the_sidecars_token_nothing_does(replica: Replica) -> None:
    sidecar = replica.sidecar
    for token in (None, "a guess"):
        client = DaprHostClient(sidecar.url, f"127.0.0.1:{sidecar.grpc_port}", token)
        with pytest.raises(errors.SidecarRefused):
            await client.invoke_method("Tally", "a", "get")
        with pytest.raises(errors.SidecarRefused):
            await client.register_reminder("Tally", "a", "wake", b'{"dueTime": "1s"}')
        host = DaprHost(FastAPI(), client=client)
        assert "DAPR_API_TOKEN" in (await host.readiness()).reason
        await host.stop()


@pytest.mark.parametrize("token", ["", "a guess", "the way back ", "the way in"])
@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/dapr/config"),
        ("PUT", "/actors/Tally/a/method/add"),
        ("PUT", "/actors/Tally/a/method/remind/wake"),
        ("PUT", "/actors/Tally/a/method/timer/tick"),
        ("DELETE", "/actors/Tally/a"),
    ],
)
async def test_nobody_else_calls_the_app(replica: Replica, verb: str, path: str, token: str) -> None:
    await replica.call("Tally", "a", "get")
    epoch, active = replica.client.epoch, await replica.host.active_counts()
    headers = {"dapr-api-token": token, "dapr-app-id": "pretender"} if token else {"dapr-app-id": "pretender"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, replica.url + path, data=b"5", headers=headers) as answer,
    ):
        assert answer.status == 403
        assert "Tally" not in await answer.text()
    assert replica.client.epoch == epoch
    assert await replica.host.active_counts() == active


async def test_a_sidecar_with_another_token_than_its_app_is_named(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        replica = await cluster.add(sidecar_environment={"APP_API_TOKEN": "one"}, app_token="another")
        await replica.waits_for("APP_API_TOKEN")


async def asked(app: FastAPI, address: str) -> int:
    """The status a caller from this address gets."""
    statuses: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    path = "/dapr/config"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    await app({**scope, "client": (address, 1234)}, receive, send)
    return statuses[0]


@pytest.mark.parametrize(
    ("address", "status"),
    [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("10.0.0.7", 403), ("2001:db8::1", 403)],
)
async def test_without_a_token_only_this_machine_is_let_in(address: str, status: int) -> None:
    app = FastAPI()
    host = DaprHost(app)
    assert await asked(app, address) == status
    await host.stop()
