"""Requests that others on the way may read as something else: refused, or harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.security.guarded import BODY_TIMEOUT, QUEUE, SPARE, TOKENS

if TYPE_CHECKING:
    from tests.behaviour.security.guarded import Guarded

HOST = b"Host: 127.0.0.1\r\n"
PROOF = b"Authorization: Bearer %b\r\n" % TOKENS["operator"].encode()
HEAD = HOST + PROOF
#: What must not be done: it would empty the queue.
INNER = b"DELETE /queue/%b/items HTTP/1.1\r\n%bX: x\r\n\r\n" % (QUEUE.encode(), HEAD)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)
LENGTH = b"Content-Length: %d\r\n" % len(INNER)
#: Ends the connection when it is still there; shows that both sides agree on where a request ends.
LAST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /queue/%b/push HTTP/1.1\r\n%b%b\r\n%b" % (QUEUE.encode(), HEAD, headers, body)


def get(headers: bytes) -> bytes:
    return b"GET /queues HTTP/1.1\r\n%b\r\n" % headers


SMUGGLED = {
    "both lengths": post(LENGTH + b"Transfer-Encoding: chunked\r\n", CHUNKED),
    "both lengths, the other way round": post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", CHUNKED),
    "chunked is not the last": post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKED),
    "chunked is not alone": post(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n" + LENGTH, CHUNKED),
    "nearly chunked": post(b"Transfer-Encoding: xchunked\r\n" + LENGTH, INNER),
    "chunked with a tab": post(b"Transfer-Encoding:\tchunked\r\n" + LENGTH, CHUNKED),
    "chunked in another line": post(b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH, INNER),
    "a space before the colon": post(b"Transfer-Encoding : chunked\r\n" + LENGTH, INNER),
    "an unknown encoding": post(b"Transfer-Encoding: cow\r\n", INNER),
    "compressed, and chunked": post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKED),
    "compressed, and chunked, in two lines": post(
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", CHUNKED
    ),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked\r\n", CHUNKED),
    "chunked in HTTP/1.0": post(b"Transfer-Encoding: chunked\r\n", CHUNKED).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "no host": get(PROOF) + INNER,
    "HTTP/0.9": b"GET /queues\r\n\r\n" + INNER,
    "HTTP/0.9, by name": b"GET /queues HTTP/0.9\r\n\r\n" + INNER,
    "HTTP/1.2": get(HEAD).replace(b"HTTP/1.1", b"HTTP/1.2") + INNER,
    "two lengths": post(b"Content-Length: 0\r\n" + LENGTH, INNER),
    "the same length twice": post(LENGTH + LENGTH, INNER),
    "a list of lengths": post(b"Content-Length: 0, %d\r\n" % len(INNER), INNER),
    "a length with a sign": post(b"Content-Length: +0\r\n", INNER),
    "a negative length": post(b"Content-Length: -1\r\n", INNER),
    "a length in hex": post(b"Content-Length: 0x1f\r\n", INNER),
    "a length beyond all": post(b"Content-Length: 99999999999999999999999\r\n", INNER),
    "a header on two lines": post(b"X: a\r\n b\r\n" + LENGTH, INNER),
    "bare line feeds": post(LENGTH, INNER).replace(b"\r\n", b"\n"),
    "a bare carriage return": get(HEAD + b"X: a\rDELETE: b\r\n"),
    "a null byte": get(HEAD + b"X: a\0b\r\n"),
    "no name": get(HEAD + b": b\r\n"),
    "a chunk of no size": post(b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + INNER),
    "a chunk of less than nothing": post(b"Transfer-Encoding: chunked\r\n", b"-1\r\n" + INNER),
    "a chunk beyond all": post(b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\n" + INNER),
    "a chunk without its end": post(b"Transfer-Encoding: chunked\r\n", b"1\r\n{" + INNER),
    "another protocol": post(b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + LENGTH, INNER),
    "another protocol, chunked": post(b"Connection: Upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + INNER,
    "not HTTP": b"\0\0\0\0" + INNER,
}
TWICE = {
    "tokens": get(HEAD + b"Authorization: Bearer x\r\n"),
    "tokens, the other one first": get(HOST + b"Authorization: Bearer x\r\n" + PROOF),
    "the same token": get(HEAD + PROOF),
    "tenants": get(HEAD + b"Holdfast-Tenant: a\r\nHoldfast-Tenant: b\r\n"),
    "the same tenant": get(HEAD + b"Holdfast-Tenant: a\r\nholdfast-tenant: a\r\n"),
    "tokens of an SDK": get(HEAD + b"dapr-api-token: a\r\ndapr-api-token: b\r\n"),
    "hosts": get(HEAD + b"Host: elsewhere.example\r\n"),
}
TOO_LARGE = {
    "many headers": get(HEAD + b"".join(b"X-%d: a\r\n" % number for number in range(200))),
    "a large header": get(HEAD + b"X: " + b"a" * 40_000 + b"\r\n"),
    "a header without end": b"GET /queues HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * 40_000,
    "a long path": b"GET /queue/" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a long query": b"GET /queues?cursor=" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
}


@pytest.mark.parametrize("attack", SMUGGLED)
@pytest.mark.parametrize("apart", [False, True], ids=["at once", "piece by piece"])
async def test_nothing_is_smuggled_in(guarded: Guarded, attack: str, apart: bool) -> None:
    head, end, body = SMUGGLED[attack].partition(b"\r\n\r\n")
    pieces = (head + end, body + LAST) if apart else (head + end + body + LAST,)
    statuses, line = await guarded.told(lambda: guarded.send_raw(*pieces), status=400)
    assert statuses in ([400], [])
    assert line["error_code"] == "INVALID_REQUEST"
    assert not [line for line in guarded.audit() if line.get("route", "").endswith("/items") and QUEUE in str(line)]


@pytest.mark.parametrize("attack", TWICE)
async def test_who_calls_is_said_once(guarded: Guarded, attack: str) -> None:
    statuses, line = await guarded.told(lambda: guarded.send_raw(TWICE[attack] + LAST), status=400)
    assert statuses == [400, 200]
    assert "twice" in line["message"]


@pytest.mark.parametrize("attack", TOO_LARGE)
async def test_a_head_has_a_size(guarded: Guarded, attack: str) -> None:
    statuses, line = await guarded.told(lambda: guarded.send_raw(TOO_LARGE[attack]), status=413)
    assert statuses in ([413], [])
    assert line["error_code"] == "TOO_LARGE"


async def test_a_request_for_another_protocol_is_answered_in_this_one_and_is_the_last(guarded: Guarded) -> None:
    asked = get(HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n")
    assert await guarded.send_raw(asked + INNER) == [200]
    assert await guarded.send_raw(asked, INNER) == [200]


async def test_a_request_in_an_older_version_needs_no_host(guarded: Guarded) -> None:
    """As some load balancers ask whether a server is alive."""
    assert await guarded.send_raw(b"GET /healthz HTTP/1.0\r\n\r\n") == [200]


async def test_what_follows_the_last_request_is_not_done(guarded: Guarded) -> None:
    assert await guarded.send_raw(LAST + INNER) == [200]


async def test_requests_may_follow_each_other_at_once(guarded: Guarded) -> None:
    assert await guarded.send_raw(get(HEAD) * 3 + get(HOST) + LAST) == [200, 200, 200, 401, 200]


@pytest.mark.parametrize("proof", [b"", PROOF])
async def test_a_request_must_arrive(guarded: Guarded, proof: bytes) -> None:
    for rest in (b"", b"Content-Length: 10\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"):
        begun = b"POST /queue/%b/push HTTP/1.1\r\n%b%b%b" % (QUEUE.encode(), HOST, proof, rest)
        # Without a token it is refused as soon as its head is there, and then nothing more comes.
        status, code = (408, "TOO_SLOW") if proof or not rest else (401, "UNAUTHORIZED")
        statuses, line = await guarded.told(lambda: guarded.send_raw(begun), status=status)  # noqa: B023
        assert (statuses, line["error_code"]) == ([status], code)


@pytest.mark.parametrize("begun", [b"\r\n", b"\r\n\r\n\r\n"])
async def test_a_connection_on_which_nothing_comes_but_empty_lines_is_closed(guarded: Guarded, begun: bytes) -> None:
    assert await guarded.send_raw(begun) == []


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "piece by piece"])
async def test_what_follows_a_body_is_no_header(guarded: Guarded, apart: bool) -> None:
    """A proxy before this server may have checked and set the headers."""
    chunked = b"GET /queues HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n0\r\n"
    for headers, trailer, status in (
        (HOST, PROOF, 401),
        (HEAD, b"Authorization: Bearer x\r\n", 200),
        (HEAD, b"Holdfast-Tenant: a||b\r\n", 200),
    ):
        pieces = (chunked % headers, trailer + b"\r\n" + LAST)
        assert await guarded.send_raw(*(pieces if apart else [b"".join(pieces)])) == [status, 200]


@pytest.mark.parametrize("endless", [b"X: " + b"a" * 1_000_000, b"X: y\r\n" * 200_000], ids=["one", "many"])
async def test_what_follows_a_body_has_a_size(guarded: Guarded, endless: bytes) -> None:
    begun = post(b"Transfer-Encoding: chunked\r\n", b'a\r\n{"item":1}\r\n0\r\n')
    statuses, line = await guarded.told(lambda: guarded.send_raw(begun, *[endless] * 4), status=413)
    assert statuses in ([413], [])
    assert line["error_code"] == "TOO_LARGE"


async def test_a_body_in_tiny_pieces_has_a_size(guarded: Guarded) -> None:
    begun = post(b"Transfer-Encoding: chunked\r\n", b"")
    tiny = b"1;x=%b\r\n \r\n" % (b"y" * 1000)
    statuses, line = await guarded.told(lambda: guarded.send_raw(begun, *[tiny] * 2000), status=413)
    assert statuses in ([413], [])
    assert line["error_code"] == "TOO_LARGE"


async def test_a_body_that_nobody_reads_is_not_too_slow(running: Guarded) -> None:
    """A pop has no use for one, and waits for longer than a request may take to arrive."""
    path = f"/queue/{SPARE}-empty/pop?wait_seconds={BODY_TIMEOUT * 2}"
    assert (await running.ask("POST", path, b" " * 4_000_000, token="user")).ok()["count"] == 0
