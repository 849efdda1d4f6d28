"""Dapr's actor API over HTTP on the embedded host, so that actor proxies of Dapr's SDKs work against it."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.dapr_api.api_errors import ApiError, bad_request, fault, no_app_id
from holdfast.gateway.dapr_api.bodies import read_body
from holdfast.gateway.dapr_api.operations import ActorOperations, check_actor, decode, decode_times
from holdfast.gateway.middleware.access import INVOKED
from holdfast.gateway.middleware.body_limits import MAX_CALL
from holdfast.runtime.arguments import without_nothing
from holdfast.runtime.serialization import dump, load
from holdfast.tracing.spans import incoming
from holdfast.tracing.traceparent import in_headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.runtime.in_process.host import InProcessHost
    from holdfast.runtime.in_process.storage import Reminder

log = logging.getLogger(__name__)

_PREFIX = "/v1.0/actors"
_METHOD_ROUTE = f"{_PREFIX}/{{type}}/{{id}}/method/{{method}}"
_JSON = "application/json"
_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class ActorApi:
    """Middleware that serves the paths below ``/v1.0/actors``.

    It is not a mounted application: Starlette (1.10) does not route paths that contain a line feed.
    """

    def __init__(self, app: ASGIApp, host: InProcessHost, audit: AuditLog) -> None:
        self._app = app
        self._actors = ActorOperations(host, audit)
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not f"{scope['path']}/".startswith(f"{_PREFIX}/") or INVOKED in scope:
            await self._app(scope, receive, send)
            return
        scope["route"] = _PREFIX
        segments: list[str] = []
        try:
            segments = _segments(scope)
            status, body = await self._answer(scope, segments, receive)
        except ApiError as error:
            status, body = error.status, error.body
        except Exception:
            # A bug: callers get an answer in the form of this API, and the log has the reason.
            log.exception("%s %s failed", scope["method"], scope["path"])
            status, body = 500, fault().body
        self._log_change(scope, segments, status)
        headers = [(b"content-type", _JSON.encode())] if body else []
        headers.append((b"content-length", str(len(body)).encode()))
        if status == 405:
            headers.append((b"allow", b"POST, PUT, DELETE"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _log_change(self, scope: Scope, segments: list[str], status: int) -> None:
        """Writes changes of state, reminders and timers to the audit log, as they bypass the actors' code."""
        match scope["method"], segments:
            case "POST" | "PUT" | "DELETE" as verb, [kind, actor, "state" | "reminders" | "timers" as what, *_]:
                names = {"type": kind, "id": actor}
                self._audit.acted(scope[CALLER], verb, f"{_PREFIX}/{{type}}/{{id}}/{what}", names, status)

    async def _answer(self, scope: Scope, segments: list[str], receive: Receive) -> tuple[int, bytes]:
        verb: str = scope["method"]
        match segments:
            case [_, _, "method", _] if verb == "GET":
                # daprd accepts it. But a browser sends a GET for an image on any page, over plain HTTP without naming
                # that page, so a GET must not change anything. SDKs call methods by POST or PUT.
                message = "actor methods are called by POST or PUT, not by GET"
                raise ApiError(405, "ERR_METHOD_NOT_ALLOWED", message, "UNIMPLEMENTED")
            case [kind, actor, "method", method] if verb in ("POST", "PUT", "DELETE"):
                body = await read_body(receive)
                incoming.set(in_headers(scope["headers"]))
                answer = await self._actors.invoke(scope[CALLER], verb, _METHOD_ROUTE, (kind, actor, method), body)
                return 200, without_nothing(answer, plain=not body and not _has_content_type(scope))
            case [kind, actor, "state"] if verb in ("POST", "PUT"):
                check_actor(kind, actor)
                await self._actors.transact(kind, actor, decode(await read_body(receive, MAX_CALL)))
                return 204, b""
            case [kind, actor, "state", key] if verb == "GET":
                check_actor(kind, actor)
                value = await self._actors.get_state(kind, actor, key)
                return (200, value) if value else (204, b"")
            case [kind, actor, "reminders", name] if verb in ("GET", "POST", "PUT", "DELETE"):
                check_actor(kind, actor)
                return await self._reminder(verb, (kind, actor, name), receive)
            case [kind, actor, "timers", name] if verb in ("POST", "PUT", "DELETE"):
                check_actor(kind, actor)
                return await self._timer(verb, (kind, actor, name), receive)
            case _:
                raise no_app_id()

    async def _reminder(self, verb: str, target: tuple[str, str, str], receive: Receive) -> tuple[int, bytes]:
        match verb:
            case "GET":
                return 200, _shown(await self._actors.get_reminder(*target))
            case "DELETE":
                await self._actors.unregister_reminder(*target)
            case _:
                request = decode_times(await read_body(receive, MAX_CALL))
                await self._actors.register_reminder(*target, request)
        return 204, b""

    async def _timer(self, verb: str, target: tuple[str, str, str], receive: Receive) -> tuple[int, bytes]:
        if verb == "DELETE":
            self._actors.unregister_timer(*target)
        else:
            self._actors.register_timer(*target, decode_times(await read_body(receive, MAX_CALL)))
        return 204, b""


def _has_content_type(scope: Scope) -> bool:
    return any(name == b"content-type" for name, _ in scope["headers"])


def _shown(reminder: Reminder) -> bytes:
    shown: dict[str, Any] = {"actorID": reminder.address.id, "actorType": reminder.address.type}
    if reminder.data:
        shown["data"] = load(reminder.data)
    shown |= {"dueTime": reminder.due_time, "period": reminder.period}
    return dump({key: value for key, value in shown.items() if value != ""})


def _segments(scope: Scope) -> list[str]:
    """Returns the path segments after the prefix; none for a path that is not part of this API."""
    # The raw path: an encoded slash belongs to its segment, and the checks refuse it.
    path = scope["raw_path"].partition(b"?")[0]
    if _NO_ESCAPE.search(path):
        raise bad_request("invalid URL escape")
    raw = path.removesuffix(b"/").split(b"/")[3:]
    if any(part in (b"", b".", b"..") for part in raw):
        return []
    return [unquote_to_bytes(part).decode("utf-8", "replace") for part in raw]
