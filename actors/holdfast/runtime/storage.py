"""What a host in this process keeps its actors' state and reminders in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.runtime.contract import ActorAddress


class Write(NamedTuple):
    """One row of a transaction: the whole key, JSON or None to delete it, seconds it lives or None."""

    key: str
    value: bytes | None
    ttl_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Reminder:
    """A reminder as it was registered, and when it is next to fire."""

    address: ActorAddress
    name: str
    #: Tells one registration under a name from the next.
    version: str
    #: When it fires next, in Unix seconds; a retry after a failure counts.
    due_at: float
    #: The registration's own words, which the actor is shown again.
    due_time: str
    period: str
    ttl: str
    data: str
    #: Firings left of a period that ends; None when it does not.
    repeats_left: int | None
    expires_at: float | None
    #: Failed tries of the present firing, and what was asked for in that case.
    failures: int = 0
    retry_interval: float | None = None
    max_retries: int | None = None


class Storage(Protocol):
    """Durable when a call returns. Every call may raise :class:`~holdfast.errors.HoldfastError`."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def load(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values that exist and have not expired."""
        ...

    async def save(self, writes: Sequence[Write]) -> None:
        """All of them, or none."""
        ...

    async def put_reminder(self, reminder: Reminder) -> None:
        """Replaces the one of the same name."""
        ...

    async def move_reminder(self, reminder: Reminder) -> None:
        """The same registration with another ``due_at``; nothing when it was replaced or deleted meanwhile."""
        ...

    async def delete_reminder(self, address: ActorAddress, name: str, version: str | None = None) -> None: ...

    async def get_reminder(self, address: ActorAddress, name: str) -> Reminder | None: ...

    async def earliest_reminders(self, limit: int) -> Sequence[Reminder]:
        """Those due first, in order of due time."""
        ...
