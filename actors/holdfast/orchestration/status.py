"""The status of an instance."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    #: The deployed code cannot continue the instance; it continues when code that fits is deployed.
    BLOCKED = "BLOCKED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
NOT_ENDED = tuple(status for status in Status if status not in ENDED)
