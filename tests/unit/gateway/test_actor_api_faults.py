"""The embedded host's actor API refuses numbers out of bounds, and reports our own faults in Dapr's error form."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.dapr_api.actors import ActorApi
from holdfast.runtime.in_process.transactions import parse_transaction
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


def upsert(ttl: str | None) -> list[dict[str, Any]]:
    return [{"operation": "upsert", "request": {"key": "k", "value": 1, "metadata": {"ttlInSeconds": ttl}}}]


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [("1", 1), ("+5", 5), ("2147483647", 2147483647), ("0", None), ("-1", None), ("", None), (None, None)],
)
def test_a_time_to_live(ttl: str | None, seconds: int | None) -> None:
    [write] = parse_transaction(upsert(ttl))
    assert write.ttl_seconds == seconds


@pytest.mark.parametrize("ttl", ["2147483648", "-2", "9" * 20, "9" * 5000, "1.5", "soon", " 5", "1_000", "٣"])
def test_what_is_no_time_to_live(ttl: str) -> None:
    with pytest.raises(ValueError, match="error parsing TTL: incorrect value for metadata 'ttlInSeconds'"):
        parse_transaction(upsert(ttl))


@pytest.mark.parametrize("kind", ["upsert", "delete"])
def test_an_etag_never_matches(kind: str) -> None:
    with pytest.raises(ValueError, match="possible etag mismatch"):
        parse_transaction([{"operation": kind, "request": {"key": "k", "value": 1, "etag": "1"}}])
    [write] = parse_transaction([{"operation": kind, "request": {"key": "k", "value": 1, "etag": ""}}])
    assert write.key == "k"


def test_a_fault_of_ours_is_logged_and_told_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Message] = []

    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    async def broken(_what: str) -> None:
        raise RuntimeError("a secret of ours")

    async def run() -> None:
        host = SimulatedHost()
        await host.start()
        host.storage.before = broken
        path = "/v1.0/actors/Some/one/state/key"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": []}
        await ActorApi(nowhere, host, AuditLog())(scope, receive, send)
        await host.stop()

    with caplog.at_level(logging.ERROR):
        VirtualTimeLoop.run(run())
    assert sent[0]["status"] == 500
    told = json.loads(sent[1]["body"])
    assert set(told) == {"errorCode", "message"}
    assert told["errorCode"] == "ERR_INTERNAL"
    assert "secret" not in told["message"]
    assert "a secret of ours" in caplog.text
