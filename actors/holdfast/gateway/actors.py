"""Dapr's actor API over the embedded host, so that any Dapr SDK's actor proxy works against it.

Statuses, codes and messages are those of daprd 1.18; the tests compare them side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from pydantic_core import from_json

from holdfast.errors import HoldfastError
from holdfast.runtime.faults import describe
from holdfast.runtime.inprocess import SEPARATOR
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.transactions import parse_transaction
from holdfast.runtime.turns import ActorAddress

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from holdfast.runtime.inprocess import InProcessHost

_JSON = "application/json"


class _Refused(Exception):
    """An answer other than 2xx, as daprd words it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = dump({"errorCode": code, "message": message})


class ActorApi:
    """An ASGI application, to be mounted at ``/v1.0/actors``."""

    def __init__(self, host: InProcessHost) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, body = await self._answer(scope, receive)
        except _Refused as refused:
            status, body = refused.status, refused.body
        headers = [(b"content-type", _JSON.encode())] if body else []
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        # The raw path: an encoded slash belongs to its segment, and is for the check below to refuse.
        path = scope["raw_path"].partition(b"?")[0]
        segments = [unquote_to_bytes(part).decode("utf-8", "replace") for part in path.split(b"/")[3:]]
        verb: str = scope["method"]
        match segments:
            case [kind, actor, "method", method] if verb in ("GET", "POST", "PUT", "DELETE"):
                return await self._invoke(_address(kind, actor), method, await _body(receive))
            case [kind, actor, "state"] if verb in ("POST", "PUT"):
                return await self._transact(_address(kind, actor), await _body(receive))
            case [kind, actor, "state", key] if verb == "GET":
                return await self._get_state(_address(kind, actor), key)
            case [kind, actor, "reminders", name] if verb in ("GET", "POST", "PUT", "DELETE"):
                return await self._reminder(verb, _address(kind, actor), name, receive)
            case [kind, actor, "timers", name] if verb in ("POST", "PUT", "DELETE"):
                return await self._timer(verb, _address(kind, actor), name, receive)
            case [_, _, "method" | "reminders" | "timers", _] | [_, _, "state"] | [_, _, "state", _]:
                return 405, b""
            case _:
                return 404, b""

    async def _invoke(self, address: ActorAddress, method: str, body: bytes) -> tuple[int, bytes]:
        if any(character in "#?\0" or character < " " or character == "\x7f" for character in method):
            raise _Refused(400, "ERR_BAD_REQUEST", f"invalid request: method contains forbidden character: {method!r}")
        if address.type not in self._host.actor_types:
            raise _Refused(
                404,
                "ERR_ACTOR_NO_ADDRESS",
                f"did not find address for actor '{address.type}{SEPARATOR}{address.id}'",
            )
        try:
            return 200, await self._host.call(address, method, body)
        except Exception as error:
            # All that an actor raised becomes an answer; what is not meant for callers stays in the log.
            told = describe(error, f"{address.type}.{method}")
            raise _Refused(
                500,
                "ERR_ACTOR_INVOKE_METHOD",
                f"error invoke actor method: error from actor service: (500) {dump(told).decode()}",
            ) from error

    async def _transact(self, address: ActorAddress, body: bytes) -> tuple[int, bytes]:
        operations = _decode(body)
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
        request = _decode_object(await _body(receive)) if verb in ("POST", "PUT") else {}
        _check_name(name)
        if address.type not in self._host.actor_types:
            raise _Refused(
                403,
                "ERR_ACTOR_REMINDER_NON_HOSTED",
                "operations on actor reminders are only possible on hosted actor types",
            )
        reminders = self._host.reminders
        try:
            match verb:
                case "GET":
                    found = await reminders.get(address, name)
                    if found is None:
                        raise _Refused(404, "ERR_ACTOR_REMINDER_NOT_FOUND", f"actor reminder not found: {name}")
                    shown: dict[str, Any] = {"actorID": address.id, "actorType": address.type}
                    if found.data:
                        shown["data"] = load(found.data)
                    shown |= {"dueTime": found.due_time, "period": found.period}
                    return 200, dump({key: value for key, value in shown.items() if value != ""})
                case "DELETE":
                    await reminders.unregister(address, name)
                case _:
                    await reminders.register(address, name, request)
        except (TypeError, ValueError, HoldfastError) as error:
            word = {"GET": "GET", "DELETE": "DELETE"}.get(verb, "CREATE")
            doing = {"GET": "getting", "DELETE": "deleting"}.get(verb, "creating")
            raise _Refused(500, f"ERR_ACTOR_REMINDER_{word}", f"error {doing} actor reminder: {error}") from error
        return 204, b""

    async def _timer(self, verb: str, address: ActorAddress, name: str, receive: Receive) -> tuple[int, bytes]:
        request = _decode_object(await _body(receive)) if verb in ("POST", "PUT") else {}
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
        except (TypeError, ValueError) as error:
            raise _Refused(500, "ERR_ACTOR_TIMER_CREATE", f"error creating actor timer: {error}") from error
        return 204, b""


def _address(actor_type: str, actor_id: str) -> ActorAddress:
    for what, value in (("actorType", actor_type), ("actorId", actor_id)):
        if problem := _problem(value):
            raise _Refused(400, "ERR_BAD_REQUEST", f"invalid request: invalid {what}: {problem}")
    return ActorAddress(actor_type, actor_id)


def _check_name(name: str) -> None:
    if problem := _problem(name):
        raise _Refused(400, "ERR_BAD_REQUEST", f"invalid request: {problem}")


def _problem(name: str) -> str:
    quoted = dump(name).decode()
    if any(character in "#?\0/\\" for character in name):
        return f"name contains forbidden character: {quoted}"
    for position, character in enumerate(name):
        if character < " " or character == "\x7f":
            return f"name contains control character at position {position}: {quoted}"
    if name in (".", ".."):
        return f"name is a path traversal sequence: {quoted}"
    if SEPARATOR in name:
        # daprd lets this through, into keys that then say something else.
        return f"name contains forbidden character: {quoted}"
    return ""


def _decode(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise _Refused(400, "ERR_MALFORMED_REQUEST", f"failed deserializing HTTP body: {error}") from error


def _decode_object(body: bytes) -> dict[str, Any]:
    value = _decode(body)
    if not isinstance(value, dict):
        raise _Refused(400, "ERR_MALFORMED_REQUEST", "failed deserializing HTTP body: not an object")
    return value


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "ERR_BAD_REQUEST", "invalid request: failed to read body: the caller went away")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
