"""Every error Holdfast raises on purpose: one tree, stable codes, one mapping to HTTP.

The docstring of a class is its default message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dapr.clients.exceptions import DaprInternalError

if TYPE_CHECKING:
    from collections.abc import Iterable


class HoldfastError(DaprInternalError):
    """Something went wrong."""

    # The base is the SDK's: its runtime resets an actor's state, and its FastAPI extension passes the
    # code on to the caller, only for errors of that family.

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **details: Any) -> None:
        # There are no docstrings under python -OO.
        default = (type(self).__doc__ or "Something went wrong.").strip().partition("\n")[0]
        super().__init__(message or default, self.code)
        self.details = details

    def as_dict(self) -> dict[str, Any]:
        return {"message": self.message, "errorCode": self.error_code, **self.details}

    def as_json_safe_dict(self) -> dict[str, Any]:
        return self.as_dict()

    def __str__(self) -> str:
        return str(self.message)


class InvalidRequest(HoldfastError):
    """The request is not valid."""

    code = "INVALID_REQUEST"
    status = 400


class BrokenOff(InvalidRequest):
    """The body did not arrive whole."""


class InvalidLockId(HoldfastError):
    """This is not the lock that is active."""

    code = "INVALID_LOCK_ID"
    status = 400


class NotLeased(HoldfastError):
    """Some of these items are not leased, so they cannot be completed; the others are."""

    code = "NOT_LEASED"
    status = 400


class Unauthorized(HoldfastError):
    """This needs a token: send it as 'Authorization: Bearer TOKEN'."""

    code = "UNAUTHORIZED"
    status = 401


class Forbidden(HoldfastError):
    """This may not be done from there."""

    code = "FORBIDDEN"
    status = 403


class NotFound(HoldfastError):
    """There is no such thing."""

    code = "NOT_FOUND"
    status = 404


class UnknownActorType(NotFound):
    """No actor of this type is registered here."""


class LockNotFound(HoldfastError):
    """There is no active lock."""

    code = "LOCK_NOT_FOUND"
    status = 404


class MethodNotAllowed(HoldfastError):
    """This path does not take that method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405

    def __init__(self, message: str | None = None, *, allowed: Iterable[str] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.allowed = sorted(allowed)


class TooSlow(HoldfastError):
    """The request did not arrive in time."""

    code = "TOO_SLOW"
    status = 408
    retryable = True


class Conflict(HoldfastError):
    """This does not go with how things stand now."""

    code = "CONFLICT"
    status = 409


class LeaseLost(HoldfastError):
    """The lease has passed to another, or there is none: what was done under it does not count."""

    code = "LEASE_LOST"
    status = 409


class AlreadyInProgress(HoldfastError):
    """Somebody else is running this."""

    code = "IN_PROGRESS"
    status = 409
    retryable = True


class LockExpired(HoldfastError):
    """The lock has expired."""

    code = "LOCK_EXPIRED"
    status = 410


class QueueLocked(HoldfastError):
    """The queue is locked until what was taken is acknowledged."""

    code = "QUEUE_LOCKED"
    status = 423
    retryable = True


class TooLarge(HoldfastError):
    """The request is larger than is taken here."""

    code = "TOO_LARGE"
    status = 413


class Capacity(HoldfastError):
    """The queue has no room for this. Try again when something was taken from it."""

    code = "CAPACITY"
    status = 429
    retryable = True


class RateLimited(HoldfastError):
    """More is being pushed than this queue takes in a second. Try again later."""

    code = "RATE_LIMITED"
    status = 429
    retryable = True


class Unavailable(HoldfastError):
    """This cannot be done just now. Try again."""

    code = "UNAVAILABLE"
    status = 503
    retryable = True


class SaveFailed(Unavailable):
    """The change could not be saved. Try again."""


class HostStopping(Unavailable):
    """The server is stopping and takes no more work. Try again elsewhere, or later."""


class ActorMoved(Unavailable):
    """This actor was taken from this host while its turn ran, so the turn may change nothing more. Try again."""


class PartitionUnavailable(HoldfastError):
    """A part of the queue cannot be reached just now; what the others were asked is done. Try all of it again."""

    code = "PARTITION_UNAVAILABLE"
    status = 503
    retryable = True


class ConnectionFailed(HoldfastError):
    """The server cannot be reached, so nothing was done. Is it running, and is the URL right?"""

    code = "NOT_REACHABLE"
    status = 503
    retryable = True


class AnswerLost(HoldfastError):
    """The server was reached, but its answer did not come: what was asked may or may not have been done."""

    code = "ANSWER_LOST"
    status = 504


class NotRecorded(HoldfastError):
    """It has happened, but could not be recorded, so the next attempt may make it happen again."""

    code = "NOT_RECORDED"


class ClientClosed(HoldfastError, RuntimeError):
    """This client is not open: use it as 'async with Client(…) as client'."""


class SidecarRefused(HoldfastError):
    """The sidecar refuses what this app asks of it."""


class NotTheSidecar(HoldfastError):
    """Only the sidecar may call this."""

    # Whoever called the sidecar gets to see this; to them it is not their token that is wrong.


class ReminderExists(Conflict):
    """There is a reminder of this name already."""


class ReentrantCall(HoldfastError):
    """An actor called itself, directly or through another, while its own turn was running: reentrancy is off."""

    code = "REENTRANT_CALL"
    status = 409


class UnknownOrchestration(NotFound):
    """No orchestration of this name is registered here."""


class OrchestrationEnded(Conflict):
    """The orchestration has ended."""


class CodeMissing(Unavailable):
    """The code of this orchestration is not on this server, or not in the version it began with."""


class AuthorsCodeFailed(HoldfastError):
    """The code of an activity or an orchestration has failed."""

    code = "FAILED"

    @property
    def type(self) -> str | None:
        """The name of the exception's class, where it was raised."""
        return self.details.get("type")

    @property
    def kind(self) -> str | None:
        """``error``, ``timeout``, ``poison``, ``cancelled``, ``refused``, ``non_determinism`` or ``never_yields``."""
        return self.details.get("kind")

    @property
    def reason(self) -> str | None:
        """The exception's own words."""
        return self.details.get("reason")


class OrchestrationFailed(AuthorsCodeFailed):
    """The orchestration has failed."""

    code = "ORCHESTRATION_FAILED"


class OrchestrationCancelled(OrchestrationFailed):
    """The orchestration was cancelled."""

    code = "ORCHESTRATION_CANCELLED"


class SubOrchestrationFailed(OrchestrationFailed):
    """A sub-orchestration has failed."""


class ActivityFailed(AuthorsCodeFailed):
    """An activity has failed."""

    code = "ACTIVITY_FAILED"


class NonRetryable(HoldfastError):
    """This activity would fail again however often it were tried."""

    code = "NON_RETRYABLE"


class ResultNotKept(NonRetryable):
    """It has happened, but its result cannot be kept."""


class NonDeterminism(HoldfastError):
    """The orchestration's code does not do what its history says it did."""

    code = "NON_DETERMINISM"


class NeverYields(HoldfastError):
    """The orchestration runs on and on without waiting for anything."""

    code = "NEVER_YIELDS"


class NotInOrchestrations(HoldfastError):
    """An orchestration cannot do this: do it in an activity."""

    code = "NOT_IN_ORCHESTRATIONS"


class NotInAnActivity(HoldfastError):
    """This is known only while an activity runs."""


class StorageBroken(HoldfastError):
    """What is stored cannot be used: it is damaged, or was written by something other than Holdfast."""

    code = "STORAGE_BROKEN"


class DataFolderInUse(HoldfastError):
    """Another process uses this data folder."""


class SettingsError(HoldfastError):
    """A setting is wrong."""

    code = "INVALID_SETTINGS"
    status = 400


class ComponentMissing(HoldfastError):
    """A component that is needed here was not found."""


class ComponentFailed(HoldfastError):
    """A component that Holdfast started here ended, or did not become ready."""


def by_code(code: str, message: str, **details: Any) -> HoldfastError:
    """The error a code stands for, as it arrives from another process."""
    return _BY_CODE.get(code, HoldfastError)(message, **details)


def _tree(root: type[HoldfastError]) -> list[type[HoldfastError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


# The first class with a code stands for it: parents come before their refinements.
_BY_CODE: dict[str, type[HoldfastError]] = {}
for _class in _tree(HoldfastError):
    _BY_CODE.setdefault(_class.code, _class)
