"""Answers clients that speak HTTP/2 to the HTTP/1.1 port: mostly gRPC clients with a wrong port.

Each call gets the answer of a gRPC server that does not know the method, with a sentence that says where gRPC is. Less
than that does not reach the caller: gRPC clients repeat a call whose connection ends, for ever.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from holdfast.runtime.rate_limit import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

#: What every HTTP/2 connection begins with.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_LOGGED_PER_SECOND = 1 / 60
_HEAD = 9
_HEADERS, _SETTINGS, _PING = 1, 4, 6
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_UNIMPLEMENTED = "12"
# Entries of HPACK's static table.
_STATUS_200 = b"\x88"
_CONTENT_TYPE = 31


class _Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


class Http2Hint:
    """Makes the answers to HTTP/2 connections, and logs them once a minute.

    ``where_grpc_is`` returns the part of the sentence that says where gRPC is served.
    """

    def __init__(self, where_grpc_is: Callable[[], str]) -> None:
        self._where_grpc_is = where_grpc_is
        self._logged = RateLimiter()

    def connect(self, client: str) -> Http2Refusal:
        """Returns the other side of a new connection."""
        sentence = f"This port speaks HTTP/1.1. {self._where_grpc_is()}"
        if not self._logged.take("", _LOGGED_PER_SECOND, time.monotonic()):
            log.warning("%s spoke HTTP/2, as gRPC clients do. %s", client, sentence)
        return Http2Refusal(sentence)


class Http2Refusal:
    """One HTTP/2 connection on which every call is refused."""

    def __init__(self, sentence: str) -> None:
        # As gRPC writes it: percent-encoded.
        self._headers = (
            _STATUS_200
            + _literal(_CONTENT_TYPE, "application/grpc")
            + _literal("grpc-status", _UNIMPLEMENTED)
            + _literal("grpc-message", quote(sentence, safe=" !\"#$&'()*+,/:;<=>?@[]^`{|}"))
        )
        self._unread = b""
        self._skip = 0
        self._began = self._greeted = False

    def receive(self, data: bytes) -> bytes:
        """Returns the bytes to send in reply to these. Raises ValueError when they are not HTTP/2 after all."""
        self._unread += data
        if not self._began:
            if not PREFACE.startswith(self._unread[: len(PREFACE)]):
                raise ValueError("not an HTTP/2 preface")
            if len(self._unread) < len(PREFACE):
                return b""
            self._began = True
            self._skip = len(PREFACE)
        return b"".join(self._reply_to(frame) for frame in self._frames())

    def _reply_to(self, frame: _Frame) -> bytes:
        reply = b""
        if not self._greeted:
            if (frame.kind, frame.stream) != (_SETTINGS, 0):
                raise ValueError("the first frame must have settings")
            self._greeted = True
            reply = _frame(_SETTINGS)
        if frame.kind == _SETTINGS and not frame.flags & _ACK:
            reply += _frame(_SETTINGS, _ACK)
        elif frame.kind == _PING and not frame.flags & _ACK:
            reply += _frame(_PING, _ACK, payload=frame.payload)
        elif frame.kind == _HEADERS and frame.flags & _END_HEADERS:
            reply += _frame(_HEADERS, _END_STREAM | _END_HEADERS, frame.stream, self._headers)
        return reply

    def _frames(self) -> Iterator[_Frame]:
        """Yields the next frames. Of long ones, which need no reply, the contents are not kept."""
        while True:
            skipped = min(self._skip, len(self._unread))
            self._skip -= skipped
            self._unread = self._unread[skipped:]
            if self._skip or len(self._unread) < _HEAD:
                return
            length = int.from_bytes(self._unread[:3], "big")
            kind, flags, stream = self._unread[3], self._unread[4], int.from_bytes(self._unread[5:_HEAD], "big")
            if kind == _PING:
                if len(self._unread) < _HEAD + 8:
                    return
                yield _Frame(kind, flags, stream, self._unread[_HEAD : _HEAD + 8])
            else:
                yield _Frame(kind, flags, stream, b"")
            self._skip = _HEAD + length


def _frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(name: str | int, value: str) -> bytes:
    """Returns a header as an HPACK literal that no table keeps; a number names an entry of the static table."""
    named = _integer(name, 4) if isinstance(name, int) else b"\x00" + _string(name)
    return named + _string(value)


def _string(text: str) -> bytes:
    return _integer(len(text), 7) + text.encode("ascii")


def _integer(number: int, bits: int) -> bytes:
    """Returns a number as HPACK writes it into so many bits and the bytes after them (RFC 7541, 5.1)."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([number])
    written, rest = bytearray([most]), number - most
    while rest >= 128:
        written.append(rest % 128 + 128)
        rest //= 128
    written.append(rest)
    return bytes(written)
