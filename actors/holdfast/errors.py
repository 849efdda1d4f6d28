"""The errors Holdfast raises: one class hierarchy with stable codes, mapped to HTTP statuses.

The first line of a class's docstring is its default message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class HoldfastError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **details: Any) -> None:
        # Under python -OO there are no docstrings.
        default = (type(self).__doc__ or "Something went wrong.").strip().partition("\n")[0]
        self.message = message or default
        self.details = details
        super().__init__(self.message)

    @property
    def error_code(self) -> str:
        return self.code

    def as_dict(self) -> dict[str, Any]:
        return {"message": self.message, "errorCode": self.error_code, **self.details}

    def __str__(self) -> str:
        return self.message


class InvalidRequest(HoldfastError):
    """The request is not valid."""

    code = "INVALID_REQUEST"
    status = 400


class BrokenOff(InvalidRequest):
    """The request body is incomplete: the connection ended before all of it arrived."""


class InvalidLockId(HoldfastError):
    """This lock id does not belong to an active lock."""

    code = "INVALID_LOCK_ID"
    status = 400


class NotLeased(HoldfastError):
    """Some of these items are not leased and were not completed; the others were."""

    code = "NOT_LEASED"
    status = 400


class Unauthorized(HoldfastError):
    """A token is required: send it as 'Authorization: Bearer TOKEN'."""

    code = "UNAUTHORIZED"
    status = 401


class Forbidden(HoldfastError):
    """Not permitted for this caller."""

    code = "FORBIDDEN"
    status = 403


class NotFound(HoldfastError):
    """Not found."""

    code = "NOT_FOUND"
    status = 404


class UnknownActorType(NotFound):
    """No actor of this type is registered on this host."""


class LockNotFound(HoldfastError):
    """There is no active lock."""

    code = "LOCK_NOT_FOUND"
    status = 404


class MethodNotAllowed(HoldfastError):
    """This path does not support that method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405

    def __init__(self, message: str | None = None, *, allowed: Iterable[str] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.allowed = sorted(allowed)


class TooSlow(HoldfastError):
    """The request did not arrive in time. Try again."""

    code = "TOO_SLOW"
    status = 408
    retryable = True


class Conflict(HoldfastError):
    """The request conflicts with the current state."""

    code = "CONFLICT"
    status = 409


class Rejected(HoldfastError):
    """The orchestration rejected the request."""

    code = "REJECTED"
    status = 409


class LeaseLost(HoldfastError):
    """This owner does not hold the lease any more, so the change was not recorded."""

    code = "LEASE_LOST"
    status = 409


class AlreadyInProgress(HoldfastError):
    """Another owner is running this. Try again when its lease has ended."""

    code = "IN_PROGRESS"
    status = 409
    retryable = True


class LockExpired(HoldfastError):
    """The lock has expired."""

    code = "LOCK_EXPIRED"
    status = 410


class QueueLocked(HoldfastError):
    """The queue is locked until the popped items are acknowledged or their lock expires."""

    code = "QUEUE_LOCKED"
    status = 423
    retryable = True


class TooLarge(HoldfastError):
    """The request is larger than the limit."""

    code = "TOO_LARGE"
    status = 413


class Capacity(HoldfastError):
    """The queue is at its capacity. Try again when items have been popped."""

    code = "CAPACITY"
    status = 429
    retryable = True


class RateLimited(HoldfastError):
    """The queue's push rate is exceeded. Try again later."""

    code = "RATE_LIMITED"
    status = 429
    retryable = True


class Unavailable(HoldfastError):
    """Temporarily unavailable. Try again."""

    code = "UNAVAILABLE"
    status = 503
    retryable = True


class SaveFailed(Unavailable):
    """The change could not be saved. Try again."""


class SaveUnanswered(SaveFailed):
    """It is unknown whether the change was saved. Try again."""


class HostStopping(Unavailable):
    """The server is stopping and accepts no more work. Try again later, or on another server."""


class ActorMoved(Unavailable):
    """This actor moved to another host during its turn, so the turn cannot save any more. Try again."""


class PartitionUnavailable(HoldfastError):
    """A partition of the queue is unavailable; the other partitions did their part. Repeat the whole request."""

    code = "PARTITION_UNAVAILABLE"
    status = 503
    retryable = True


class ConnectionFailed(HoldfastError):
    """The server cannot be reached, so nothing was done. Check that it is running and that the URL is right."""

    code = "NOT_REACHABLE"
    status = 503
    retryable = True


class AnswerLost(HoldfastError):
    """The connection was lost before the server replied: the request may or may not have been executed."""

    code = "ANSWER_LOST"
    status = 504


class NotRecorded(HoldfastError):
    """The effect happened, but could not be recorded, so the next attempt may repeat it."""

    code = "NOT_RECORDED"


class ClientClosed(HoldfastError, RuntimeError):
    """This client is not open: use it as 'async with Client(…) as client'."""


class SidecarRefused(HoldfastError):
    """The sidecar rejected a request of this app."""


class NotTheSidecar(HoldfastError):
    """Only the sidecar may call this."""

    # The caller of the sidecar sees this error, so it must not suggest that the caller's own token is wrong.


class ReminderExists(Conflict):
    """A reminder of this name exists already."""


class ReentrantCall(HoldfastError):
    """An actor called itself, directly or through another actor, during its own turn: reentrancy is off."""

    code = "REENTRANT_CALL"
    status = 409


class UnknownOrchestration(NotFound):
    """No orchestration of this name is registered on this server."""


class OrchestrationEnded(Conflict):
    """The orchestration has ended."""


class AuthorsCodeFailed(HoldfastError):
    """The code of an activity or an orchestration failed."""

    code = "FAILED"

    @property
    def type(self) -> str | None:
        """The class name of the exception that was raised."""
        return self.details.get("type")

    @property
    def kind(self) -> str | None:
        """``error``, ``timeout``, ``poison``, ``cancelled``, ``refused`` or ``never_yields``."""
        return self.details.get("kind")

    @property
    def reason(self) -> str | None:
        """The message of the exception that was raised."""
        return self.details.get("reason")

    @property
    def traceback(self) -> str | None:
        """The frames of the author's code and of what it called, if they were kept."""
        return self.details.get("traceback")

    @property
    def cause(self) -> dict[str, Any] | None:
        """The exception from which it was raised: ``{type, message, kind, traceback?, cause?}``."""
        return self.details.get("cause")


class OrchestrationFailed(AuthorsCodeFailed):
    """The orchestration failed."""

    code = "ORCHESTRATION_FAILED"


class OrchestrationCancelled(OrchestrationFailed):
    """The orchestration was cancelled."""

    code = "ORCHESTRATION_CANCELLED"


class SubOrchestrationFailed(OrchestrationFailed):
    """A sub-orchestration failed."""


class ActivityFailed(AuthorsCodeFailed):
    """An activity failed."""

    code = "ACTIVITY_FAILED"


class NonRetryable(HoldfastError):
    """The activity failed in a way that a retry cannot fix."""

    code = "NON_RETRYABLE"


class ResultNotKept(NonRetryable):
    """The activity succeeded, but its result cannot be stored."""


class NonDeterminism(HoldfastError):
    """The orchestration's code does not match its history."""

    code = "NON_DETERMINISM"

    def __str__(self) -> str:
        """Returns the message with the details: tests and logs show only this text."""
        labels = {"The history has": "expected", "The code does": "found", "At": "line"}
        details = [f"{label}: {self.details[name]}." for label, name in labels.items() if self.details.get(name)]
        return " ".join([str(self.message), *details])


class NeverYields(HoldfastError):
    """The orchestration keeps running without awaiting anything."""

    code = "NEVER_YIELDS"


class StartsRefused(HoldfastError):
    """Instances of this orchestration repeatedly ran without yielding, so starts are refused. Try again later."""

    code = "STARTS_REFUSED"
    status = 429


class NotInOrchestrations(HoldfastError):
    """Not available in an orchestration: do this in an activity."""

    code = "NOT_IN_ORCHESTRATIONS"


class NotInAnActivity(HoldfastError):
    """Only available while an activity runs."""


class StorageBroken(HoldfastError):
    """The stored data cannot be used: it is damaged, or was not written by Holdfast."""

    code = "STORAGE_BROKEN"


class DataFolderInUse(HoldfastError):
    """Another process is using this data folder."""


class SettingsError(HoldfastError):
    """A setting is invalid."""

    code = "INVALID_SETTINGS"
    status = 400


class SettingsUnreadable(SettingsError):
    """A settings file cannot be read."""


class ComponentMissing(HoldfastError):
    """A required component was not found."""


class ComponentFailed(HoldfastError):
    """A component that Holdfast started exited, or did not become ready."""


def by_code(code: str, message: str, **details: Any) -> HoldfastError:
    """Returns the error for a code that arrived from another process."""
    return _BY_CODE.get(code, HoldfastError)(message, **details)


def _tree(root: type[HoldfastError]) -> list[type[HoldfastError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


# Several classes may share a code; the first one, which is the most general, represents it.
_BY_CODE: dict[str, type[HoldfastError]] = {}
for _class in _tree(HoldfastError):
    _BY_CODE.setdefault(_class.code, _class)
