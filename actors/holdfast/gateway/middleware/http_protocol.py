"""The HTTP protocol with deadlines and size limits: for receiving requests, for their heads, and for sending answers.

uvicorn (0.54) itself waits forever for the rest of a head or a body, keeps a head of any size, and buffers answers that
are not read without limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.errors import HoldfastError, HostStopping, InvalidRequest, TooLarge, TooSlow
from holdfast.gateway.auth.principal import ANONYMOUS, CALLER
from holdfast.gateway.error_responses import error_response
from holdfast.gateway.middleware.http2_hint import PREFACE, Http2Hint, Http2Refusal
from holdfast.gateway.middleware.write_buffers import WriteBuffers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.auth.principal import Caller

MAX_HEAD = 32 * 1024
MAX_HEADERS = 100
#: The limit for chunk headers and trailers. They are not stored, but parsed.
MAX_FRAMING = 1024 * 1024
#: How long an incomplete request may take to arrive once the server is stopping.
STOP_SECONDS = 1.0
#: How long a connection of a client that speaks HTTP/2 may last. It has its answer at once.
HTTP2_SECONDS = 5.0
# Of the preface: the first line, which a request could not have.
_ENOUGH = 16
_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})


def with_deadlines(seconds: float, log: AuditLog, where_grpc_is: Callable[[], str]) -> type[DeadlineProtocol]:
    """Returns the protocol class for uvicorn's ``http``: a request must arrive within ``seconds`` of its first byte.

    ``where_grpc_is`` returns a sentence for clients that speak HTTP/2.
    """

    class OfThisServer(DeadlineProtocol):
        arrival_timeout = seconds
        audit = log
        http2 = Http2Hint(where_grpc_is)
        buffers = WriteBuffers()

    return OfThisServer


class DeadlineProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines and limits."""

    arrival_timeout: float
    audit: AuditLog
    buffers: WriteBuffers
    http2: Http2Hint
    stopping = False

    @classmethod
    def begin_stop(cls, connections: Iterable[Any]) -> None:
        """Shortens the deadline of incomplete requests to ``STOP_SECONDS``, as the server is stopping."""
        cls.stopping = True
        cls.arrival_timeout = min(cls.arrival_timeout, STOP_SECONDS)
        for connection in connections:
            if isinstance(connection, cls) and connection._deadline is not None:
                connection._forget_deadline()
                connection._await_rest()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        # Whether nothing was received yet.
        self._fresh = True
        self._http2: Http2Refusal | None = None
        self._arriving = False
        self._in_head = False
        # Bytes of the request that is arriving: received before, received now, and how many of them are its body.
        self._received = 0
        self._piece = 0
        self._body = 0
        self._problem: HoldfastError | None = None
        #: The cycle of the request that is being answered; uvicorn's ``cycle`` is that of the last one that arrived.
        self._answering: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Clients may open connections ahead of their requests: such a connection counts as idle.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        self.buffers.discard(self)
        self._discard_answer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._fresh:
            self._fresh = False
            if data.startswith(PREFACE[:_ENOUGH]):
                self._refuse_http2(data)
                return
        elif self._http2 is not None:
            self._reply_to_http2(data)
            return
        self._piece = len(data)
        super().data_received(data)
        # Hot path: a small request arrives in one piece, and its answer is still to come.
        if self._arriving or self.cycle is None or self.cycle.response_complete:
            self._check_incomplete()
        elif self._deadline is not None:
            self._forget_deadline()

    def on_message_begin(self) -> None:
        self._arriving = self._in_head = True
        self._received = self._body = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.headers) > MAX_HEADERS:
            self._give_up(TooLarge(f"A request may have at most {MAX_HEADERS} headers."))
        if self._received + self._piece > MAX_HEAD and self._size_of_head() > MAX_HEAD:
            self._give_up(_head_too_large())
        if problem := _ambiguity(self.parser.get_http_version(), self.headers):
            self._give_up(InvalidRequest(problem))
        upgrade = self.parser.should_upgrade()
        if upgrade and any(name in _BODY_HEADERS and value != b"0" for name, value in self.headers):
            # httptools (0.9) takes the body for the next request, while a proxy before this server would not.
            self._give_up(InvalidRequest("Protocol upgrades are not supported: leave out the header Upgrade."))
        super().on_headers_complete()
        self._in_head = False
        # uvicorn (0.54) appends the trailers of a chunked body to the headers, before the application has read them.
        self.headers = []
        if upgrade:
            # The bytes that follow may belong to that protocol.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._arriving = False
        self._forget_deadline()
        super().on_message_complete()

    # Answers that the client does not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self.buffers.add(self)

    def resume_writing(self) -> None:
        self.buffers.discard(self)
        super().resume_writing()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        # While writing is paused, the answer would only wait in memory behind another one: start the request later.
        super()._start_asgi_task(cycle, self._when_read(cycle, app) if self.flow.write_paused else app)

    def _when_read(self, cycle: Any, app: ASGIApp) -> Any:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            await self.flow.drain()
            if self.transport.is_closing():
                cycle.disconnected = True
            else:
                await app(scope, receive, send)

        return run

    def _discard_answer(self) -> None:
        """Discards the rest of the answer: uvloop treats a write to a closed connection as an error."""
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    @property
    def unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    @property
    def tenant(self) -> str:
        scope: Any = {} if self.cycle is None else self.cycle.scope
        caller: Caller = scope.get(CALLER, ANONYMOUS)
        return caller.tenant

    def break_off(self, reason: str) -> None:
        scope: Any = {"client": self.client} if self.cycle is None else self.cycle.scope
        self.audit.refused(scope, TooSlow(f"The answer was not read in time and was dropped: {reason}."))
        self._discard_answer()
        self.transport.abort()

    # Refused requests

    def _refuse_http2(self, data: bytes) -> None:
        self._http2 = self.http2.connect(self.client[0] if self.client else "a Unix socket")
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(HTTP2_SECONDS, self.timeout_keep_alive_handler)
        self._reply_to_http2(data)

    def _reply_to_http2(self, data: bytes) -> None:
        assert self._http2 is not None
        if self.transport.is_closing():
            return
        try:
            self.transport.write(self._http2.receive(data))
        except ValueError:
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        # uvicorn's version sends plain text.
        self._refuse(self._problem or InvalidRequest("This is not a valid HTTP/1.1 request."))

    def _check_incomplete(self) -> None:
        if self.transport.is_closing():
            return
        if self._arriving:
            self._received += self._piece
            if self._in_head and self._received > MAX_HEAD:
                self._refuse(_head_too_large())
                return
            if self._received - self._body > MAX_HEAD + MAX_FRAMING:
                self._refuse(TooLarge("The chunk headers and trailers of this request are too large."))
                return
        if self._deadline is None:
            self._await_rest()

    def _await_rest(self) -> None:
        self._deadline = self.loop.call_later(self.arrival_timeout, self._too_slow)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused or (self._in_head and self._is_running()):
            # The server itself has paused reading, or the client still waits for the answer to the previous request.
            self._await_rest()
            return
        if self._arriving and self.stopping:
            self._refuse(HostStopping("The server is stopping and does not wait for the rest of this request."))
        elif self._arriving:
            self._refuse(TooSlow(f"A request must arrive completely within {self.arrival_timeout:g} seconds."))
        else:
            # Only empty lines arrived.
            self.transport.close()

    def _is_running(self) -> bool:
        """Returns whether a request has no complete answer yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _may_answer(self) -> bool:
        if self._arriving and not self._in_head:
            return not self.cycle.response_started
        # An error must not take the place of the answer to the previous request.
        return not self._is_running()

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _give_up(self, error: HoldfastError) -> NoReturn:
        # Raising is the only way to stop the parser; uvicorn then calls send_400_response.
        self._problem = error
        raise error

    def _refuse(self, error: HoldfastError) -> None:
        self.audit.refused_connection(self.client[0] if self.client else "a Unix socket", error, str(error))
        if self._may_answer():
            response = error_response(error)
            headers = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
            head = STATUS_LINE[error.status] + headers + b"connection: close\r\n\r\n"
            self.transport.write(head + bytes(response.body))
        if self._is_running():
            # The handler that reads the body sees a disconnect, and its answer is discarded.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _ambiguity(version: str, headers: list[tuple[bytes, bytes]]) -> str | None:
    """Returns why proxies may interpret this head differently, or None."""
    named = False
    for name, value in headers:
        if name == b"host":
            named = True
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version != "1.1"):
            # The parser (llhttp 9) decodes the chunks only, and passes on the rest as if it were the body.
            return "The only supported Transfer-Encoding is chunked, in HTTP/1.1."
    if version == "1.1":
        return None if named else "A request in HTTP/1.1 needs the header Host."
    return None if version == "1.0" else "This server supports HTTP/1.1 and HTTP/1.0."


def _head_too_large() -> TooLarge:
    return TooLarge(f"The headers of a request may have at most {MAX_HEAD // 1024} KiB.")
