"""Maps daprd's error replies to Holdfast's errors.

The texts are those of daprd 1.18.2. Internals behind the sidecar (addresses, the store's messages) are logged and not
passed on to the caller.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    ActorMoved,
    HoldfastError,
    InvalidRequest,
    NotFound,
    SaveFailed,
    SaveUnanswered,
    SettingsError,
    SidecarRefused,
    TooLarge,
    Unavailable,
    by_code,
)
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Container

log = logging.getLogger(__name__)

# From the actor's app, through one daprd or two ("error invoke actor method: rpc error: code = Internal desc = error
# invoke actor method: error from actor service: (500) {…}").
_FROM_THE_APP = re.compile(r"error from actor service: \(\d+\) (.*)\Z", re.DOTALL)

_REFUSED = "The sidecar refuses this app's token: give the app the DAPR_API_TOKEN that daprd was started with."

# The transaction was rejected, or never began, so it cannot be committed later. For other failures, such as a time-out
# or a broken connection, that is unknown. Of PostgreSQL's codes, 08 is a connection failure, 40003 and 57P a shutdown.
_DEFINITE = re.compile(r"SQLSTATE (?!08|40003|57P)|failed to begin transaction|etag mismatch|more operations than")

# Errors of reminders and timers that a retry cannot fix.
_NEVER_TAKEN = ("job name is invalid", "job failed validation", "period format", "reminder period", "timer period")


def to_error(status: int, body: bytes, actor_type: str, hosted: Container[str]) -> HoldfastError:
    """Returns the error for an HTTP reply other than 2xx. ``hosted`` are the actor types of this app."""
    code, message = _read(body)
    if status == 401:
        return SidecarRefused(_REFUSED)
    if "stream too large" in message:
        return TooLarge("The request is larger than the sidecar accepts: raise daprd's --max-body-size.")
    error = _by_daprd_code(code, message, actor_type, hosted)
    if error is None and status in (429, 502, 503, 504):
        error = Unavailable("The sidecar is temporarily unavailable. Try again.")
    log.debug("the sidecar replied with %s %s: %s", status, code, message)
    return error or HoldfastError(f"The sidecar replied with status {status} {code}.".replace(" .", "."))


def rpc_refusal(code: str, message: str, actor_type: str, hosted: Container[str]) -> HoldfastError:
    """Returns the error for a gRPC status."""
    log.debug("the sidecar replied with %s: %s", code, message)
    match code:
        case "UNAUTHENTICATED":
            return SidecarRefused(_REFUSED)
        case "PERMISSION_DENIED":
            return _not_hosted(actor_type, hosted)
        case "INVALID_ARGUMENT":
            return InvalidRequest(_without_prefix(message))
        case "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "CANCELLED" | "RESOURCE_EXHAUSTED" | "ABORTED":
            return Unavailable("The sidecar is temporarily unavailable. Try again.")
        case _:
            return _reminder_error(message)


def _by_daprd_code(code: str, message: str, actor_type: str, hosted: Container[str]) -> HoldfastError | None:
    match code:
        case "ERR_ACTOR_INVOKE_METHOD":
            return _invocation_error(message, actor_type, hosted)
        case "ERR_ACTOR_INSTANCE_MISSING":
            return ActorMoved()
        case "ERR_BAD_REQUEST" | "ERR_MALFORMED_REQUEST":
            return InvalidRequest(_without_prefix(message))
        case "ERR_ACTOR_REMINDER_NON_HOSTED":
            return _not_hosted(actor_type, hosted)
        case "ERR_ACTOR_REMINDER_CREATE" | "ERR_ACTOR_REMINDER_DELETE" | "ERR_ACTOR_TIMER_CREATE":
            return _reminder_error(message)
        case "ERR_ACTOR_STATE_GET":
            log.warning("the state of a %s actor could not be read: %s", actor_type, message)
            return Unavailable("The state could not be read. Try again.")
        case "ERR_ACTOR_STATE_TRANSACTION_SAVE":
            log.warning("the state of a %s actor could not be saved: %s", actor_type, message)
            return SaveFailed() if _DEFINITE.search(message) else SaveUnanswered()
        case "ERR_ACTOR_NO_PLACEMENT":
            return SettingsError("The sidecar has no placement service: start daprd with --placement-host-address.")
        case "ERR_ACTOR_RUNTIME_CLOSED" | "ERR_ACTOR_RUNTIME_NOT_FOUND" | "ERR_ACTOR_NO_APP_CHANNEL":
            return Unavailable("The sidecar does not run actors at the moment. Try again.")
        case _:
            return None


def _invocation_error(message: str, actor_type: str, hosted: Container[str]) -> HoldfastError:
    if raised := _FROM_THE_APP.search(message):
        return _raised_by_actor(raised[1])
    if "actor method not found" in message:
        return NotFound(f"The app that hosts the {actor_type} actors does not have the called method.")
    if "did not find address for actor" in message:
        return _not_hosted(actor_type, hosted)
    # Other errors are temporary: the actor's app or its daprd is down, or placement is moving the actor.
    log.info("a call did not reach its %s actor: %s", actor_type, message)
    return Unavailable("The actor could not be reached. Try again.")


def _raised_by_actor(body: str) -> HoldfastError:
    answer = _as_object(body)
    message = str(answer.pop("message", "The actor failed; its log has the reason."))
    error = by_code(str(answer.pop("errorCode", "")), message)
    # The SDK's own errors include the reply of yet another server.
    answer.pop("raw_response_bytes", None)
    error.details = answer
    return error


def _not_hosted(actor_type: str, hosted: Container[str]) -> HoldfastError:
    if actor_type in hosted:
        return Unavailable(f"No host has {actor_type} actors at the moment. Try again.")
    return NotFound(f"No app has actors of type {actor_type}.")


def _reminder_error(message: str) -> HoldfastError:
    if any(reason in message for reason in _NEVER_TAKEN):
        return InvalidRequest(_without_prefix(message))
    log.warning("the sidecar did not accept a reminder or timer: %s", message)
    return Unavailable("The reminder could not be saved. Try again.")


def _without_prefix(message: str) -> str:
    return message.rpartition(" desc = ")[2]


def _read(body: bytes) -> tuple[str, str]:
    answer = _as_object(body)
    return str(answer.get("errorCode", "")), str(answer.get("message", ""))


def _as_object(body: bytes | str) -> dict[str, Any]:
    try:
        answer = load(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
