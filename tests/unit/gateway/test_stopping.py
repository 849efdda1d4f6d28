"""The log of a server that stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.auth.principal import Caller, Role
from holdfast.gateway.middleware.access import CALLER
from holdfast.gateway.queues.routes import Queues
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.gateway.routing import Endpoints
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    import pytest


def test_refused_pops_are_logged_once_while_a_server_stops(caplog: pytest.LogCaptureFixture) -> None:
    """Workers and consumers pop again and again until the port is closed."""
    statuses: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def run() -> None:
        queues = Queues(SimulatedHost(idle_timeout=60).client, NO_QUOTAS)
        endpoints = Endpoints(list(queues.endpoints()), AuditLog())
        queues.begin_stop()
        for queue in ("orders", "emails") * 5:
            path = f"/queue/{queue}/pop"
            scope = {
                "type": "http",
                "method": "POST",
                "path": path,
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": [],
            }
            await endpoints(scope | {CALLER: Caller(role=Role.OPERATOR)}, receive, send)

    VirtualTimeLoop.run(run())
    assert statuses.count(503) == 10
    [record] = caplog.records
    assert record.getMessage().startswith("POST /queue/orders/pop: The server is stopping")
