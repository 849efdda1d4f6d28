"""Another Dapr app in the same placement: it reaches every actor through its own daprd, and needs no token for that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1

from tests.behaviour.security.guarded import PAYLOAD, QUEUE, OnDapr, bearer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.behaviour.security.guarded import Guarded

REFUSED = '"errorCode":"FORBIDDEN"'
INTERNAL = [
    ("PushPopActor", QUEUE, "Batch", {"calls": [{"method": "Pop", "data": {}}]}),
    ("PushPopActor", QUEUE, "AbandonOwned", {"owner": "a"}),
    ("PushPopActor", QUEUE, "Configure", {"config": {"paused": True}, "version": 99}),
    ("PushPopActor", QUEUE, "Transferred", {}),
    ("PushPopActor", QUEUE, "Receive", {"source": "x", "number": 1, "items": [1]}),
    ("PushPopActor", f"@acme@{QUEUE}", "Push", {"item": 1}),
    ("PushPopActor", f"@acme@{QUEUE}", "Stats", None),
    ("PushPopActor", f"@acme@{QUEUE}@1", "Stats", None),
    ("OrchestrationActor", "@acme@one", "Status", None),
    ("OrchestrationActor", "one", "Complete", {"of": "activity"}),
    ("OrchestrationActor", "one", "Rescue", None),
    ("OrchestrationActor", "one", "Batch", {"calls": [{"method": "Status", "data": None}]}),
    ("IdempotencyActor", "acme@0", "Get", None),
    ("IdempotencyActor", "default@0", "Get", None),
    ("QueueIndexActor", "0", "List", {}),
    ("InstanceIndexActor", "0", "Find", {}),
    ("TenantIndexActor", "0", "List", {}),
    ("NotifierActor", "0", "ProcessId", None),
    ("RescuerActor", "0", "ProcessId", None),
    ("ScheduleActor", "nightly", "Put", {"orchestration": "x", "cron": "* * * * *"}),
    ("ScheduleActor", "nightly", "Trigger", None),
    ("ScheduleIndexActor", "schedules", "List", {"limit": 1}),
    ("WakeListActor", "moved", "RegisterNext", {}),
    ("RecordUsageActor", "@acme@records", "Total", None),
    ("RecordUsageActor", "records", "Add", {"sender": "x", "number": 1, "changes": {"99999999999": -1}}),
]


class Neighbour:
    """The other app: it may send whatever it wants through its own daprd."""

    def __init__(self, guarded: OnDapr, session: aiohttp.ClientSession) -> None:
        assert guarded.neighbour is not None
        self._guarded = guarded
        self._sidecar = guarded.neighbour
        self._session = session

    async def call(
        self, kind: str, actor: str, method: str, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        url = f"{self._sidecar.url}/v1.0/actors/{kind}/{actor}/method/{method}"
        body = json.dumps(data).encode()
        async with self._session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.text()

    async def call_by_grpc(self, kind: str, actor: str, method: str, data: Any, **metadata: str) -> str:
        """Returns the reply, or the error's message."""
        request = api_v1.InvokeActorRequest(
            actor_type=kind, actor_id=actor, method=method, data=json.dumps(data).encode(), metadata=metadata
        )
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._sidecar.grpc_port}") as channel:
            try:
                answer = await api_service_v1.DaprStub(channel).InvokeActor(request)
            except grpc.aio.AioRpcError as error:
                return str(error.details())
            return str(answer.data.decode())

    async def invoke(
        self, verb: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        url = f"{self._sidecar.url}/v1.0/invoke/holdfast/method{path}"
        async with self._session.request(verb, url, data=body, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def neighbour(guarded: Guarded) -> AsyncIterator[Neighbour]:
    assert isinstance(guarded, OnDapr)
    async with aiohttp.ClientSession() as session:
        yield Neighbour(guarded, session)


on_dapr = pytest.mark.parametrize(
    "running", [pytest.param(OnDapr, marks=pytest.mark.xdist_group("attacks-dapr"))], indirect=True
)


@on_dapr
@pytest.mark.parametrize(("kind", "actor", "method", "data"), INTERNAL)
async def test_what_is_not_for_other_apps_is_refused(
    neighbour: Neighbour, kind: str, actor: str, method: str, data: Any
) -> None:
    spoofed = {"dapr-caller-app-id": "holdfast", "dapr-api-token": "x", "holdfast-call-id": "x-1"}
    for headers in ({}, spoofed):
        status, text = await neighbour.call(kind, actor, method, data, headers)
        assert (status, REFUSED in json.loads(text)["message"]) == (500, True), text
        assert PAYLOAD not in text
    assert REFUSED in await neighbour.call_by_grpc(kind, actor, method, data)


@on_dapr
async def test_a_proof_that_is_guessed_opens_nothing(neighbour: Neighbour) -> None:
    for proof in ("0" * 64, "\u00e9", ""):
        status, text = await neighbour.call("PushPopActor", f"@acme@{QUEUE}", "Stats", None, {"holdfast-proof": proof})
        assert status == 500
        assert "UNAVAILABLE" in text


@on_dapr
async def test_the_public_methods_of_the_default_tenants_queues_and_instances_are_for_all_apps(
    neighbour: Neighbour,
) -> None:
    status, text = await neighbour.call("PushPopActor", "spare-shared", "Push", {"item": 7})
    assert (status, json.loads(text)["count"]) == (200, 1)
    assert json.loads(await neighbour.call_by_grpc("PushPopActor", "spare-shared", "Pop", {}))["items"] == [7]
    status, text = await neighbour.call("OrchestrationActor", "spare-one", "Status")
    assert (status, json.loads(text)["error_code"]) == (200, "NOT_FOUND")


CALLBACKS = [
    ("GET", "/dapr/config"),
    ("PUT", f"/actors/PushPopActor/{QUEUE}/method/Pop"),
    ("PUT", f"/actors/PushPopActor/{QUEUE}/method/Stats"),
    ("PUT", f"/actors/PushPopActor/@acme@{QUEUE}/method/Stats"),
    ("PUT", f"/actors/PushPopActor/{QUEUE}/method/remind/wake"),
    ("PUT", f"/actors/PushPopActor/{QUEUE}/method/timer/tick"),
    ("DELETE", f"/actors/PushPopActor/{QUEUE}"),
]


@on_dapr
@pytest.mark.parametrize(("verb", "path"), CALLBACKS)
async def test_service_invocation_does_not_reach_what_daprd_calls(neighbour: Neighbour, verb: str, path: str) -> None:
    emptied = dict.fromkeys(("dapr-callee-app-id", "dapr-caller-app-id", "dapr-caller-namespace"), "")
    spoofed = {"dapr-caller-app-id": "holdfast", "dapr-app-id": "holdfast", "dapr-api-token": "x"}
    for headers in ({}, emptied, spoofed):
        for around in (path, path.replace("/actors", "/queue/../actors"), f"/{path}"):
            status, text = await neighbour.invoke(verb, around, b"null", headers)
            assert status in (401, 403), text
            assert PAYLOAD not in text


@on_dapr
@pytest.mark.parametrize("method", ["remind/wake", "timer/tick"])
async def test_an_app_sends_no_reminders_in_daprds_name(neighbour: Neighbour, method: str) -> None:
    """Over gRPC the name of a method may have a slash in it."""
    said = await neighbour.call_by_grpc("PushPopActor", QUEUE, method, {"data": None, "dueTime": "0s", "period": ""})
    assert "(403)" in said


@on_dapr
async def test_service_invocation_needs_the_tokens_that_rest_needs(neighbour: Neighbour) -> None:
    assert (await neighbour.invoke("GET", f"/queue/{QUEUE}"))[0] == 401
    assert (await neighbour.invoke("DELETE", f"/queue/{QUEUE}/items", headers=bearer("user")))[0] == 403
    assert (await neighbour.invoke("GET", f"/queue/{QUEUE}", headers=bearer("acme-user")))[0] == 200
    status, text = await neighbour.invoke("GET", f"/queue/{QUEUE}", headers=bearer("reader"))
    assert (status, json.loads(text)["count"]) == (200, 1)
