"""HTTP/2 to the HTTP/1.1 port: every call is refused with a sentence, whatever pieces it arrives in."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from holdfast.gateway.middleware.http2_hint import PREFACE, Http2Hint

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def frames(sent: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    while sent:
        length = int.from_bytes(sent[:3], "big")
        yield sent[3], sent[4], int.from_bytes(sent[5:9], "big"), sent[9 : 9 + length]
        sent = sent[9 + length :]


def hint() -> Http2Hint:
    return Http2Hint(lambda: "gRPC is served at port 50001.")


CALL = PREFACE + b"".join(
    [
        frame(SETTINGS, payload=b"\x00" * 18),
        frame(WINDOW_UPDATE, payload=b"\x00" * 4),
        frame(HEADERS, 4, 1, b"\x83" * 3000),
        frame(DATA, 1, 1, b"x" * 10_000),
        frame(PING, payload=b"12345678"),
        frame(HEADERS, 5, 3, b"\x83"),
    ]
)


@pytest.mark.parametrize("size", [1, 7, 24, 1000, 1_000_000])
def test_every_call_gets_the_sentence(size: int) -> None:
    refusal = hint().connect("here")
    sent = b"".join(refusal.receive(CALL[start : start + size]) for start in range(0, len(CALL), size))
    settings, acknowledged, first, pong, second = frames(sent)
    assert settings == (SETTINGS, 0, 0, b"")
    assert acknowledged == (SETTINGS, 1, 0, b"")
    assert pong == (PING, 1, 0, b"12345678")
    for (kind, flags, stream, headers), number in ((first, 1), (second, 3)):
        assert (kind, flags, stream) == (HEADERS, 5, number)
        assert headers.startswith(b"\x88")
        assert b"grpc-status\x0212" in headers
        assert b"This port speaks HTTP/1.1. gRPC is served at port 50001." in headers


@pytest.mark.parametrize(
    "received", [frame(SETTINGS, 1), frame(PING, 1, payload=b"12345678"), frame(HEADERS, 0, 1), frame(GOAWAY), b"\xff"]
)
def test_what_needs_no_answer_gets_none(received: bytes) -> None:
    refusal = hint().connect("here")
    refusal.receive(PREFACE + frame(SETTINGS))
    assert refusal.receive(received) == b""


@pytest.mark.parametrize("rest", [frame(HEADERS, 4, 1), frame(SETTINGS, 0, 1), b"GET / HTTP/1.1\r\n", b"x" * 9])
def test_what_is_no_http2_after_all(rest: bytes) -> None:
    with pytest.raises(ValueError, match="settings"):
        hint().connect("here").receive(PREFACE + rest)
    with pytest.raises(ValueError, match="preface"):
        hint().connect("here").receive(PREFACE[:-1] + rest)


def test_it_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    made = hint()
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            made.connect("192.0.2.7")
    assert caplog.messages == [
        "192.0.2.7 spoke HTTP/2, as gRPC clients do. This port speaks HTTP/1.1. gRPC is served at port 50001."
    ]
