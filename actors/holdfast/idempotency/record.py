"""One record as a state machine: a request and the present moment in, a new record out. No I/O, no clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from holdfast.errors import AlreadyInProgress, LeaseLost

#: The state values: the record itself, and what its actor's id stands for.
RECORD = "record"
KEY = "key"

# No lease outlasts what is known of it.
DEFAULT_LEASE, MAX_LEASE = 30, 3600
DEFAULT_RETENTION, MAX_RETENTION = 24 * 60 * 60, 365 * 24 * 60 * 60


class Status(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one (tenant, key)."""

    status: Status
    owner: str
    #: How often somebody began.
    attempts: int
    updated_at: float
    #: When it is forgotten.
    expires_at: float
    lease_expires_at: float | None = None
    #: JSON text.
    result: str | None = None
    last_error: str | None = None
    #: Which of those that had the key, one after the other, it is about.
    life: str | None = None
    #: Which of those that have it one after the other, under the same owner's name.
    fence: int = 0

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        return cls(**value | {"status": Status(value["status"])})


def current(record: Record | None, now: float) -> Record | None:
    """The record, unless its time is over."""
    return None if record is None or record.expires_at <= now else record


def begin(
    record: Record | None, now: float, owner: str, lease_seconds: float, life: str | None = None, fence: int = 0
) -> Record:
    """Somebody wants to run it. Raises AlreadyInProgress when another does; a success stays what it is.

    The same owner takes over from itself at once with a higher fence, and is refused with a lower one.
    """
    record = current(record, now)
    if record is not None and life not in (None, record.life):
        record = None  # what had the key then is no more
    attempts = 0 if record is None else record.attempts
    if record is not None and record.status is Status.SUCCESS:
        return record
    if record is not None and record.owner == owner and record.fence > fence:
        raise LeaseLost
    if record is not None and record.status is Status.IN_PROGRESS:
        assert record.lease_expires_at is not None
        if (record.owner, record.fence) == (owner, fence):
            attempts -= record.lease_expires_at > now  # it goes on with the same attempt
        elif record.owner != owner and record.lease_expires_at > now:
            raise AlreadyInProgress(lease_expires_at=record.lease_expires_at)
    return Record(
        Status.IN_PROGRESS,
        owner,
        attempts + 1,
        now,
        now + DEFAULT_RETENTION,
        now + lease_seconds,
        last_error=None if record is None else record.last_error,
        life=life if record is None else record.life,
        fence=fence,
    )


def renew(record: Record | None, now: float, owner: str, lease_seconds: float, fence: int = 0) -> Record:
    """Its owner is still at it."""
    running = _owned(record, now, owner, fence)
    if running.status is not Status.IN_PROGRESS:
        raise LeaseLost
    return replace(running, updated_at=now, lease_expires_at=now + lease_seconds, expires_at=now + DEFAULT_RETENTION)


def commit(
    record: Record | None, now: float, owner: str, result: str | None, retention: float, fence: int = 0
) -> Record:
    """It happened. Late is not too late, as long as nobody else has begun."""
    running = _owned(record, now, owner, fence)
    if running.status is Status.SUCCESS:
        return running  # told twice
    expires_at = now + retention
    return Record(
        Status.SUCCESS, owner, running.attempts, now, expires_at, result=result, life=running.life, fence=fence
    )


def fail(record: Record | None, now: float, owner: str, error: str, fence: int = 0) -> Record:
    """It did not happen; whoever begins next runs it."""
    running = _owned(record, now, owner, fence)
    if running.status is Status.SUCCESS:
        raise LeaseLost("It has succeeded already.")
    expires_at = now + DEFAULT_RETENTION
    return Record(
        Status.FAILURE, owner, running.attempts, now, expires_at, last_error=error, life=running.life, fence=fence
    )


def _owned(record: Record | None, now: float, owner: str, fence: int) -> Record:
    record = current(record, now)
    if record is None or (record.owner, record.fence) != (owner, fence):
        raise LeaseLost
    return record
