"""The contracts between actors and their host, and between a server and its host.

Actor classes use only these, so they run unchanged on every host.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dapr.clients.base import DaprActorClientBase

from holdfast.runtime.late_reminders import LateReminders
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.unanswered_saves import UnansweredSaves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dapr.actor import Actor
    from starlette.types import ASGIApp


class ActorAddress(NamedTuple):
    """The type and id of an actor."""

    type: str
    id: str


class StateChange(NamedTuple):
    """One change in a transaction: a value as JSON, or None to delete it."""

    key: str
    value: bytes | None


class HostClient(DaprActorClientBase):
    """An actor's interface to its host: state, reminders, timers, calls to other actors, and the clock.

    The SDK's own methods serve ordinary Dapr actors; :class:`~holdfast.runtime.unit_of_work.UnitOfWork` uses the rest.
    """

    #: Increases whenever another process may have run this process's actors unnoticed. State that was read before is
    #: stale.
    epoch: int = 0

    #: Whether state preserves every number. If not, values are stored through ``exact_numbers``.
    keeps_numbers: bool = True

    #: Whether :meth:`save_with_reminder` and :meth:`postpone_wake` are supported: reminders and state share a store.
    saves_reminders: bool = False

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics of this host."""
        return Metrics()

    @cached_property
    def late_reminders(self) -> LateReminders:
        """The reminders of this process's actors that the scheduler has not accepted yet."""
        return LateReminders(self)

    @cached_property
    def unanswered_saves(self) -> UnansweredSaves:
        """The saves of this process's actors whose outcome is unknown."""
        return UnansweredSaves()

    def holds(self) -> bool:
        """Returns whether this process still owns the actor of the current call, so that its memory is valid."""
        return True

    @abstractmethod
    def now(self) -> float:
        """Returns the host's wall clock, in Unix seconds."""

    @abstractmethod
    async def load_state(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Returns the values of these keys, as JSON, without the keys that do not exist."""

    @abstractmethod
    async def save_state(self, actor_type: str, actor_id: str, changes: Sequence[StateChange]) -> None:
        """Makes all of these changes, or none.

        Raises SaveUnanswered when the outcome is unknown; the changes may still be made later.
        """

    async def save_with_reminder(
        self, actor_type: str, actor_id: str, changes: Sequence[StateChange], wake_at: float
    ) -> None:
        """Like :meth:`save_state`, and registers the actor's reminder for this time in the same transaction."""
        raise NotImplementedError

    def postpone_wake(self, actor_type: str, actor_id: str, armed: float, wake_at: float | None) -> None:
        """Moves the actor's reminder from ``armed`` to a later time, or removes it, in some later transaction.

        If the process ends before that, the reminder fires at the earlier time.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the host accepts work, and if not, why."""

    ready: bool
    reason: str = ""


class Host(Protocol):
    """Runs actors. Call ``start`` after all calls of ``register``."""

    @property
    def name(self) -> str: ...

    @property
    def client(self) -> HostClient:
        """Calls actors from outside a turn; actors are registered with it."""
        ...

    @property
    def sidecar_app(self) -> ASGIApp | None:
        """Handles calls from a sidecar; None on a host without one."""
        ...

    async def register(self, actor_class: type[Actor]) -> None: ...

    async def start(self) -> None: ...

    async def readiness(self) -> Readiness: ...

    async def active_counts(self) -> dict[str, int]:
        """Returns the number of active actors of each type, as far as this process knows."""
        ...

    async def release_idle(self) -> int:
        """Deactivates about half of the idle actors, those not used for longest. Returns how many it deactivated.

        Keeps actors with timers, and actors whose work it would delay.
        """
        ...

    async def finish_turns(self) -> None:
        """Rejects new work from the sidecar and finishes the running turns.

        The server still accepts the sidecar's calls meanwhile, because turns call other actors through it. Does nothing
        on a host without a sidecar.
        """
        ...

    def abort_turns(self) -> None:
        """Makes :meth:`stop` and :meth:`finish_turns` wait for no turn, also when they have begun.

        The running turns are cancelled, now or with the server that received them.
        """
        ...

    async def stop(self) -> None:
        """Rejects new work, finishes the running turns and releases all resources. Idempotent."""
        ...
