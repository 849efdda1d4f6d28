"""The requests of a run over gRPC: those of the actor API as calls of their own, all others as calls by app id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import grpc.aio
from dapr.proto import api_v1, common_v1
from google.protobuf import any_pb2

from holdfast.gateway.error_responses import FAULT
from holdfast.gateway.middleware.body_limits import MAX_ANSWER
from tests.behaviour.security.fuzz.checks import is_allowed
from tests.behaviour.security.fuzz.operations import DAMAGED
from tests.behaviour.security.fuzz.server import MARKERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from google.protobuf.message import Message

    from tests.behaviour.security.fuzz.requests import Request

_SERVICE = "/dapr.proto.runtime.v1.Dapr/"
_ENVELOPE = 64 * 1024
_GARBLED_CHANCE = 0.15
# Of the connection, or a field of the message.
_NO_METADATA = frozenset({"content-encoding", "content-type", "expect"})
_FAULTS = ('"INTERNAL"', '"STORAGE_BROKEN"')


@dataclass(frozen=True)
class GrpcAnswer:
    """The status, metadata and message of a finished call."""

    call: str
    code: str
    details: str
    metadata: Mapping[str, str]
    message: bytes
    #: Whether the message that was sent is not what the request says.
    garbled: bool

    @property
    def status(self) -> int | None:
        """The status of the HTTP answer to a call by app id."""
        status = self.metadata.get("dapr-http-status")
        return None if status is None else int(status)

    def __str__(self) -> str:
        return f"{self.call}: {self.code} {self.details[:500]!r} {self.metadata} {self.message[:1000]!r}"


class GrpcPort:
    """The gRPC port of a server that is fuzzed."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)]
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._channel.close()

    async def send(self, request: Request, chance: Random, seconds: float) -> GrpcAnswer:
        """Sends a request; some messages with a byte or two that are wrong. Raises TimeoutError."""
        name, message = _call_of(request)
        sent = message.SerializeToString()
        garbled = chance.random() < _GARBLED_CHANCE
        if garbled:
            sent = _garbled(sent, chance)
        call = self._channel.unary_unary(f"{_SERVICE}{name}")(sent, metadata=_metadata(request), timeout=seconds)
        try:
            received, code, details = await call, "OK", ""
        except grpc.aio.AioRpcError as error:
            received, code, details = b"", error.code().name, error.details() or ""
        if code == "DEADLINE_EXCEEDED":
            raise TimeoutError
        headers = {str(key): str(value) for key, value in await call.initial_metadata() or ()}
        return GrpcAnswer(name, code, details, headers, received, garbled)


def problems(request: Request, answer: GrpcAnswer) -> Iterator[str]:
    """Yields a sentence for each fault of the answer."""
    status = answer.status or 200
    if status == 503:
        if "retry-after" not in answer.metadata:
            yield "a 503 over gRPC without Retry-After"
    elif status >= 500 or answer.details == FAULT.message:
        yield "a fault over gRPC"
    if DAMAGED not in request.path and any(fault in answer.details for fault in _FAULTS):
        yield "a fault of an actor over gRPC"
    if len(answer.message) > MAX_ANSWER + _ENVELOPE:
        yield f"the answer over gRPC has more than {MAX_ANSWER} bytes"
    seen = answer.message + repr((answer.details, answer.metadata)).encode()
    for tenant, marker in MARKERS.items():
        if tenant not in request.may_see and marker.encode() in seen:
            yield f"the answer over gRPC has a payload of the tenant {tenant}"
    if answer.code == "OK" and not answer.garbled and not is_allowed(request):
        yield f"a caller of the role {request.caller.role} may not do this over gRPC"


def _call_of(request: Request) -> tuple[str, Message]:
    path, _, query = request.path.partition("?")
    parts = path.split("/")
    if parts[1:3] == ["v1.0", "actors"] and len(parts) > 5:
        target = {"actor_type": unquote(parts[3]), "actor_id": unquote(parts[4])}
        name, fields = _actor_call(request, parts[5], unquote("/".join(parts[6:])))
        if name is not None:
            return name, getattr(api_v1, f"{name}Request")(**target, **fields)
    if path == "/v1.0/metadata":
        return "GetMetadata", api_v1.GetMetadataRequest()
    extension = common_v1.HTTPExtension(
        verb=common_v1.HTTPExtension.Verb.Value(request.operation.verb), querystring=query
    )
    message = common_v1.InvokeRequest(
        method=path.removeprefix("/"),
        data=any_pb2.Any(value=request.body or b""),
        content_type=request.headers.get("Content-Type", ""),
        http_extension=extension,
    )
    return "InvokeService", api_v1.InvokeServiceRequest(id="holdfast", message=message)


def _actor_call(request: Request, what: str, name: str) -> tuple[str | None, dict[str, Any]]:
    match what, request.operation.verb:
        case "method", _:
            return "InvokeActor", {"method": name, "data": request.body or b""}
        case "state", "PUT":
            return "ExecuteActorStateTransaction", {"operations": list(_operations(_json(request)))}
        case "state", "GET":
            return "GetActorState", {"key": name}
        case "reminders", "PUT":
            return "RegisterActorReminder", {"name": name, **_times(_json(request))}
        case "reminders", "GET":
            return "GetActorReminder", {"name": name}
        case "reminders", "DELETE":
            return "UnregisterActorReminder", {"name": name}
        case "timers", "PUT":
            return "RegisterActorTimer", {"name": name, **_times(_json(request))}
        case "timers", "DELETE":
            return "UnregisterActorTimer", {"name": name}
    return None, {}


def _json(request: Request) -> Any:
    try:
        return json.loads(request.body or b"null")
    except (ValueError, RecursionError):
        return None


def _operations(body: Any) -> Iterator[Message]:
    for one in body if isinstance(body, list) else ():
        wanted = one.get("request") if isinstance(one, dict) else None
        if isinstance(wanted, dict):
            value = any_pb2.Any(value=json.dumps(wanted.get("value")).encode())
            yield api_v1.TransactionalActorStateOperation(
                operationType=_text(one.get("operation")), key=_text(wanted.get("key")), value=value
            )


def _times(body: Any) -> dict[str, Any]:
    given = body if isinstance(body, dict) else {}
    texts = {"due_time": "dueTime", "period": "period", "ttl": "ttl"}
    return {"data": json.dumps(given).encode()} | {name: _text(given.get(key)) for name, key in texts.items()}


def _text(value: Any) -> str:
    # Protobuf has no lone surrogates.
    return str(value).encode("utf-8", "replace").decode()


def _metadata(request: Request) -> list[tuple[str, str]]:
    return [
        (name.lower(), value)
        for name, value in request.headers.items()
        if name.lower() not in _NO_METADATA and value.isascii() and value.isprintable()
    ]


def _garbled(message: bytes, chance: Random) -> bytes:
    """The message with something wrong near its beginning or anywhere."""
    most = len(message) if chance.random() < 0.5 else min(len(message), 60)
    place = chance.randrange(most + 1)
    match chance.randrange(4):
        case 0:
            return message[:place]
        case 1:
            return message[:place] + bytes([chance.randrange(256)]) + message[place + 1 :]
        case 2:
            return message[:place] + chance.randbytes(3) + message[place:]
        case _:
            return message + chance.choice((b"\x08\x4d", b"\xff" * 12, b"\x0b\x0c", b"\x12\x02\x0a\xff"))
