"""What an actor may ask of the host it runs on, and what a server may ask of a host.

Everything an actor class does goes through these two; nothing in it knows which host keeps them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dapr.clients.base import DaprActorClientBase

from holdfast.runtime.meters import Meters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dapr.actor import Actor
    from starlette.types import ASGIApp


class ActorAddress(NamedTuple):
    """Which actor is meant, among all that a host has."""

    type: str
    id: str


class StateChange(NamedTuple):
    """One value of a transaction, as JSON; None deletes it."""

    key: str
    value: bytes | None


class HostClient(DaprActorClientBase):
    """The actor's window on the world: state, reminders, timers, calls to other actors, and the clock.

    The SDK's own methods serve ordinary Dapr actors; :class:`~holdfast.runtime.work.UnitOfWork` uses the rest.
    """

    #: Grows whenever the host may have let another process run this process's actors without saying so.
    #: What was read from the store before that is not to be trusted.
    epoch: int = 0

    @cached_property
    def meters(self) -> Meters:
        """What is counted of the work done here."""
        return Meters()

    def holds(self) -> bool:
        """Whether the actor whose call runs now is still this process's for certain, and what it has in memory true."""
        return True

    @abstractmethod
    def now(self) -> float:
        """The host's wall clock, in Unix seconds."""

    @abstractmethod
    async def load_state(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values of these keys, as JSON; those that do not exist are left out."""

    @abstractmethod
    async def save_state(self, actor_type: str, actor_id: str, changes: Sequence[StateChange]) -> None:
        """All of these changes, or none."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether work can be taken, and if not, what is waited for."""

    ready: bool
    reason: str = ""


class Host(Protocol):
    """What runs actors. ``start`` comes after all of ``register``."""

    @property
    def name(self) -> str: ...

    @property
    def client(self) -> HostClient:
        """Calls actors from outside a turn, and is what they are registered with."""
        ...

    @property
    def sidecar_app(self) -> ASGIApp | None:
        """Takes what a sidecar calls; None on a host without one."""
        ...

    async def register(self, actor_class: type[Actor]) -> None: ...

    async def start(self) -> None: ...

    async def readiness(self) -> Readiness: ...

    async def active_counts(self) -> dict[str, int]:
        """How many actors of each type are active, as far as this process can tell."""
        ...

    async def stop(self) -> None:
        """Takes no more work, finishes the turns that run, closes what is open. Safe to call twice."""
        ...
