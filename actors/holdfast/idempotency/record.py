"""An idempotency record as a state machine: takes a request and the time, returns a new record. No I/O, no clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from holdfast.errors import AlreadyInProgress, LeaseLost

# The longest lease is shorter than the retention, so a leased record does not expire.
DEFAULT_LEASE, MAX_LEASE = 30, 3600
DEFAULT_RETENTION, MAX_RETENTION = 24 * 60 * 60, 365 * 24 * 60 * 60

# An expired record is invisible, so it may be deleted later than it expires. A record that is committed soon after it
# was begun then keeps its reminder: setting another one would cost as much as the commit itself.
_SWEPT_AFTER = 60.0

#: The size of a record without its key, its result and its error.
RECORD_BYTES = 512


class Status(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one tenant and key."""

    status: Status
    owner: str
    #: How often the effect was begun.
    attempts: int
    updated_at: float
    #: When the record is deleted.
    expires_at: float
    lease_expires_at: float | None = None
    #: JSON text.
    result: str | None = None
    last_error: str | None = None
    #: The key's incarnation; records of earlier ones are ignored.
    incarnation: str | None = None
    #: Orders successive holders with the same owner name; a lower fence is refused.
    fence: int = 0
    #: The size of the key, which is stored beside the record.
    key_bytes: int = 0

    @property
    def size(self) -> int:
        """The bytes that the record counts in a quota."""
        texts = (self.result, self.last_error)
        return RECORD_BYTES + self.key_bytes + sum(len(text.encode()) for text in texts if text is not None)

    @property
    def swept_at(self) -> float:
        """When a reminder deletes the record."""
        return self.expires_at + _SWEPT_AFTER

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        return cls(**value | {"status": Status(value["status"])})


def current(record: Record | None, now: float) -> Record | None:
    """Returns the record, or None if it has expired."""
    return None if record is None or record.expires_at <= now else record


def begin(
    record: Record | None,
    now: float,
    owner: str,
    lease_seconds: float,
    incarnation: str | None = None,
    fence: int = 0,
    *,
    key_bytes: int = 0,
) -> Record:
    """Takes the lease, or returns a success as it is. Raises AlreadyInProgress while another owner has the lease.

    The same owner takes over from itself at once with a higher fence, and is refused with a lower one.
    """
    record = current(record, now)
    if record is not None and incarnation not in (None, record.incarnation):
        record = None  # belongs to an earlier incarnation of the key
    attempts = 0 if record is None else record.attempts
    if record is not None and record.status is Status.SUCCESS:
        return record
    if record is not None and record.owner == owner and record.fence > fence:
        raise LeaseLost
    if record is not None and record.status is Status.IN_PROGRESS:
        assert record.lease_expires_at is not None
        if (record.owner, record.fence) == (owner, fence):
            attempts -= record.lease_expires_at > now  # the same attempt continues
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
        incarnation=incarnation if record is None else record.incarnation,
        fence=fence,
        key_bytes=key_bytes,
    )


def renew(record: Record | None, now: float, owner: str, lease_seconds: float, fence: int = 0) -> Record:
    """Extends the lease of its owner."""
    running = _owned(record, now, owner, fence)
    if running.status is not Status.IN_PROGRESS:
        raise LeaseLost
    return replace(running, updated_at=now, lease_expires_at=now + lease_seconds, expires_at=now + DEFAULT_RETENTION)


def commit(
    record: Record | None, now: float, owner: str, result: str | None, retention: float, fence: int = 0
) -> Record:
    """Records the success. A late commit is accepted as long as no other owner has begun."""
    running = _owned(record, now, owner, fence)
    if running.status is Status.SUCCESS:
        return running  # the commit was repeated
    expires_at = now + retention
    return Record(
        Status.SUCCESS,
        owner,
        running.attempts,
        now,
        expires_at,
        result=result,
        incarnation=running.incarnation,
        fence=fence,
        key_bytes=running.key_bytes,
    )


def fail(record: Record | None, now: float, owner: str, error: str, fence: int = 0) -> Record:
    """Records the failure; the next to begin runs the effect again."""
    running = _owned(record, now, owner, fence)
    if running.status is Status.SUCCESS:
        raise LeaseLost("The record is a success already, so it cannot be failed.")
    expires_at = now + DEFAULT_RETENTION
    return Record(
        Status.FAILURE,
        owner,
        running.attempts,
        now,
        expires_at,
        last_error=error,
        incarnation=running.incarnation,
        fence=fence,
        key_bytes=running.key_bytes,
    )


def is_deletable(record: Record, now: float, incarnation: str) -> bool:
    """Returns whether the record belongs to this incarnation of its key, and its effect does not run now."""
    running = record.status is Status.IN_PROGRESS and (record.lease_expires_at or 0.0) > now
    return record.incarnation == incarnation and not running


def _owned(record: Record | None, now: float, owner: str, fence: int) -> Record:
    record = current(record, now)
    if record is None or (record.owner, record.fence) != (owner, fence):
        raise LeaseLost
    return record
