"""Dapr's actor API over the embedded host, so that any Dapr SDK's actor proxy works against it.

Statuses, codes and messages are those of daprd 1.18; the tests compare them side by side. It is stricter in ids: daprd
takes any of them into the keys of its store.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from pydantic_core import from_json

from holdfast.errors import HoldfastError, InvalidRequest, ReminderExists
from holdfast.gateway.actor_names import problem_of_method, problem_of_name
from holdfast.gateway.answers import FAULT
from holdfast.gateway.callers import CALLER
from holdfast.gateway.limits import MAX_BODY
from holdfast.identity import check_actor_id
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.pushpop.interface import ACTOR_TYPE
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.faults import describe
from holdfast.runtime.inprocess import SEPARATOR
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.shapes import Malformed
from holdfast.runtime.transactions import check_shape, parse_transaction

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.audit import Audit
    from holdfast.runtime.inprocess import InProcessHost

log = logging.getLogger(__name__)

#: What is for operators over REST too, and written down there. The other methods are called as often as there are
#: messages.
OPERATIONS = {
    ACTOR_TYPE: frozenset({"Requeue", "ExtendByPrefix", "Redrive", "Purge", "SetConfig", "Configure"}),
    ORCHESTRATION_TYPE: frozenset({"Suspend", "Resume", "Delete"}),
}

_PREFIX = "/v1.0/actors"
_JSON = "application/json"
_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class _Refused(Exception):
    """An answer other than 2xx, as daprd words it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = dump({"errorCode": code, "message": message})


class ActorApi:
    """Middleware that takes what is below ``/v1.0/actors``.

    Not a mounted application: Starlette (1.10) does not find the way there when a path has a line feed in it.
    """

    def __init__(self, app: ASGIApp, host: InProcessHost, audit: Audit) -> None:
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
            # A fault of ours: callers get the form of this API all the same, and the log the reason.
            log.exception("%s %s failed", scope["method"], scope["path"])
            status, body = 500, dump({"errorCode": "ERR_INTERNAL", "message": FAULT.message})
        self._tell(scope, segments, status)
        headers = [(b"content-type", _JSON.encode())] if body else []
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _tell(self, scope: Scope, segments: list[str], status: int) -> None:
        """Of what goes past the actors' own code."""
        match scope["method"], segments:
            case "POST" | "PUT" | "DELETE" as verb, [kind, actor, "state" | "reminders" | "timers" as what, *_]:
                names = {"type": kind, "id": actor}
                self._audit.acted(scope[CALLER], verb, f"{_PREFIX}/{{type}}/{{id}}/{what}", names, status)

    async def _answer(self, scope: Scope, segments: list[str], receive: Receive) -> tuple[int, bytes]:
        verb: str = scope["method"]
        match segments:
            case [kind, actor, "method", method] if verb in ("GET", "POST", "PUT", "DELETE"):
                return await self._invoke(scope, kind, actor, method, receive)
            case [kind, actor, "state"] if verb in ("POST", "PUT"):
                return await self._transact(_address(kind, actor), await _body(receive))
            case [kind, actor, "state", key] if verb == "GET":
                return await self._get_state(_address(kind, actor), key)
            case [kind, actor, "reminders", name] if verb in ("GET", "POST", "PUT", "DELETE"):
                return await self._reminder(verb, _address(kind, actor), name, receive)
            case [kind, actor, "timers", name] if verb in ("POST", "PUT", "DELETE"):
                return await self._timer(verb, _address(kind, actor), name, receive)
            case _:
                # So daprd says, to which every other path is a call to another app.
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
        status = 500
        try:
            answer = await self._host.call(ActorAddress(kind, actor), method, body)
            status = 200
        except Exception as error:
            # All that an actor raised becomes an answer; what is not meant for callers stays in the log.
            told = dump(describe(error, f"{kind}.{method}")).decode()
            raise _invocation_failed(f"error from actor service: (500) {told}") from error
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
        request = _decode_times(await _body(receive)) if verb in ("POST", "PUT") else {}
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
        request = _decode_times(await _body(receive)) if verb in ("POST", "PUT") else {}
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
    """What follows the prefix; nothing when that is not a path of this API."""
    # The raw path: an encoded slash belongs to its segment, and is for the checks to refuse.
    path = scope["raw_path"].partition(b"?")[0]
    if _NO_ESCAPE.search(path):
        raise _bad_request("invalid URL escape")
    raw = path.removesuffix(b"/").split(b"/")[3:]
    if any(part in (b"", b".", b"..") for part in raw):
        return []
    return [unquote_to_bytes(part).decode("utf-8", "replace") for part in raw]


def _operations(kind: str, method: str, body: bytes) -> list[str]:
    """Which of an operator's methods are called, by themselves or in a batch; each once."""
    known = OPERATIONS.get(kind, frozenset())
    called: list[Any] = [method]
    if known and method == "Batch":
        called = _batched(body)
    return sorted({name for name in called if isinstance(name, str) and name in known})


def _batched(body: bytes) -> list[Any]:
    """As the actors themselves look at it."""
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
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise _malformed(error) from error


def _decode_times(body: bytes) -> dict[str, Any]:
    """The body of a reminder or a timer."""
    request = _decode(body)
    if not isinstance(request, dict):
        raise _malformed("this is not an object")
    for name, kind in (("dueTime", str), ("period", str), ("ttl", str), ("callback", str), ("overwrite", bool)):
        if not isinstance(request.get(name), kind | None):
            raise _malformed(f"{name} is not of the right type")
    return request


def _bad_request(reason: str) -> _Refused:
    return _Refused(400, "ERR_BAD_REQUEST", f"invalid request: {reason}")


def _malformed(reason: object) -> _Refused:
    return _Refused(400, "ERR_MALFORMED_REQUEST", f"failed deserializing HTTP body: {reason}")


def _invocation_failed(reason: str) -> _Refused:
    return _Refused(500, "ERR_ACTOR_INVOKE_METHOD", f"error invoke actor method: {reason}")


async def _body(receive: Receive) -> bytes:
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _bad_request("failed to read body: the caller went away")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise _bad_request("failed to read body: stream too large")
        if not message.get("more_body"):
            return b"".join(parts)
