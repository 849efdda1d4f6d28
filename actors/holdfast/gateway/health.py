"""Health endpoints: liveness, readiness and status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import Request  # noqa: TC002 (FastAPI reads the annotations)
from pydantic import BaseModel

from holdfast import __version__
from holdfast.errors import Forbidden, HoldfastError, MethodNotAllowed, Unauthorized, Unavailable
from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.error_responses import error_response
from holdfast.gateway.openapi.schemas import ErrorAnswer
from holdfast.runtime.contract import Readiness

if TYPE_CHECKING:
    import asyncio

    from fastapi import FastAPI

    from holdfast.gateway.auth.principal import Caller
    from holdfast.runtime.contract import Host


class Alive(BaseModel):
    status: str = "ok"


class ActorType(BaseModel):
    type: str
    active: int


class Status(BaseModel):
    version: str
    host: str
    ready: bool
    reason: str
    started_at: datetime
    #: The tenant whose queues and instances this caller sees.
    tenant: str
    #: The role of this caller.
    role: str
    #: Whether the caller's token is bound to the tenant.
    bound: bool
    #: Actors of all tenants; empty for a caller bound to one tenant.
    actors: list[ActorType]


def refusals(*kinds: type[HoldfastError]) -> dict[int | str, dict[str, Any]]:
    """Returns these errors in the form of a route's ``responses``."""
    return {kind.status: {"model": ErrorAnswer, "description": kind().message} for kind in kinds}


def install(app: FastAPI, host: Host, stopping: asyncio.Event) -> None:
    """Adds the health endpoints. ``stopping`` is set when the server accepts no more work."""
    started_at = datetime.now(UTC)

    async def readiness() -> Readiness:
        return Readiness(False, "the server is stopping") if stopping.is_set() else await host.readiness()

    @app.get("/healthz", tags=["health"], responses=refusals(MethodNotAllowed))
    async def healthz() -> Alive:
        """Liveness: the process is running."""
        return Alive()

    @app.get("/readyz", tags=["health"], response_model=Alive, responses=refusals(MethodNotAllowed, Unavailable))
    async def readyz() -> Any:
        """Readiness: the server accepts work."""
        found = await readiness()
        if not found.ready:
            return error_response(Unavailable(f"Not ready: {found.reason}."))
        return Alive()

    @app.get("/status", tags=["health"], responses=refusals(MethodNotAllowed, Unauthorized, Forbidden))
    async def status(request: Request) -> Status:
        """The version, the host and the active actors of this server."""
        caller: Caller = request.scope[CALLER]
        found = await readiness()
        counts = {} if caller.bound else await host.active_counts()
        return Status(
            version=__version__,
            host=host.name,
            ready=found.ready,
            reason=found.reason,
            started_at=started_at,
            tenant=caller.tenant,
            role=caller.role.word,
            bound=caller.bound,
            actors=[ActorType(type=name, active=count) for name, count in sorted(counts.items())],
        )
