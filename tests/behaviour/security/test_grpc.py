"""Dapr's API over gRPC on the embedded host: tokens, roles, tenants and the audit log, as over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1, common_v1
from google.protobuf import any_pb2

from tests.behaviour.security.guarded import PAYLOAD, QUEUE, SPARE, TOKENS, OnEmbedded, bearer
from tests.behaviour.security.test_roles import LESSER, ROLES, path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.behaviour.security.guarded import Guarded

pytestmark = [
    pytest.mark.parametrize(
        "running",
        [pytest.param(OnEmbedded, id="embedded", marks=pytest.mark.xdist_group("attacks-embedded"))],
        indirect=True,
        scope="package",
    )
]

ACTOR = {"actor_type": "PushPopActor", "actor_id": QUEUE}
#: All that only those who run the server may do.
CALLS = {
    "InvokeActor": {**ACTOR, "method": "Pop"},
    "GetActorState": {**ACTOR, "key": "metadata"},
    "ExecuteActorStateTransaction": ACTOR,
    "RegisterActorReminder": {**ACTOR, "name": "wake", "due_time": "1h"},
    "UnregisterActorReminder": {**ACTOR, "name": "wake"},
    "GetActorReminder": {**ACTOR, "name": "wake"},
    "RegisterActorTimer": {**ACTOR, "name": "tick", "due_time": "1h"},
    "UnregisterActorTimer": {**ACTOR, "name": "tick"},
    "GetMetadata": {},
    "SetMetadata": {"key": "a", "value": "b"},
}


class Stub:
    def __init__(self, guarded: OnEmbedded) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{guarded.grpc_port}")
        self._stub = api_service_v1.DaprStub(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    async def __call__(self, name: str, request: Any, *metadata: tuple[str, str]) -> tuple[str, str, Any]:
        """The code, the details, and the answer."""
        call = getattr(self._stub, name)(request, metadata=metadata, timeout=20)
        try:
            return "OK", "", await call
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or "", None

    async def invoke(
        self, verb: str, path: str, *metadata: tuple[str, str], body: bytes = b"{}", app: str = "holdfast"
    ) -> tuple[str, str, Any]:
        extension = common_v1.HTTPExtension(verb=common_v1.HTTPExtension.Verb.Value(verb))
        message = common_v1.InvokeRequest(method=path, data=any_pb2.Any(value=body), http_extension=extension)
        return await self("InvokeService", api_v1.InvokeServiceRequest(id=app, message=message), *metadata)


@pytest.fixture
async def stub(running: OnEmbedded) -> AsyncIterator[Stub]:
    stub = Stub(running)
    yield stub
    await stub.close()


def as_bearer(token: str) -> tuple[str, str]:
    return "authorization", f"Bearer {TOKENS[token]}"


def as_api_token(token: str) -> tuple[str, str]:
    return "dapr-api-token", TOKENS[token]


@pytest.mark.parametrize("name", CALLS)
async def test_the_actor_api_is_closed(guarded: Guarded, stub: Stub, name: str) -> None:
    request = getattr(api_v1, f"{name}Request")(**CALLS[name])
    for metadata in ((), [("authorization", "Bearer a guess")], [("dapr-api-token", "")]):
        code, details, _ = await stub(name, request, *metadata)
        assert code == "UNAUTHENTICATED"
        assert "token" in details.lower()
    for token in ("reader", "user", "acme-user", "acme-operator"):
        for given in (as_bearer(token), as_api_token(token)):
            assert (await stub(name, request, given))[0] == "PERMISSION_DENIED"


@pytest.mark.parametrize("name", CALLS)
async def test_whoever_runs_the_server_may_call_actors(running: OnEmbedded, stub: Stub, name: str) -> None:
    spare = {key: SPARE if key == "actor_id" else value for key, value in CALLS[name].items()}
    for given in (as_bearer("operator"), as_api_token("operator")):
        code, _, _ = await stub(name, getattr(api_v1, f"{name}Request")(**spare), given)
        assert code not in ("UNAUTHENTICATED", "PERMISSION_DENIED")


@pytest.mark.parametrize("operation", ROLES)
async def test_a_call_by_app_id_needs_the_same_role(guarded: Guarded, stub: Stub, operation: str) -> None:
    verb, path = path_of(operation, QUEUE)
    for token in LESSER[ROLES[operation]]:
        for given in (as_bearer(token), as_api_token(token)):
            assert (await stub.invoke(verb, path, given))[0] == "PERMISSION_DENIED"
    code, details, _ = await stub.invoke(verb, path)
    assert (code, "token" in details.lower()) == ("UNAUTHENTICATED", True)


async def test_a_tenants_token_stays_with_its_tenant(guarded: Guarded, stub: Stub) -> None:
    code, _, answer = await stub.invoke("GET", f"/queue/{QUEUE}/peek", as_bearer("acme-user"))
    assert (code, PAYLOAD.encode() in answer.data.value) == ("OK", False)
    for name in ("default", "other"):
        code, _, _ = await stub.invoke("GET", f"/queue/{QUEUE}/peek", as_bearer("acme-user"), ("holdfast-tenant", name))
        assert code == "PERMISSION_DENIED"
    code, _, answer = await stub.invoke("GET", f"/queue/{QUEUE}/peek", as_api_token("reader"))
    assert json.loads(answer.data.value)["items"] == [PAYLOAD]


async def test_the_sidecars_own_paths_are_not_among_the_apps(guarded: Guarded, stub: Stub) -> None:
    for path in ("/v1.0/metadata", "/dapr.proto.runtime.v1.Dapr/GetMetadata", "/v1.0/invoke/holdfast/method/queues"):
        for token in ("reader", "operator"):
            assert (await stub.invoke("POST", path, as_bearer(token)))[0] in ("NOT_FOUND", "UNKNOWN")


async def test_another_app_is_looked_for_only_by_those_who_run_the_server(guarded: Guarded, stub: Stub) -> None:
    assert (await stub.invoke("GET", "/queues", app="nowhere"))[0] == "UNAUTHENTICATED"
    for token, expected in (
        ("reader", "PERMISSION_DENIED"),
        ("acme-operator", "PERMISSION_DENIED"),
        ("operator", "INTERNAL"),
    ):
        assert (await stub.invoke("GET", "/queues", as_bearer(token), app="nowhere"))[0] == expected


async def test_a_token_is_given_once(guarded: Guarded, stub: Stub) -> None:
    request = api_v1.GetMetadataRequest()
    for name in ("authorization", "dapr-api-token", "holdfast-tenant"):
        code, details, _ = await stub("GetMetadata", request, (name, "Bearer a"), (name, "Bearer b"))
        assert (code, "given twice" in details) == ("INVALID_ARGUMENT", True)


async def test_http_does_not_reach_the_calls_of_grpc(guarded: Guarded) -> None:
    path = "/dapr.proto.runtime.v1.Dapr/GetMetadata"
    assert (await guarded.ask("POST", path, b"")).status == 401
    assert (await guarded.ask("POST", path, b"", token="user")).status == 403
    assert (await guarded.ask("POST", path, b"", token="operator")).status == 404


async def test_what_an_operator_does_is_written_down(running: OnEmbedded, stub: Stub) -> None:
    names = {"actor_type": "PushPopActor", "actor_id": SPARE}
    shown = {"type": "PushPopActor", "id": SPARE}
    for name, fields, status, expected in (
        ("RegisterActorReminder", {**names, "name": "spare", "due_time": "1h"}, 200, shown),
        ("RegisterActorTimer", {**names, "name": "spare", "due_time": "soon"}, 500, shown),
        ("ExecuteActorStateTransaction", {**names, "actor_id": "never"}, 400, {**shown, "id": "never"}),
        ("SetMetadata", {"key": "team", "value": "queues"}, 200, {"key": "team"}),
        ("InvokeActor", {**names, "method": "Purge"}, 200, {**shown, "method": "Purge"}),
    ):
        told = len(running.audit())
        await stub(name, getattr(api_v1, f"{name}Request")(**fields), as_api_token("operator"))
        [line] = running.audit()[told:]
        assert (line["verb"], line["route"]) == ("GRPC", f"/dapr.proto.runtime.v1.Dapr/{name}")
        assert (line["token"], line["status"], line["names"]) == ("operator", status, expected)


async def test_a_refusal_is_written_down(guarded: Guarded, stub: Stub) -> None:
    path = "/dapr.proto.runtime.v1.Dapr/GetMetadata"

    async def refused() -> Any:
        return await stub("GetMetadata", api_v1.GetMetadataRequest(), as_bearer("user"))

    _, line = await guarded.told(refused, status=403, path=path, token="user")
    assert line["client"] == "127.0.0.1"


async def test_a_service_may_pass_on_the_headers_of_a_page(running: OnEmbedded, stub: Stub) -> None:
    page = [("origin", "https://shop.example"), ("sec-fetch-site", "cross-site"), ("cookie", "a=b")]
    code, _, _ = await stub.invoke("POST", f"/queue/{SPARE}/push", as_bearer("user"), *page, body=b'{"item": 1}')
    assert code == "OK"
    assert (await running.ask("GET", f"/queue/{SPARE}", headers=bearer("user"))).status == 200
