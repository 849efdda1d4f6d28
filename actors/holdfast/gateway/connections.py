"""Connections whose requests must arrive: with a head of a sensible size, and whole within a time.

uvicorn (0.54) itself waits forever for the rest of a head or a body, and keeps a head of any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.errors import HoldfastError, InvalidRequest, TooLarge, TooSlow
from holdfast.gateway.answers import error_response

if TYPE_CHECKING:
    import asyncio

    from holdfast.gateway.audit import Audit

MAX_HEAD = 32 * 1024
MAX_HEADERS = 100
#: Sizes and extensions of chunks, and what follows the last: kept by nobody, but read.
MAX_FRAMING = 1024 * 1024
_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})


def impatient(seconds: float, log: Audit) -> type[HttpToolsProtocol]:
    """What uvicorn takes as its ``http``: a request gets this long from its first byte to its last."""

    class OfThisServer(ImpatientProtocol):
        arrival_timeout = seconds
        audit = log

    return OfThisServer


class ImpatientProtocol(HttpToolsProtocol):
    arrival_timeout: float
    audit: Audit

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._arriving = False
        self._in_head = False
        # Of the request that is arriving: what came in pieces before, what came now, and how much of it was its body.
        self._received = 0
        self._piece = 0
        self._body = 0
        self._problem: HoldfastError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Clients may open connections ahead of their requests: such a one is like any other that waits for the next.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._piece = len(data)
        super().data_received(data)
        # Hot: a small request arrives in one piece, and its answer is still to come.
        if self._arriving or self.cycle is None or self.cycle.response_complete:
            self._not_whole()
        elif self._deadline is not None:
            self._forget_deadline()

    def on_message_begin(self) -> None:
        self._arriving = self._in_head = True
        self._received = self._body = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.headers) > MAX_HEADERS:
            self._give_up(TooLarge(f"A request may have {MAX_HEADERS} headers at most."))
        if self._received + self._piece > MAX_HEAD and self._size_of_head() > MAX_HEAD:
            self._give_up(_head_too_large())
        upgrade = self.parser.should_upgrade()
        if upgrade and any(name in _BODY_HEADERS and value != b"0" for name, value in self.headers):
            # httptools (0.9) takes the body for the next request: whoever passes it on would not.
            self._give_up(InvalidRequest("No other protocol is spoken here: leave the header Upgrade out."))
        super().on_headers_complete()
        self._in_head = False
        # uvicorn (0.54) puts what follows a chunked body among the headers, before anybody has looked at them.
        self.headers = []
        if upgrade:
            # What follows may be of that protocol.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._arriving = False
        self._forget_deadline()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        # uvicorn's own is plain text.
        self._refuse(self._problem or InvalidRequest("This is not a request in HTTP/1.1."))

    def _not_whole(self) -> None:
        if self.transport.is_closing():
            return
        if self._arriving:
            self._received += self._piece
            if self._in_head and self._received > MAX_HEAD:
                self._refuse(_head_too_large())
                return
            if self._received - self._body > MAX_HEAD + MAX_FRAMING:
                self._refuse(TooLarge("What is sent around the pieces of a body, and after it, is too large."))
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
            # It is us who do not read on; or somebody still waits for the answer to the request before.
            self._await_rest()
            return
        if self._arriving:
            self._refuse(TooSlow(f"A request must arrive whole within {self.arrival_timeout:g} seconds."))
        else:
            # Nothing came but empty lines.
            self.transport.close()

    def _is_running(self) -> bool:
        """Whether an answer is still to come, or is coming."""
        return self.cycle is not None and not self.cycle.response_complete

    def _may_answer(self) -> bool:
        if self._arriving and not self._in_head:
            return not self.cycle.response_started
        # Not in the place of the answer to the request before.
        return not self._is_running()

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _give_up(self, error: HoldfastError) -> NoReturn:
        # The parser has no other way to be stopped; uvicorn then sends what it sends for any broken request.
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
            # Whoever reads the body hears that there is no more, and its own answer goes nowhere.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _head_too_large() -> TooLarge:
    return TooLarge(f"The headers of a request may have {MAX_HEAD // 1024} KiB at most.")
