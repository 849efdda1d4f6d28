"""The audit log has operators' calls of the embedded host's actor API, in every spelling of their path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.auth.principal import CALLER, Caller
from holdfast.gateway.dapr_api.actors import ActorApi
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.registry import Registry
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

OPERATOR = Caller(name="ops")
QUEUE = "/v1.0/actors/PushPopActor/orders"


def told(caplog: pytest.LogCaptureFixture, verb: str, path: str, body: Any = None) -> list[tuple[str, str, int]]:
    """Routes, what was called, and statuses of the lines about one call."""

    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    async def receive() -> Message:
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

    async def send(message: Message) -> None:
        pass

    async def run() -> None:
        host = SimulatedHost()
        for actor_class in (PushPopActor, QueueIndexActor, orchestration_actor(Registry())):
            await host.register(actor_class)
        await host.start()
        scope = {"type": "http", "method": verb, "path": path, "raw_path": path.encode(), "headers": []}
        await ActorApi(nowhere, host, AuditLog())(scope | {CALLER: OPERATOR}, receive, send)
        await host.stop()

    with caplog.at_level("INFO", logger="holdfast.audit"):
        VirtualTimeLoop.run(run())
    lines = [record.__dict__["fields"] for record in caplog.records if record.name == "holdfast.audit"]
    assert {line["token"] for line in lines} <= {"ops"}
    return [
        (line["route"].removeprefix("/v1.0/actors/{type}/{id}/"), line["names"].get("method", ""), line["status"])
        for line in lines
    ]


@pytest.mark.parametrize("what", ["reminders", "%72eminders", "reminder%73", "%72%65%6D%69%6E%64%65%72%73"])
def test_an_encoded_path_is_the_same_path(caplog: pytest.LogCaptureFixture, what: str) -> None:
    assert told(caplog, "POST", f"{QUEUE}/{what}/wake", {"dueTime": "1h"}) == [("reminders", "", 204)]


@pytest.mark.parametrize("what", ["state", "st%61te"])
def test_state_that_is_written_past_the_actor(caplog: pytest.LogCaptureFixture, what: str) -> None:
    assert told(caplog, "PUT", f"{QUEUE}/{what}", []) == [("state", "", 400)]


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("Purge", None, 200),
        ("%50urge", None, 200),
        ("SetConfig", {"max_locks": 2}, 200),
        ("Redrive", None, 200),
        ("Requeue", {"lock_id_prefix": "x"}, 200),
        ("ExtendByPrefix", {"lock_id_prefix": "x"}, 200),
        ("SetConfig", {"calls": "not one"}, 200),
    ],
)
def test_a_method_that_is_for_operators(caplog: pytest.LogCaptureFixture, method: str, body: Any, status: int) -> None:
    name = method.replace("%50", "P")
    assert told(caplog, "POST", f"{QUEUE}/method/{method}", body) == [("method/{method}", name, status)]


@pytest.mark.parametrize("method", ["Suspend", "Resume", "Delete"])
def test_one_of_an_orchestration(caplog: pytest.LogCaptureFixture, method: str) -> None:
    path = f"/v1.0/actors/OrchestrationActor/one/method/{method}"
    assert told(caplog, "PUT", path) == [("method/{method}", method, 200)]


def test_a_batch_is_looked_into(caplog: pytest.LogCaptureFixture) -> None:
    calls = [{"method": "Pop"}, {"data": 1}, {"method": ["Purge"]}, *[{"method": "Purge"}] * 3, {"method": "SetConfig"}]
    assert told(caplog, "POST", f"{QUEUE}/method/Batch", {"calls": calls}) == [
        ("method/{method}", "Purge", 500),
        ("method/{method}", "SetConfig", 500),
    ]


@pytest.mark.parametrize("calls", [[{"method": "Pop"}, {"data": 1}, {"method": "Purge"}], [{"method": "Purge"}]])
def test_a_batch_that_is_odd_is_looked_into_too(caplog: pytest.LogCaptureFixture, calls: list[Any]) -> None:
    assert told(caplog, "POST", f"{QUEUE}/method/Batch", {"calls": calls}) == [("method/{method}", "Purge", 200)]


def test_a_batch_in_an_array_is_looked_into_too(caplog: pytest.LogCaptureFixture) -> None:
    assert told(caplog, "POST", f"{QUEUE}/method/Batch", [{"calls": [{"method": "Purge"}]}]) == [
        ("method/{method}", "Purge", 200)
    ]


@pytest.mark.parametrize(
    ("method", "body"),
    [("Pop", None), ("Push", {"item": "Purge"}), ("Batch", {"calls": [{"method": "Pop"}]}), ("Batch", ["Purge"])],
)
def test_what_everybody_does_is_not_written_down(caplog: pytest.LogCaptureFixture, method: str, body: Any) -> None:
    assert told(caplog, "POST", f"{QUEUE}/method/{method}", body) == []
