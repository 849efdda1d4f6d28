"""Service invocation over gRPC: ``InvokeService`` of this server's own app id, as an HTTP request to this server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dapr.proto import common_v1
from google.protobuf import any_pb2

from holdfast.gateway.dapr_api.api_errors import failed_invocation, no_such_app
from holdfast.gateway.dapr_api.invocation import app_ids, resolved
from holdfast.gateway.dapr_api.names import problem_of_method

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from google.protobuf.message import Message

    from holdfast.gateway.dapr_api.dispatch import Response

# Headers of an answer that gRPC metadata have under another name, and those that are of the connection only.
_PREFIXED = frozenset({"accept-ranges", "cache-control", "content-type", "date", "pragma", "via", "warning"})
_LEFT_OUT = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"})
# Metadata that are not headers of the request: of the connection, of gRPC, or set from the message.
_NOT_PASSED_ON = _LEFT_OUT | {"content-type", "host", "te", "dapr-app-id"}
# By number: a message may have numbers that stand for none.
_VERBS = {
    common_v1.HTTPExtension.Verb.Value(verb): verb
    for verb in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH")
}
# All that may be in a URL, and the sign of what is encoded already.
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = f"{_PATH_SAFE}?"


def to_request(request: Any, app_id: str) -> dict[str, Any]:
    """Returns method, path and query of the HTTP request as a part of an ASGI scope. Raises ApiError."""
    called, message = request.id, request.message
    if not called:
        raise failed_invocation(called, "app id is empty")
    if called not in app_ids(app_id):
        raise no_such_app(called)
    if problem := problem_of_method(message.method):
        raise _invalid(called, f"invalid method: {problem}")
    if not message.HasField("http_extension"):
        raise _invalid(called, "missing HTTP extension field")
    verb = _VERBS.get(message.http_extension.verb)
    if verb is None:
        raise _invalid(called, "invalid HTTP verb")
    path = resolved(quote(message.method, safe=_PATH_SAFE).encode())
    return {
        "method": verb,
        "raw_path": path,
        "query_string": quote(message.http_extension.querystring, safe=_QUERY_SAFE).encode(),
    }


def to_headers(metadata: Iterable[tuple[bytes, bytes]], message: Any) -> list[tuple[bytes, bytes]]:
    """Returns the headers of the HTTP request."""
    headers = [(name, value) for name, value in metadata if name.decode("latin-1") not in _NOT_PASSED_ON]
    if message.content_type:
        headers.append((b"content-type", message.content_type.encode()))
    headers.append((b"content-length", b"%d" % len(message.data.value)))
    return headers


def to_answer(response: Response) -> Message:
    """Returns the message for an HTTP answer."""
    content_type = dict(response.headers).get(b"content-type", b"").decode("latin-1")
    return common_v1.InvokeResponse(data=any_pb2.Any(value=response.body), content_type=content_type)


def to_metadata(response: Response) -> Sequence[tuple[str, str]]:
    """Returns the headers of an HTTP answer, and its status, as gRPC metadata."""
    metadata = [("dapr-http-status", str(response.status))]
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in _LEFT_OUT:
            metadata.append((f"dapr-{name}" if name in _PREFIXED else name, value))
    return metadata


def _invalid(app_id: str, reason: str) -> Exception:
    return failed_invocation(app_id, f"rpc error: code = InvalidArgument desc = {reason}")
