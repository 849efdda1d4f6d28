"""Errors of Dapr's gRPC API: codes and details as daprd 1.18 gives them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.gateway.dapr_api.api_errors import ApiError

_DOMAIN = "dapr.io"
# daprd shortens the body of an app's error in the details.
_MAX_DETAIL = 63
_DETAILS_KEY = "grpc-status-details-bin"
_CODES = {
    400: "INTERNAL",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "CANCELLED",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
#: The codes of requests that are refused before they are carried out.
_REFUSALS = {**_CODES, 400: "INVALID_ARGUMENT", 408: "DEADLINE_EXCEEDED", 413: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
# Go's words, where Python has others in some versions.
_PHRASES = {413: "Request Entity Too Large", 414: "Request URI Too Long", 422: "Unprocessable Entity"}


class CallFailed(Exception):
    """The end of a gRPC call with an error."""

    def __init__(self, code: str, details: str, info: error_details_pb2.ErrorInfo | None = None) -> None:
        super().__init__(details)
        self.code = grpc.StatusCode[code]
        self.details = details
        self._info = info

    @property
    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        if self._info is None:
            return ()
        packed = any_pb2.Any()
        packed.Pack(self._info)
        status = status_pb2.Status(code=self.code.value[0], message=self.details, details=[packed])
        return ((_DETAILS_KEY, status.SerializeToString()),)


def of_api_error(error: ApiError) -> CallFailed:
    return CallFailed(error.grpc_code, error.details)


def of_refusal(status: int, message: str) -> CallFailed:
    """Returns the error for a request that the server refused before it was carried out."""
    return CallFailed(_REFUSALS.get(status, "UNKNOWN"), message)


def of_response(status: int, body: bytes) -> CallFailed | None:
    """Returns the error for an app's HTTP answer; None for a success."""
    if 200 <= status < 300:
        return None
    phrase = _phrase(status)
    shown = body[:_MAX_DETAIL].decode("utf-8", "ignore")
    return with_info(
        _CODES.get(status, "UNKNOWN"), phrase, phrase, {"http.code": str(status), "http.error_message": shown}
    )


def with_info(code: str, details: str, reason: str, metadata: Mapping[str, str]) -> CallFailed:
    """Returns an error with the details that daprd adds in the form of Google's ErrorInfo."""
    return CallFailed(
        code, details, error_details_pb2.ErrorInfo(reason=reason, domain=_DOMAIN, metadata=dict(metadata))
    )


def _phrase(status: int) -> str:
    if status in _PHRASES:
        return _PHRASES[status]
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
