"""The sidecar's health and metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import Unavailable
from holdfast.runtime.actor_api.durations import parse_period

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.runtime.dapr.http import SidecarHttp

_QUICKLY = 5.0


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _ActiveActors(_Model):
    type: str
    count: int = 0


class _ActorRuntime(_Model):
    status: str = Field("INITIALIZING", alias="runtimeStatus")
    host_ready: bool = Field(False, alias="hostReady")
    placement: str = ""
    active: list[_ActiveActors] = Field(default_factory=list, alias="activeActors")


class _Component(_Model):
    name: str
    type: str
    capabilities: list[str] = Field(default_factory=list)


class _Probes(_Model):
    interval: str = Field("5s", alias="healthProbeInterval")
    timeout: str = Field("500ms", alias="healthProbeTimeout")


class _AppConnection(_Model):
    probes: _Probes | None = Field(None, alias="health")


class Metadata(_Model):
    """The used part of ``/v1.0/metadata``."""

    app_id: str = Field("", alias="id")
    version: str = Field("", alias="runtimeVersion")
    actors: _ActorRuntime = Field(default_factory=_ActorRuntime, alias="actorRuntime")
    components: list[_Component] = Field(default_factory=list)
    app: _AppConnection = Field(default_factory=_AppConnection, alias="appConnectionProperties")

    @property
    def has_our_actors(self) -> bool:
        return self.actors.status == "RUNNING"

    @property
    def shortest_break(self) -> float:
        """The shortest time in seconds for which the app loses its actors when its health probes fail.

        A failing probe has failed after its time-out at the latest, and the next one starts an interval after it.
        """
        probes = self.app.probes
        if probes is None:
            return float("inf")
        return parse_period(probes.interval).seconds - parse_period(probes.timeout).seconds

    def waits_for(self, actor_types: Collection[str]) -> str:
        """Returns what is missing before actors of these types can be called here; empty if they can."""
        runtime = self.actors
        if runtime.status == "DISABLED":
            return "the sidecar has no placement service (daprd --placement-host-address)"
        if not any("ACTOR" in component.capabilities for component in self.components):
            return "the sidecar has no state store with actorStateStore set"
        if not self.has_our_actors:
            return "the sidecar does not run this app's actors yet"
        if unknown := sorted(set(actor_types) - {found.type for found in runtime.active}):
            return f"the sidecar does not know the actor types {', '.join(unknown)}: restart it"
        if "disconnected" in runtime.placement or not runtime.host_ready:
            return "the sidecar is waiting for placement"
        return ""


@dataclass(frozen=True, slots=True)
class Sighting:
    """The result of one query: the sidecar's metadata, or why there is none."""

    metadata: Metadata | None = None
    problem: str = field(default="")


async def probe(http: SidecarHttp) -> Sighting:
    """Queries the sidecar once, with a short time-out."""
    try:
        health = await http.ask("GET", "/healthz/outbound", timeout=_QUICKLY, connect_retry_seconds=0.0)
        if not health.ok:
            return Sighting(problem="the sidecar is starting")
        answer = await http.ask("GET", "/metadata", timeout=_QUICKLY, connect_retry_seconds=0.0)
    except Unavailable:
        return Sighting(problem=f"the sidecar at {http.endpoint} cannot be reached")
    if answer.status == 401:
        return Sighting(problem="the sidecar rejects this app's DAPR_API_TOKEN")
    try:
        return Sighting(metadata=Metadata.model_validate_json(answer.body))
    except ValidationError:
        return Sighting(problem=f"the sidecar at {http.endpoint} is not a daprd this app understands")
