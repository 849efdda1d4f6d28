"""What daprd answers when it does not do what it was asked, as Holdfast's errors.

The texts are those of daprd 1.18.2. What lies behind the sidecar (addresses, the store's own words) goes to the log,
not to the caller.
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

# Why a reminder or timer was not taken that no repetition will help.
_NEVER_TAKEN = ("job name is invalid", "job failed validation", "period format", "reminder period", "timer period")


def refusal(status: int, body: bytes, actor_type: str, hosted: Container[str]) -> HoldfastError:
    """The error that an HTTP answer other than 2xx stands for. ``hosted`` are the types of actors that this app has."""
    code, message = _read(body)
    if status == 401:
        return SidecarRefused(_REFUSED)
    if "stream too large" in message:
        return TooLarge("This is larger than the sidecar takes: daprd has a --max-body-size.")
    error = _by_daprd_code(code, message, actor_type, hosted)
    if error is None and status in (429, 502, 503, 504):
        error = Unavailable("The sidecar cannot do this just now. Try again.")
    log.debug("the sidecar answered %s %s: %s", status, code, message)
    return error or HoldfastError(f"The sidecar answered with status {status} {code}.".replace(" .", "."))


def rpc_refusal(code: str, message: str, actor_type: str, hosted: Container[str]) -> HoldfastError:
    """The error that a gRPC status stands for."""
    log.debug("the sidecar answered %s: %s", code, message)
    match code:
        case "UNAUTHENTICATED":
            return SidecarRefused(_REFUSED)
        case "PERMISSION_DENIED":
            return _not_hosted(actor_type, hosted)
        case "INVALID_ARGUMENT":
            return InvalidRequest(_without_prefix(message))
        case "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "CANCELLED" | "RESOURCE_EXHAUSTED" | "ABORTED":
            return Unavailable("The sidecar cannot do this just now. Try again.")
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
            log.warning("the state of a %s could not be read: %s", actor_type, message)
            return Unavailable("The state could not be read. Try again.")
        case "ERR_ACTOR_STATE_TRANSACTION_SAVE":
            log.warning("the state of a %s could not be saved: %s", actor_type, message)
            return Unavailable("The state could not be saved. Try again.")
        case "ERR_ACTOR_NO_PLACEMENT":
            return SettingsError("The sidecar has no placement service: start daprd with --placement-host-address.")
        case "ERR_ACTOR_RUNTIME_CLOSED" | "ERR_ACTOR_RUNTIME_NOT_FOUND" | "ERR_ACTOR_NO_APP_CHANNEL":
            return Unavailable("The sidecar does not run actors just now. Try again.")
        case _:
            return None


def _invocation_error(message: str, actor_type: str, hosted: Container[str]) -> HoldfastError:
    if raised := _FROM_THE_APP.search(message):
        return _raised_by_actor(raised[1])
    if "actor method not found" in message:
        return NotFound(f"The app that has the {actor_type} actors does not know what was called.")
    if "did not find address for actor" in message:
        return _not_hosted(actor_type, hosted)
    # The rest is of the moment: the actor's app or its daprd is away, or placement is moving the actor.
    log.info("a call to a %s did not reach it: %s", actor_type, message)
    return Unavailable("The actor could not be reached. Try again.")


def _raised_by_actor(body: str) -> HoldfastError:
    answer = _as_object(body)
    message = str(answer.pop("message", "The actor failed; its log has the reason."))
    error = by_code(str(answer.pop("errorCode", "")), message)
    # What the SDK's own errors carry is the answer of yet another server.
    answer.pop("raw_response_bytes", None)
    error.details = answer
    return error


def _not_hosted(actor_type: str, hosted: Container[str]) -> HoldfastError:
    if actor_type in hosted:
        return Unavailable(f"No host has the {actor_type} actors just now. Try again.")
    return NotFound(f"No app has actors of type {actor_type}.")


def _reminder_error(message: str) -> HoldfastError:
    if any(reason in message for reason in _NEVER_TAKEN):
        return InvalidRequest(_without_prefix(message))
    log.warning("a reminder or timer was not taken: %s", message)
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
