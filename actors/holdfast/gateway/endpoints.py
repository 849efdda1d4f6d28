"""REST calls without a framework between the socket and the actor.

FastAPI costs more than all the rest of a push together. What is called often goes through this instead: a path, a
handler, and what ``/openapi.json`` says of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from pydantic import BaseModel, ValidationError

from holdfast.errors import BrokenOff, Forbidden, HoldfastError, InvalidRequest, MethodNotAllowed, NotFound, TooLarge
from holdfast.gateway.answers import FAULT, send_error
from holdfast.gateway.bodies import parse, parse_object
from holdfast.gateway.callers import CALLER, Role
from holdfast.gateway.limits import MAX_BODY, too_large
from holdfast.pushpop.requests import explain
from holdfast.runtime.serialization import check_lossless, dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.audit import Audit
    from holdfast.gateway.callers import Caller

log = logging.getLogger(__name__)

# Told of in the log: nobody sends these by and by, as one polls for what is not there yet.
_REFUSALS = (Forbidden, InvalidRequest, TooLarge)

Query = TypeVar("Query", bound=BaseModel)


class Accepted(dict[str, Any]):
    """An answer with status 202: it was taken, and goes on."""


class Call:
    """One request: what its path, its query and its body say."""

    __slots__ = ("_receive", "_scope", "parameters")

    def __init__(self, scope: Scope, receive: Receive, parameters: Sequence[str]) -> None:
        self._scope = scope
        self._receive = receive
        self.parameters = parameters

    @property
    def caller(self) -> Caller:
        """Who asks."""
        caller: Caller = self._scope[CALLER]
        return caller

    def query(self, model: type[Query]) -> Query:
        """The query as this model has it. Raises InvalidRequest."""
        try:
            text = self._scope["query_string"].decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
            given = dict(pairs)
            if len(given) < len(pairs):
                # Whoever stands before this server may have looked at the other one.
                raise InvalidRequest("The query says something twice.")
            return model.model_validate(given)
        except ValidationError as error:
            raise InvalidRequest(explain(error)) from None
        except UnicodeError:
            raise InvalidRequest("The query is not URL-encoded UTF-8.") from None

    async def json_object(self, *, optional: bool = False) -> tuple[bytes, dict[str, Any]]:
        """The body as it came, which is a JSON object whatever its content type says, and what it says."""
        body = await self._body()
        if optional and not body.strip():
            return b"{}", {}
        return body, parse_object(body)

    async def json_value(self) -> Any:
        """What the body says, whatever JSON it is; nothing is null."""
        body = await self._body()
        value = parse(body) if body.strip() else None
        # Here, not only where it is kept: on its way there it is inside something else, and too deep to be read.
        check_lossless({"body": value})
        return value

    async def gone(self) -> None:
        """Returns when the caller has gone away. To be called once, after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _body(self) -> bytes:
        parts = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BrokenOff
            part = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY:
                raise too_large()
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True)
class Endpoint:
    """``{name}`` in the path is one segment, handed to the handler decoded."""

    verb: str
    path: str
    handle: Callable[[Call], Awaitable[dict[str, Any]]]
    document: dict[str, Any]
    #: What a caller must be.
    role: Role

    @property
    def names(self) -> list[str]:
        """What stands in the path for what."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class Endpoints:
    """An ASGI application for the paths it knows."""

    def __init__(self, endpoints: Sequence[Endpoint], audit: Audit) -> None:
        self.all = endpoints
        self._audit = audit
        #: The first segment of every path, by which a server tells these from others.
        self.roots = frozenset(endpoint.path.split("/")[1] for endpoint in endpoints)
        shapes: dict[tuple[bytes | None, ...], dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            shape = tuple(None if part.startswith("{") else part.encode() for part in endpoint.path.split("/")[1:])
            shapes.setdefault(shape, {})[endpoint.verb] = endpoint
        #: By the first segment, which all have, and by how many there are.
        self._shapes: dict[tuple[bytes | None, int], list[tuple[tuple[bytes | None, ...], dict[str, Endpoint]]]] = {}
        for shape, verbs in shapes.items():
            self._shapes.setdefault((shape[0], len(shape)), []).append((shape, verbs))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            endpoint, parameters = self._find(scope)
        except HoldfastError as error:
            await send_error(send, error)
            return
        scope["route"] = endpoint.path
        call = Call(scope, receive, parameters)
        refusal: HoldfastError | None = None
        # Has a line of its own, however it ends.
        acts = endpoint.role is Role.OPERATOR
        try:
            call.caller.must_be(endpoint.role)
            answer = await endpoint.handle(call)
            body = dump(answer)
            status = 202 if isinstance(answer, Accepted) else 200
        except HoldfastError as error:
            refusal, status = error, error.status
            if status >= 500:
                log.warning("%s %s: %s", scope["method"], scope["path"], error)
            elif isinstance(error, Forbidden) or (
                isinstance(error, _REFUSALS) and not acts and not isinstance(error, BrokenOff)
            ):
                self._audit.refused(scope, error, told=isinstance(error, Forbidden))
        except Exception:
            refusal, status = FAULT, FAULT.status
            log.exception("%s %s failed", scope["method"], scope["path"])
        if acts and status != Forbidden.status:
            names = dict(zip(endpoint.names, parameters, strict=True))
            self._audit.acted(call.caller, endpoint.verb, endpoint.path, names, status)
        if refusal is not None:
            await send_error(send, refusal)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _find(self, scope: Scope) -> tuple[Endpoint, list[str]]:
        # The raw path: an encoded slash belongs to its segment, and is for the handler to refuse.
        segments = scope["raw_path"].split(b"/")[1:]
        for shape, verbs in self._shapes.get((segments[0] if segments else b"", len(segments)), ()):
            if all(part is None or part == segment for part, segment in zip(shape, segments, strict=True)):
                endpoint = verbs.get(scope["method"])
                if endpoint is None:
                    raise MethodNotAllowed(f"{scope['path']} does not take {scope['method']}.", allowed=verbs)
                return endpoint, [
                    _decoded(segment) for part, segment in zip(shape, segments, strict=True) if part is None
                ]
        raise NotFound("There is nothing at this path.")


class Front:
    """Sends each request to the one that takes the first segment of its path, and the others on."""

    def __init__(self, by_root: Mapping[str, ASGIApp], app: ASGIApp) -> None:
        self._by_root = by_root
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            # By hand: "OPTIONS *" has a path without any slash.
            app = self._by_root.get(scope["path"].partition("/")[2].partition("/")[0], app)
        await app(scope, receive, send)


def _decoded(segment: bytes) -> str:
    # What is not UTF-8 becomes a character that no id may have.
    return unquote_to_bytes(segment).decode("utf-8", "replace")
