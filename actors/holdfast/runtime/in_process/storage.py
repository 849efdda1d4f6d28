"""The storage of an in-process host, for the state and reminders of its actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.runtime.contract import ActorAddress


class Write(NamedTuple):
    """One row of a transaction: the full key, its value or None to delete it, and its time to live in seconds, if any.

    A value is JSON, or any bytes if it is ``binary``, as the gRPC API writes it.
    """

    key: str
    value: bytes | None
    ttl_seconds: int | None = None
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Reminder:
    """A registered reminder, and when it fires next."""

    address: ActorAddress
    name: str
    #: Distinguishes successive registrations under one name.
    version: str
    #: When it fires next, in Unix seconds; includes the delay of a retry.
    due_at: float
    #: The values of the registration, which are passed to the actor.
    due_time: str
    period: str
    ttl: str
    data: str
    #: Remaining firings of a limited period; None if it is unlimited.
    repeats_left: int | None
    expires_at: float | None
    #: Failed attempts of the current firing, and its retry policy.
    failures: int = 0
    retry_interval: float | None = None
    max_retries: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Postponement:
    """Moves a reminder that is due at ``armed`` to a later time, or removes it."""

    address: ActorAddress
    name: str
    armed: float
    due_at: float | None


ReminderChange = Reminder | Postponement


class Storage(Protocol):
    """Durable when a call returns. Every call may raise :class:`~holdfast.errors.HoldfastError`."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def load(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Returns the values that exist and have not expired."""
        ...

    async def save(self, writes: Sequence[Write], reminders: Sequence[ReminderChange] = ()) -> None:
        """Makes all of these changes to state and reminders, or none."""
        ...

    async def put_reminder(self, reminder: Reminder) -> None:
        """Stores a reminder, replacing one of the same name."""
        ...

    async def move_reminder(self, reminder: Reminder) -> None:
        """Changes the due time of a registration, unless it was replaced or deleted meanwhile."""
        ...

    async def delete_reminder(self, address: ActorAddress, name: str, version: str | None = None) -> None: ...

    async def get_reminder(self, address: ActorAddress, name: str) -> Reminder | None: ...

    async def earliest_reminders(self, limit: int) -> Sequence[Reminder]:
        """Returns the reminders that are due first, ordered by due time."""
        ...
