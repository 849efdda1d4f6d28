"""A server with tokens for two tenants, and with something of every kind in both of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.local.ports import free_port
from tests.support.checkout import ROOT
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    #: Asks as an operator of a tenant: method, path, body. Returns what is answered, None when that is no success.
    Ask = Callable[[str, str, Any], Awaitable[Any]]

TENANTS = ("acme", "rival")
QUEUES = ("full", "spread", "large", "limited", "dedup")
INSTANCES = ("waiting-0", "waiting-1", "suspended", "ended", "failed", "letters", "parent", "serving", "beating")
#: A queue of activities that no worker gets.
PAUSED = "paused-activities"
SCHEDULES = ("often", "paused")
KEYS = ("begun", "committed", "failed")
#: In every payload of a tenant, and in nothing else.
MARKERS = {tenant: f"payload-of-{tenant}-{hashlib.sha256(tenant.encode()).hexdigest()[:16]}" for tenant in TENANTS}
_LARGE_ITEM = 700_000
APP = "tests.behaviour.security.fuzz.app:app"


@dataclass(frozen=True)
class Caller:
    """A holder of a token; without a role, of none or of a wrong one."""

    name: str
    role: str | None
    #: None for a token that is bound to no tenant.
    tenant: str | None
    token: str | None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def _caller(role: str, tenant: str | None) -> Caller:
    name = role if tenant is None else f"{tenant}-{role}"
    return Caller(name, role, tenant, f"{name}-0123456789abcdef")


OPERATOR = _caller("operator", None)
CALLERS = (*(_caller(role, tenant) for tenant in TENANTS for role in ("reader", "user", "operator")), OPERATOR)
STRANGERS = (Caller("no token", None, None, None), Caller("wrong token", None, None, "wrong-0123456789abcdef"))


class FuzzedServer(Server):
    """``holdfast serve`` with the tokens of all callers; its log is JSON."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "server.log"
        self.grpc_port: int | None = free_port()
        options = ("--tokens", str(write_tokens(folder)), "--log-format", "json", "--grpc-port", str(self.grpc_port))
        super().__init__(folder, APP, *options, imports=ROOT)

    @property
    def actors_url(self) -> str:
        """Where Dapr's actor API is."""
        return self.url


def write_tokens(folder: Path) -> Path:
    """Writes the file of the tokens of all callers."""
    tokens = folder / "tokens.toml"
    tokens.touch(mode=0o600)
    tokens.write_text("\n".join(_tables()))
    return tokens


def _tables() -> Iterator[str]:
    for caller in CALLERS:
        yield "[[token]]"
        fields = {"name": caller.name, "role": caller.role, "tenant": caller.tenant or "*", "token": caller.token}
        yield from (f"{key} = {json.dumps(value)}" for key, value in fields.items())


async def configure(ask: Ask) -> None:
    """The queues of one tenant, as they are before anything is in them."""
    for queue, config in (
        ("full", {"max_locks": 100}),
        ("spread", {"partitions": 4, "max_locks": 100}),
        (PAUSED, {"paused": True}),
        ("large", {"max_locks": 20, "max_deliveries": 3}),
        ("limited", {"capacity": 40, "rate_per_second": 50, "default_ttl_seconds": 60}),
        ("dedup", {"max_deliveries": 2, "dead_letter_queue": "full-deadletter", "expired_to_dead_letters": True}),
    ):
        await ask("PUT", f"/queue/{queue}/config", config)


async def fill(ask: Ask, tenant: str, number: int) -> None:
    """Puts something of every kind into a tenant. To be repeated: other calls take it, delete it and end it."""
    payload = {"marker": MARKERS[tenant], "number": number, "list": list(range(20))}
    for queue in ("full", "spread", "limited"):
        await ask("POST", f"/queue/{queue}/push", {"items": [{"item": payload, "priority": p % 3} for p in range(30)]})
        await ask("POST", f"/queue/{queue}/push", {"items": [{"item": payload, "delay_seconds": 60}] * 5})
        taken = await ask("POST", f"/queue/{queue}/pop?require_ack=true&count=5", None)
        if taken and "lock_id" in taken:
            await ask("POST", f"/queue/{queue}/dead-letter", {"lock_id": taken["lock_id"], "reason": MARKERS[tenant]})
        # The first locks are there when the others have been made; later ones expire while requests use them.
        seconds = 20 if number else 300
        await ask("POST", f"/queue/{queue}/pop?require_ack=true&count=5&ttl_seconds={seconds}", None)
    for dedup_id in ("a", "b"):
        await ask("POST", "/queue/dedup/push", {"item": payload, "dedup_id": dedup_id, "idempotency_key": "begun"})
    shown = await ask("GET", "/queue/large", None)
    if shown and shown["count"] < 8:
        item = {"marker": MARKERS[tenant], "text": "x" * _LARGE_ITEM}
        await ask("POST", "/queue/large/push", {"item": item})
    for instance in INSTANCES:
        name = {"suspended": "waiting", "ended": "echo", "failed": "failing", "letters": "reader"}.get(
            instance, instance.partition("-")[0]
        )
        start = {"instance_id": instance, "input": payload, "tags": {"marker": MARKERS[tenant]}}
        await ask("POST", f"/orchestrations/{name}/start", start)
    await ask("POST", "/orchestrations/suspended/suspend", {"reason": MARKERS[tenant]})
    await ask("POST", "/orchestrations/letters/events/letters", payload)
    await ask("POST", "/orchestrations/serving/requests/add?timeout_seconds=0&request_id=known", payload)
    for schedule in SCHEDULES:
        often = {"orchestration": "echo", "every_seconds": 3600, "input": payload, "paused": schedule == "paused"}
        await ask("PUT", f"/schedules/{schedule}", often)
    for key in KEYS:
        begun = await ask("POST", f"/idempotency/{tenant}/{key}/begin", {"lease_seconds": 5})
        if key == "committed" and begun and "owner" in begun:
            body = {"owner": begun["owner"], "result": payload, "retention_seconds": 30}
            await ask("POST", f"/idempotency/{tenant}/{key}/commit", body)
        if key == "failed" and begun and "owner" in begun:
            body = {"owner": begun["owner"], "error": MARKERS[tenant]}
            await ask("POST", f"/idempotency/{tenant}/{key}/fail", body)
