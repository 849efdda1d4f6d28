"""Whether the server lives, whether it can take work, and what it runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from pydantic import BaseModel

from holdfast import __version__
from holdfast.errors import Forbidden, HoldfastError, MethodNotAllowed, Unauthorized, Unavailable
from holdfast.gateway.answers import error_response
from holdfast.gateway.callers import CALLER
from holdfast.gateway.schemas import ErrorAnswer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdfast.gateway.callers import Caller
    from holdfast.runtime.contract import Host
    from holdfast.runtime.inprocess import InProcessHost


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
    #: Whose queues and instances this caller sees.
    tenant: str
    #: Those of all tenants, so nobody who belongs to one is told.
    actors: list[ActorType]


def refusals(*kinds: type[HoldfastError]) -> dict[int | str, dict[str, Any]]:
    """As a route's ``responses`` has them."""
    return {kind.status: {"model": ErrorAnswer, "description": kind().message} for kind in kinds}


def install(app: FastAPI, host: Host) -> None:
    started_at = datetime.now(UTC)

    @app.get("/healthz", tags=["health"], responses=refusals(MethodNotAllowed))
    async def healthz() -> Alive:
        """The process lives."""
        return Alive()

    @app.get("/readyz", tags=["health"], response_model=Alive, responses=refusals(MethodNotAllowed, Unavailable))
    async def readyz() -> Any:
        """Work can be taken."""
        readiness = await host.readiness()
        if not readiness.ready:
            return error_response(Unavailable(f"Not ready: {readiness.reason}."))
        return Alive()

    @app.get("/status", tags=["health"], responses=refusals(MethodNotAllowed, Unauthorized, Forbidden))
    async def status(request: Request) -> Status:
        """What runs here."""
        caller: Caller = request.scope[CALLER]
        readiness = await host.readiness()
        counts = {} if caller.bound else await host.active_counts()
        return Status(
            version=__version__,
            host=host.name,
            ready=readiness.ready,
            reason=readiness.reason,
            started_at=started_at,
            tenant=caller.tenant,
            actors=[ActorType(type=name, active=count) for name, count in sorted(counts.items())],
        )


def install_dapr_api(app: FastAPI, host: InProcessHost) -> None:
    """What a Dapr SDK asks of its sidecar, where this process is its own."""

    @app.get("/v1.0/healthz", include_in_schema=False, status_code=204)
    @app.get("/v1.0/healthz/outbound", include_in_schema=False, status_code=204)
    async def sidecar_health() -> Response:
        ready = (await host.readiness()).ready
        return Response(status_code=204 if ready else 500)

    @app.get("/v1.0/metadata", include_in_schema=False)
    async def metadata() -> dict[str, Any]:
        actors = [{"type": name, "count": count} for name, count in (await host.active_counts()).items()]
        ready = (await host.readiness()).ready
        return {
            "id": host.app_id,
            "runtimeVersion": f"holdfast-{__version__}",
            "actors": actors,
            "components": [
                {
                    "name": "statestore",
                    "type": "state.sqlite",
                    "version": "v1",
                    "capabilities": ["TRANSACTIONAL", "ACTOR"],
                }
            ],
            "extended": {"holdfastHost": host.name},
            "actorRuntime": {
                "runtimeStatus": "RUNNING" if ready else "INITIALIZING",
                "activeActors": actors,
                "hostReady": ready,
                "placement": "",
            },
        }
