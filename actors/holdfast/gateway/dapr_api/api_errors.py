"""The errors of Dapr's API, with the codes, statuses and messages of daprd 1.18."""

from __future__ import annotations

from holdfast.gateway.error_responses import FAULT
from holdfast.runtime.serialization import dump


class ApiError(Exception):
    """An answer other than success: its HTTP status, daprd's error code, and its gRPC code by name."""

    def __init__(self, status: int, code: str, message: str, grpc_code: str, details: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.grpc_code = grpc_code
        #: The message over gRPC, where daprd has another one.
        self.details = message if details is None else details

    @property
    def body(self) -> bytes:
        """The body of the HTTP answer."""
        return dump({"errorCode": self.code, "message": self.message})


def bad_request(reason: str, details: str | None = None) -> ApiError:
    return ApiError(400, "ERR_BAD_REQUEST", f"invalid request: {reason}", "INVALID_ARGUMENT", details)


def malformed(reason: object) -> ApiError:
    return ApiError(400, "ERR_MALFORMED_REQUEST", f"failed deserializing HTTP body: {reason}", "INVALID_ARGUMENT")


def invocation_failed(reason: str) -> ApiError:
    return ApiError(500, "ERR_ACTOR_INVOKE_METHOD", f"error invoke actor method: {reason}", "INTERNAL")


def no_host(actor_type: str, actor_id: str) -> ApiError:
    """Returns the error for an actor type that this server does not host."""
    # daprd looks for an actor without a type or an id under neither.
    named = f"{actor_type}/{actor_id}" if actor_type and actor_id else "/"
    details = (
        f"failed to lookup actor: api error: code = FailedPrecondition desc = did not find address for actor '{named}'"
    )
    message = f"error invoke actor method: {details}"
    return ApiError(500, "ERR_ACTOR_INVOKE_METHOD", message, "FAILED_PRECONDITION", details)


def not_active() -> ApiError:
    return ApiError(400, "ERR_ACTOR_INSTANCE_MISSING", "actor instance is missing", "INTERNAL")


def not_hosted() -> ApiError:
    message = "operations on actor reminders are only possible on hosted actor types"
    return ApiError(403, "ERR_ACTOR_REMINDER_NON_HOSTED", message, "PERMISSION_DENIED")


def reminder_exists(name: str) -> ApiError:
    message = f"actor reminder already exists: {name}"
    return ApiError(409, "ERR_ACTOR_REMINDER_ALREADY_EXISTS", message, "ALREADY_EXISTS")


def reminder_not_found(name: str) -> ApiError:
    return ApiError(404, "ERR_ACTOR_REMINDER_NOT_FOUND", f"actor reminder not found: {name}", "NOT_FOUND")


def failed(code: str, doing: str, reason: object) -> ApiError:
    """Returns the error for an operation that failed, such as ``error getting actor state: …``."""
    return ApiError(500, code, f"error {doing}: {reason}", "INTERNAL")


def no_app_id() -> ApiError:
    # daprd takes every unknown path for a call to another app.
    message = "failed getting app id either from the URL path or the header dapr-app-id"
    return ApiError(404, "ERR_DIRECT_INVOKE", message, "NOT_FOUND")


def no_such_app(app_id: str) -> ApiError:
    return failed_invocation(app_id, f"failed to resolve address for '{app_id}': this host runs one app")


def failed_invocation(app_id: str, reason: str) -> ApiError:
    return ApiError(500, "ERR_DIRECT_INVOKE", f"failed to invoke, id: {app_id}, err: {reason}", "INTERNAL")


def fault() -> ApiError:
    return ApiError(500, "ERR_INTERNAL", FAULT.message, "INTERNAL")
