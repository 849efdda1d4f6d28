"""A router for REST calls, without a framework between the socket and the actor.

FastAPI costs more than the rest of a push together, so frequent calls use this router instead: each endpoint is a path,
a handler and its OpenAPI description.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from holdfast.errors import (
    BrokenOff,
    Forbidden,
    HoldfastError,
    HostStopping,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    TooLarge,
)
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.error_responses import FAULT, send_error
from holdfast.gateway.http_request import HttpRequest, Shares
from holdfast.gateway.middleware.body_limits import MAX_ANSWER, MAX_CALL
from holdfast.logs import RepeatFilter
from holdfast.runtime.serialization import dump
from holdfast.tracing import spans
from holdfast.tracing.traceparent import in_headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog

log = logging.getLogger(__name__)

# Minimal time between two log lines about calls to one path that are refused because the server is stopping.
_QUIET_SECONDS = 60.0
# Refusals that are logged. Others, such as 404, are normal for clients that poll.
_REFUSALS = (Forbidden, InvalidRequest, TooLarge)


class Accepted(dict[str, Any]):
    """An answer with status 202: the request was accepted, and its effect follows later."""


@dataclass(frozen=True)
class Endpoint:
    """One REST call. ``{name}`` in the path is one segment, which the handler gets decoded."""

    verb: str
    path: str
    handle: Callable[[HttpRequest], Awaitable[dict[str, Any]]]
    document: dict[str, Any]
    #: The role that a caller needs.
    role: Role
    #: Whether the answer can be large or many actors are asked for it. Such calls are limited per tenant.
    bulky: bool = False
    #: The maximal size of the body, in bytes.
    max_body: int = MAX_CALL
    #: Whether a request without a trace context begins a trace. Requests that cause further work do.
    begins_trace: bool = False

    @cached_property
    def has_query(self) -> bool:
        """Whether the call has query parameters."""
        return any(parameter["in"] == "query" for parameter in self.document.get("parameters", ()))

    @property
    def names(self) -> list[str]:
        """The names of the path parameters."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class Endpoints:
    """An ASGI application that serves the given endpoints."""

    def __init__(self, endpoints: Sequence[Endpoint], audit: AuditLog) -> None:
        self.all = endpoints
        self._audit = audit
        self._shares = Shares()
        self._refused_at_stop = RepeatFilter(_QUIET_SECONDS)
        #: The first segments of all paths, by which :class:`PrefixRouter` selects this application.
        self.roots = frozenset(endpoint.path.split("/")[1] for endpoint in endpoints)
        shapes: dict[tuple[bytes | None, ...], dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            shape = tuple(None if part.startswith("{") else part.encode() for part in endpoint.path.split("/")[1:])
            shapes.setdefault(shape, {})[endpoint.verb] = endpoint
        #: Path patterns by first segment and number of segments.
        self._shapes: dict[tuple[bytes | None, int], list[tuple[tuple[bytes | None, ...], dict[str, Endpoint]]]] = {}
        for shape, verbs in shapes.items():
            self._shapes.setdefault((shape[0], len(shape)), []).append((shape, verbs))
        for alike in self._shapes.values():
            # A path without parameters is found before one that a parameter makes.
            alike.sort(key=lambda shape: shape[0].count(None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            endpoint, parameters = self._find(scope)
        except HoldfastError as error:
            await send_error(send, error)
            return
        scope["route"] = endpoint.path
        call = HttpRequest(scope, receive, parameters, self._shares, endpoint.max_body)
        call.traceparent = in_headers(scope["headers"])
        tracer = spans.tracer()
        if tracer is None or (call.traceparent is None and not endpoint.begins_trace):
            await self._serve(endpoint, call, scope, send)
            return
        attributes = {"http.request.method": endpoint.verb, "http.route": endpoint.path, "url.path": scope["path"]}
        name = f"{endpoint.verb} {endpoint.path}"
        with tracer.span(name, call.traceparent, kind="SERVER", attributes=attributes) as span:
            call.traceparent = spans.context_of(span)
            status = await self._serve(endpoint, call, scope, send)
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                tracer.fail(span, str(status))

    async def _serve(self, endpoint: Endpoint, call: HttpRequest, scope: Scope, send: Send) -> int:
        """Answers a request. Returns the status."""
        refusal: HoldfastError | None = None
        # An operator's call gets a line in the audit log, whatever its outcome.
        acts = endpoint.role is Role.OPERATOR
        try:
            call.caller.must_be(endpoint.role)
            if not endpoint.has_query:
                call.refuse_query()
            status, body = await (self._answer_bulky(endpoint, call) if endpoint.bulky else _answer(endpoint, call))
        except HoldfastError as error:
            refusal, status = _without_traceback(error), error.status
            if status >= 500:
                # Clients retry until the server has stopped: one line per path and minute is enough.
                if not isinstance(error, HostStopping) or self._refused_at_stop.passes(endpoint.path, time.monotonic()):
                    log.warning("%s %s: %s", scope["method"], scope["path"], error)
            elif isinstance(error, Forbidden) or (
                isinstance(error, _REFUSALS) and not acts and not isinstance(error, BrokenOff)
            ):
                self._audit.refused(scope, error, with_message=isinstance(error, Forbidden))
        except Exception:
            # A bug: the caller gets a flat error without a stack trace, and the log has it.
            refusal, status = FAULT, FAULT.status
            log.exception("%s %s failed", scope["method"], scope["path"])
        finally:
            await call.release()
        if acts and status != Forbidden.status:
            names = dict(zip(endpoint.names, call.parameters, strict=True)) | call.noted
            self._audit.acted(call.caller, endpoint.verb, endpoint.path, names, status)
        if refusal is not None:
            await send_error(send, refusal)
            return status
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return status

    async def _answer_bulky(self, endpoint: Endpoint, call: HttpRequest) -> tuple[int, bytes]:
        async with self._shares.bulky.enter(call.caller.tenant):
            await call.pause()
            answer = await endpoint.handle(call)
            await call.pause()
            status, body = _written(answer)
        if len(body) > MAX_ANSWER and endpoint.verb == "GET":
            raise TooLarge(f"The answer would exceed {MAX_ANSWER // 1024 // 1024} MiB: request less at once.")
        return status, body

    def _find(self, scope: Scope) -> tuple[Endpoint, list[str]]:
        # The raw path: an encoded slash belongs to its segment, and the handler refuses it.
        segments = scope["raw_path"].split(b"/")[1:]
        for shape, verbs in self._shapes.get((segments[0] if segments else b"", len(segments)), ()):
            if all(part is None or part == segment for part, segment in zip(shape, segments, strict=True)):
                endpoint = verbs.get(scope["method"])
                if endpoint is None:
                    raise MethodNotAllowed(f"{scope['path']} does not support {scope['method']}.", allowed=verbs)
                return endpoint, [
                    _decoded(segment) for part, segment in zip(shape, segments, strict=True) if part is None
                ]
        raise NotFound("This path does not exist.")


class PrefixRouter:
    """Routes each request by the first segment of its path, all others to ``app``."""

    def __init__(self, by_root: Mapping[str, ASGIApp], app: ASGIApp) -> None:
        self._by_root = by_root
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            # partition, not split: "OPTIONS *" has a path without any slash.
            app = self._by_root.get(scope["path"].partition("/")[2].partition("/")[0], app)
            if app is self._app and scope["path"].endswith("\n"):
                # The patterns of Starlette (1.10) end in "$", which also matches before a last line feed.
                await send_error(send, NotFound("This path does not exist."))
                return
        await app(scope, receive, send)


async def _answer(endpoint: Endpoint, call: HttpRequest) -> tuple[int, bytes]:
    return _written(await endpoint.handle(call))


def _written(answer: dict[str, Any]) -> tuple[int, bytes]:
    return 202 if isinstance(answer, Accepted) else 200, dump(answer)


def _without_traceback(error: HoldfastError) -> HoldfastError:
    """Returns the same error without its stack frames.

    The frames refer to the request's data and to this error: both would stay in memory until a garbage collection.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def _decoded(segment: bytes) -> str:
    # Invalid UTF-8 becomes a character that no id may have.
    return unquote_to_bytes(segment).decode("utf-8", "replace")
