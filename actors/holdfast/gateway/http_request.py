"""One HTTP request: path, query and body. Large bodies are read only within the tenant's share of the server."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import BrokenOff, InvalidRequest
from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.bulkhead import Bulkhead
from holdfast.gateway.json_body import check_depth_of, parse, parse_object
from holdfast.gateway.middleware.body_limits import MAX_CALL, too_large
from holdfast.gateway.turnstile import Turnstile
from holdfast.pushpop.api.requests import explain
from holdfast.runtime.serialization import check_lossless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope

    from holdfast.gateway.auth.principal import Caller

MAX_PARAMETERS = 100
#: How many bulky calls of one tenant run at once, and how many more may wait.
BULKY_AT_ONCE = 8
BULKY_WAITING = 256
#: How many bytes of large bodies one tenant may have in memory at once, and how many calls may wait to send theirs.
BODY_BYTES = 64 * 1024 * 1024
BODY_WAITING = 256
#: How many large bodies of one tenant are processed at once: parsed, a body can take thirty times its size in memory.
LARGE_AT_ONCE = 4

# Bodies above this size are large. Even hostile JSON of this size is parsed within a millisecond.
_LARGE = 64 * 1024

Query = TypeVar("Query", bound=BaseModel)


class _NoQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Shares:
    """The limits per tenant that keep one tenant from using up the server."""

    bulky: Bulkhead = field(default_factory=lambda: Bulkhead(BULKY_AT_ONCE, BULKY_WAITING))
    body_bytes: Bulkhead = field(default_factory=lambda: Bulkhead(BODY_BYTES, BODY_WAITING))
    large_bodies: Bulkhead = field(default_factory=lambda: Bulkhead(LARGE_AT_ONCE))
    turnstile: Turnstile = field(default_factory=Turnstile)


class HttpRequest:
    """One request: its path parameters, its query and its body."""

    __slots__ = ("_most", "_receive", "_scope", "_shares", "_taken", "noted", "parameters", "traceparent")

    def __init__(
        self, scope: Scope, receive: Receive, parameters: Sequence[str], shares: Shares, most: int = MAX_CALL
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._shares = shares
        #: The parts of the tenant's shares that this request's large body occupies.
        self._taken: AsyncExitStack | None = None
        self._most = most
        self.parameters = parameters
        #: What the audit log says of an operator's call, in addition to its parameters.
        self.noted: dict[str, str] = {}
        #: The trace context of what this request causes, if there is one.
        self.traceparent: str | None = None

    @property
    def caller(self) -> Caller:
        """The authenticated caller."""
        caller: Caller = self._scope[CALLER]
        return caller

    def traced(self, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the body of a call to an actor with the trace context."""
        return body if self.traceparent is None else body | {"traceparent": self.traceparent}

    def note(self, **words: str) -> None:
        """Adds to what the audit log says of this call."""
        self.noted |= words

    def refuse_query(self) -> None:
        """Raises InvalidRequest if there are query parameters: this call has none, and they would have no effect."""
        if self._scope["query_string"]:
            self.query(_NoQuery)

    def query(self, model: type[Query]) -> Query:
        """Returns the query parsed into this model. Raises InvalidRequest.

        Only parameters in its ``repeatable`` may be given several times.
        """
        try:
            text = self._scope["query_string"].decode("ascii")
            if text.count("&") >= MAX_PARAMETERS:
                raise InvalidRequest(f"A query may have at most {MAX_PARAMETERS} parameters.")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
            repeatable: frozenset[str] = getattr(model, "repeatable", frozenset())
            once = [pair for pair in pairs if pair[0] not in repeatable]
            given: dict[str, Any] = dict(once)
            if len(given) < len(once):
                # A proxy before this server may have checked the other value.
                raise InvalidRequest("A query parameter is given twice: give each one once.")
            for name, value in pairs:
                if name in repeatable:
                    given.setdefault(name, []).append(value)
            return model.model_validate(given)
        except ValidationError as error:
            raise InvalidRequest(explain(error)) from None
        except UnicodeError:
            raise InvalidRequest("The query is not URL-encoded UTF-8.") from None

    async def json_object(self, *, optional: bool = False) -> tuple[bytes, dict[str, Any]]:
        """Returns the body as received and parsed. It must be a JSON object; the content type is ignored."""
        body = await self.body()
        if optional and not body.strip():
            return b"{}", {}
        return body, await self.parsed(body)

    async def parsed(self, body: bytes) -> dict[str, Any]:
        """Returns the body parsed as a JSON object. Raises InvalidRequest."""
        await self._pause_for(body)
        value = parse_object(body)
        await self._pause_for(body)
        check_depth_of(body, value)
        return value

    async def json_value(self) -> Any:
        """Returns the body parsed as any JSON value; an empty body is None. Raises InvalidRequest."""
        body = await self.body()
        await self._pause_for(body)
        value = parse(body) if body.strip() else None
        await self._pause_for(body)
        # Checked here and not only where it is stored: on the way it is nested in other JSON, which would then be too
        # deep to parse.
        check_lossless({"body": value})
        return value

    async def pause(self) -> None:
        """Lets other requests run. Call it before each step that computes for milliseconds."""
        await self._shares.turnstile.wait(self.caller.tenant)

    async def _pause_for(self, body: bytes) -> None:
        if len(body) > _LARGE:
            await self.pause()

    async def disconnected(self) -> None:
        """Returns when the client has disconnected. Call it once, after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def body(self) -> bytes:
        """Returns the body as received. Raises TooLarge and RateLimited.

        A large body is read when the tenant's share has room for it, and returned when it may be processed. The caller
        must :meth:`release` it.
        """
        content_length = self._content_length()
        if content_length > self._most:
            raise too_large(self._most)
        if content_length > _LARGE:
            await self._make_room(content_length)
        body = await self._read()
        if self._taken is not None:
            await self._taken.enter_async_context(self._shares.large_bodies.enter(self.caller.tenant))
        return body

    async def release(self) -> None:
        """Frees the parts of the tenant's shares that a large body occupied."""
        if self._taken is not None:
            await self._taken.aclose()

    async def _make_room(self, size: int) -> None:
        self._taken = AsyncExitStack()
        await self._taken.enter_async_context(self._shares.body_bytes.enter(self.caller.tenant, size))

    def _content_length(self) -> int:
        """Returns the Content-Length, or 0 without one."""
        return next((int(value) for name, value in self._scope["headers"] if name == b"content-length"), 0)

    async def _read(self) -> bytes:
        parts = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BrokenOff
            part = message.get("body", b"")
            size += len(part)
            if size > self._most:
                raise too_large(self._most)
            if size > _LARGE and self._taken is None:
                # No Content-Length: reserve the maximal size.
                await self._make_room(self._most)
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)
