"""Dapr's actor API over the embedded host, so that any Dapr SDK's actor proxy works against it.

Statuses, codes and messages are those of daprd 1.18; the tests compare them side by side. Ids are checked more
strictly: daprd accepts any id into the keys of its store.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from holdfast.errors import HoldfastError, InvalidRequest, ReminderExists, TooLarge
from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.dapr_api.names import problem_of_method, problem_of_name
from holdfast.gateway.error_responses import FAULT
from holdfast.gateway.middleware.body_limits import MAX_BODY, MAX_CALL, MAX_TEXT_CALL, too_large
from holdfast.gateway.queues.large_pushes import read_push
from holdfast.kinds import (
    IDEMPOTENCY_TYPE,
    INSTANCE_INDEX_TYPE,
    NOTIFIER_TYPE,
    ORCHESTRATION_TYPE,
    QUEUE_INDEX_TYPE,
    QUEUE_TYPE,
    RESCUER_TYPE,
    TENANT_INDEX_TYPE,
)
from holdfast.names import check_actor_id
from holdfast.pushpop.api.replies import refused
from holdfast.runtime.actor_api.errors import error_body
from holdfast.runtime.actor_api.shapes import Malformed
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.in_process.host import SEPARATOR
from holdfast.runtime.in_process.transactions import check_shape, parse_transaction
from holdfast.runtime.serialization import check_depth, check_number_of_containers, dump, load

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.runtime.in_process.host import InProcessHost

log = logging.getLogger(__name__)

#: Methods that need an operator over REST and are written to the audit log there. The others are called once per
#: message or more.
OPERATIONS = {
    QUEUE_TYPE: frozenset({"Requeue", "ExtendByPrefix", "Redrive", "Purge", "SetConfig", "Configure"}),
    ORCHESTRATION_TYPE: frozenset({"Suspend", "Resume", "Delete"}),
}

# Holdfast's own actor types that clients call directly: a refusal is a successful reply, so that no proxy raises.
_ANSWERING_TYPES = frozenset({QUEUE_TYPE, ORCHESTRATION_TYPE, IDEMPOTENCY_TYPE})
_OWN_TYPES = _ANSWERING_TYPES | {QUEUE_INDEX_TYPE, INSTANCE_INDEX_TYPE, TENANT_INDEX_TYPE, RESCUER_TYPE, NOTIFIER_TYPE}

_PREFIX = "/v1.0/actors"
_JSON = "application/json"
_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class _Refused(Exception):
    """An answer other than 2xx, in daprd's wording."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = dump({"errorCode": code, "message": message})


class ActorApi:
    """Middleware that serves the paths below ``/v1.0/actors``.

    It is not a mounted application: Starlette (1.10) does not route paths that contain a line feed.
    """

    def __init__(self, app: ASGIApp, host: InProcessHost, audit: AuditLog) -> None:
        self._app = app
        self._host = host
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not f"{scope['path']}/".startswith(f"{_PREFIX}/"):
            await self._app(scope, receive, send)
            return
        scope["route"] = _PREFIX
        segments: list[str] = []
        try:
            segments = _segments(scope)
            status, body = await self._answer(scope, segments, receive)
        except _Refused as refused:
            status, body = refused.status, refused.body
        except Exception:
            # A bug: callers get an answer in the form of this API, and the log has the reason.
            log.exception("%s %s failed", scope["method"], scope["path"])
            status, body = 500, dump({"errorCode": "ERR_INTERNAL", "message": FAULT.message})
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
                raise _Refused(405, "ERR_METHOD_NOT_ALLOWED", "actor methods are called by POST or PUT, not by GET")
            case [kind, actor, "method", method] if verb in ("POST", "PUT", "DELETE"):
                return await self._invoke(scope, kind, actor, method, receive)
            case [kind, actor, "state"] if verb in ("POST", "PUT"):
                return await self._transact(_address(kind, actor), await _body(receive, MAX_CALL))
            case [kind, actor, "state", key] if verb == "GET":
                return await self._get_state(_address(kind, actor), key)
            case [kind, actor, "reminders", name] if verb in ("GET", "POST", "PUT", "DELETE"):
                return await self._reminder(verb, _address(kind, actor), name, receive)
            case [kind, actor, "timers", name] if verb in ("POST", "PUT", "DELETE"):
                return await self._timer(verb, _address(kind, actor), name, receive)
            case _:
                # daprd's answer: it takes every other path for a call to another app.
                message = "failed getting app id either from the URL path or the header dapr-app-id"
                raise _Refused(404, "ERR_DIRECT_INVOKE", message)

    async def _invoke(self, scope: Scope, kind: str, actor: str, method: str, receive: Receive) -> tuple[int, bytes]:
        for what, value in (("actorType", kind), ("actorId", actor)):
            if problem := problem_of_name(value):
                raise _bad_request(f"invalid {what}: {problem}")
        if problem := problem_of_method(method):
            raise _bad_request(problem)
        body = await _body(receive)
        if kind not in self._host.actor_types:
            raise _invocation_failed(
                "failed to lookup actor: api error: code = FailedPrecondition desc = "
                f"did not find address for actor '{kind}/{actor}'"
            )
        try:
            if len(body) > MAX_CALL and (kind, method) == (QUEUE_TYPE, "Push"):
                body, _ = await read_push(body)
            elif len(body) > (most := _max_call(kind, method)):
                raise too_large(most)
            else:
                if kind in _OWN_TYPES:
                    check_number_of_containers(body)
                check_depth(body)
        except (InvalidRequest, TooLarge) as error:
            if kind in _ANSWERING_TYPES:
                # As the actor itself refuses a call: an answer, so that an actor proxy does not raise.
                return 200, dump(refused(error))
            raise _bad_request(str(error)) from error
        status = 500
        try:
            answer = await self._host.call(ActorAddress(kind, actor), method, body)
            status = 200
        except Exception as error:
            # Any exception of an actor becomes an answer; details that are not for callers go to the log only.
            shown = dump(error_body(error, f"{kind}.{method}")).decode()
            raise _invocation_failed(f"error from actor service: (500) {shown}") from error
        finally:
            for operation in _operations(kind, method, body):
                names = {"type": kind, "id": actor, "method": operation}
                route = f"{_PREFIX}/{{type}}/{{id}}/method/{{method}}"
                self._audit.acted(scope[CALLER], scope["method"], route, names, status)
        return status, answer

    async def _transact(self, address: ActorAddress, body: bytes) -> tuple[int, bytes]:
        try:
            operations = check_shape(_decode(body))
        except Malformed as error:
            raise _malformed(error) from error
        if address.type not in self._host.actor_types or not self._host.is_active(address):
            raise _Refused(400, "ERR_ACTOR_INSTANCE_MISSING", "actor instance is missing")
        try:
            await self._host.save(address, parse_transaction(operations))
        except (ValueError, HoldfastError) as error:
            raise _Refused(
                500, "ERR_ACTOR_STATE_TRANSACTION_SAVE", f"error saving actor transaction state: {error}"
            ) from error
        return 204, b""

    async def _get_state(self, address: ActorAddress, key: str) -> tuple[int, bytes]:
        try:
            found = await self._host.load(address, [key])
        except HoldfastError as error:
            raise _Refused(500, "ERR_ACTOR_STATE_GET", f"error getting actor state: {error}") from error
        return (200, found[key]) if key in found else (204, b"")

    async def _reminder(self, verb: str, address: ActorAddress, name: str, receive: Receive) -> tuple[int, bytes]:
        request = _decode_times(await _body(receive, MAX_CALL)) if verb in ("POST", "PUT") else {}
        _check_name(name)
        if address.type not in self._host.actor_types:
            raise _Refused(
                403,
                "ERR_ACTOR_REMINDER_NON_HOSTED",
                "operations on actor reminders are only possible on hosted actor types",
            )
        try:
            match verb:
                case "GET":
                    return 200, await self._shown(address, name)
                case "DELETE":
                    await self._host.reminders.unregister(address, name)
                case _:
                    await self._host.reminders.register(address, name, request)
        except ReminderExists as error:
            raise _Refused(
                409, "ERR_ACTOR_REMINDER_ALREADY_EXISTS", f"actor reminder already exists: {name}"
            ) from error
        except Malformed as error:
            raise _malformed(error) from error
        except (ValueError, HoldfastError) as error:
            word, doing = {"GET": ("GET", "getting"), "DELETE": ("DELETE", "deleting")}.get(
                verb, ("CREATE", "creating")
            )
            raise _Refused(500, f"ERR_ACTOR_REMINDER_{word}", f"error {doing} actor reminder: {error}") from error
        return 204, b""

    async def _shown(self, address: ActorAddress, name: str) -> bytes:
        found = await self._host.reminders.get(address, name)
        if found is None:
            raise _Refused(404, "ERR_ACTOR_REMINDER_NOT_FOUND", f"actor reminder not found: {name}")
        shown: dict[str, Any] = {"actorID": address.id, "actorType": address.type}
        if found.data:
            shown["data"] = load(found.data)
        shown |= {"dueTime": found.due_time, "period": found.period}
        return dump({key: value for key, value in shown.items() if value != ""})

    async def _timer(self, verb: str, address: ActorAddress, name: str, receive: Receive) -> tuple[int, bytes]:
        request = _decode_times(await _body(receive, MAX_CALL)) if verb in ("POST", "PUT") else {}
        _check_name(name)
        if verb == "DELETE":
            self._host.timers.unregister(address, name)
            return 204, b""
        try:
            if address.type not in self._host.actor_types:
                raise ValueError(
                    f"can't create timer for actor {address.type}{SEPARATOR}{address.id}: actor type not registered"
                )
            self._host.timers.register(address, name, request)
        except ValueError as error:
            raise _Refused(500, "ERR_ACTOR_TIMER_CREATE", f"error creating actor timer: {error}") from error
        return 204, b""


def _segments(scope: Scope) -> list[str]:
    """Returns the path segments after the prefix; none for a path that is not part of this API."""
    # The raw path: an encoded slash belongs to its segment, and the checks refuse it.
    path = scope["raw_path"].partition(b"?")[0]
    if _NO_ESCAPE.search(path):
        raise _bad_request("invalid URL escape")
    raw = path.removesuffix(b"/").split(b"/")[3:]
    if any(part in (b"", b".", b"..") for part in raw):
        return []
    return [unquote_to_bytes(part).decode("utf-8", "replace") for part in raw]


def _max_call(kind: str, method: str) -> int:
    """Returns the largest body of a call. The actors of an app parse theirs themselves."""
    if kind not in _OWN_TYPES:
        return MAX_BODY
    return MAX_TEXT_CALL if (kind, method) == (ORCHESTRATION_TYPE, "Complete") else MAX_CALL


def _operations(kind: str, method: str, body: bytes) -> list[str]:
    """Returns the operator methods that are called, directly or in a batch, without duplicates."""
    known = OPERATIONS.get(kind, frozenset())
    called: list[Any] = [method]
    if known and method == "Batch":
        called = _batched(body)
    return sorted({name for name in called if isinstance(name, str) and name in known})


def _batched(body: bytes) -> list[Any]:
    """Returns the methods of a batch, read as the actors read it."""
    try:
        data = load(body)
    except ValueError:
        return []
    calls = data.get("calls") if isinstance(data, dict) else None
    return [call.get("method") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _address(actor_type: str, actor_id: str) -> ActorAddress:
    try:
        check_actor_id(actor_id)
    except InvalidRequest as error:
        raise _bad_request(f"invalid actorId: {problem_of_name(actor_id) or error}") from error
    return ActorAddress(actor_type, actor_id)


def _check_name(name: str) -> None:
    if problem := problem_of_name(name):
        raise _bad_request(problem)


def _decode(body: bytes) -> Any:
    try:
        check_number_of_containers(body)
        return load(body)
    except (ValueError, TooLarge) as error:
        raise _malformed(error) from error


def _decode_times(body: bytes) -> dict[str, Any]:
    """Parses the body of a reminder or a timer."""
    request = _decode(body)
    if not isinstance(request, dict):
        raise _malformed("the body must be an object")
    for name, kind in (("dueTime", str), ("period", str), ("ttl", str), ("callback", str), ("overwrite", bool)):
        if not isinstance(request.get(name), kind | None):
            raise _malformed(f"{name} has the wrong type")
    return request


def _bad_request(reason: str) -> _Refused:
    return _Refused(400, "ERR_BAD_REQUEST", f"invalid request: {reason}")


def _malformed(reason: object) -> _Refused:
    return _Refused(400, "ERR_MALFORMED_REQUEST", f"failed deserializing HTTP body: {reason}")


def _invocation_failed(reason: str) -> _Refused:
    return _Refused(500, "ERR_ACTOR_INVOKE_METHOD", f"error invoke actor method: {reason}")


async def _body(receive: Receive, most: int = MAX_BODY) -> bytes:
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _bad_request("failed to read body: the caller disconnected")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _bad_request("failed to read body: stream too large")
        if not message.get("more_body"):
            return b"".join(parts)
