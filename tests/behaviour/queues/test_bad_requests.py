"""Names, methods, paths and bytes that are wrong: nothing is stored, and the server lives on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from tests.behaviour.refusals import EXTEND, REQUEUE, RefusalCheck
from tests.behaviour.stacks import on_every_stack

if TYPE_CHECKING:
    from tests.support.rest import Server

MEBIBYTE = 1024 * 1024

IDS = [
    "",
    ".",
    "..",
    ".hidden",
    "%2E%2E",
    "a%2Fb",
    "a%5Cb",
    "a%7C%7Cb",
    "a@b",
    "a@1",
    "a%20b",
    "%20",
    "a%00",
    "a%0A",
    "a%0D%0AX-Header:%201",
    "%C3%BC",
    "%FF",
    "%",
    "%zz",
    "a+b",
    "a?b".replace("?", "%3F"),
    "a%23b",
    "<script>".replace("<", "%3C").replace(">", "%3E"),
    "'%20OR%201=1--",
    "${jndi:x}".replace("{", "%7B").replace("}", "%7D"),
    "%F0%9F%A6%80",
    "%E2%80%AE",
    "q" * 256,
    "q" * 5000,
]


@on_every_stack
async def test_names_that_are_not_names_of_queues(server: Server) -> None:
    calls = [
        ("POST", "push", b'{"item": 1}'),
        ("POST", "pop", None),
        ("GET", "config", None),
        ("DELETE", "items", None),
        ("DELETE", "", None),
    ]
    calls += [
        ("PUT", "config", b'{"max_locks": 2}'),
        ("POST", "acknowledge", b'{"lock_id": "x"}'),
        ("GET", "peek", None),
        ("POST", "complete", b'{"ids": ["0-0-0-0"]}'),
        ("GET", "dead-letters", None),
        ("POST", "redrive", None),
        ("POST", "dead-letters/delete", b"{}"),
        ("DELETE", "items/0-0-0-0", None),
        ("POST", REQUEUE, None),
        ("POST", EXTEND, None),
    ]
    async with RefusalCheck(server) as check:
        for name in IDS:
            for verb, call, body in calls:
                answer = await server.request(verb, f"/queue/{name}/{call}".removesuffix("/"), body)
                # Some of them are not one segment of a path.
                status, code = (404, "NOT_FOUND") if answer.status == 404 else (400, "INVALID_REQUEST")
                check.refused(answer, (verb, name, call), status, code)
            answer = await server.request("GET", f"/queue/{name}")
            check.refused(answer, name, *((404, "NOT_FOUND") if answer.status == 404 else (400, "INVALID_REQUEST")))


@on_every_stack
async def test_names_that_are_names_of_queues(server: Server) -> None:
    for name in (
        "a",
        "-",
        "_",
        ":",
        "--help",
        "a.b",
        "a..b",
        "a:b-c_d.e",
        "0",
        "null",
        "q" * 255,
        "push",
        "pop",
        "items",
    ):
        path = f"/queue/{name}"
        (await server.request("POST", f"{path}/push", b'{"item": "here"}')).ok()
        assert (await server.request("POST", f"{path}/pop")).ok()["items"] == ["here"]
        assert (await server.request("GET", path)).ok()["queue"] == name
        # The same name, otherwise written.
        assert (await server.request("GET", f"/queue/{''.join(f'%{ord(c):02X}' for c in name)}")).ok()["queue"] == name


@on_every_stack
async def test_methods_that_a_path_does_not_take(server: Server) -> None:
    queue = f"/queue/{server.name}"
    takes = {
        **{
            f"{queue}/{call}": {"POST"}
            for call in ("push", "pop", "acknowledge", "abandon", "extend-lock", "dead-letter", "complete", "redrive")
        },
        **{f"{queue}/{call}": {"POST"} for call in (REQUEUE, EXTEND, "dead-letters/delete")},
        **{f"{queue}/{call}": {"GET"} for call in ("peek", "in-flight", "dead-letters")},
        queue: {"GET", "DELETE"},
        f"{queue}/items": {"DELETE"},
        f"{queue}/items/0-0-0-0": {"DELETE"},
        f"{queue}/config": {"GET", "PUT"},
        "/queues": {"GET"},
    }
    async with RefusalCheck(server) as check:
        for path, methods in takes.items():
            for verb in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"} - methods:
                answer = await server.request(verb, path, b'{"item": 1, "lock_id": "x"}')
                check.refused(answer, (verb, path), 405, "METHOD_NOT_ALLOWED")
                assert set(answer.headers["Allow"].split(", ")) == methods
            head = await server.request("HEAD", path)
            assert (head.status, head.text) == (405, b"")


@on_every_stack
async def test_paths_that_are_not_there(server: Server) -> None:
    queue = f"/queue/{server.name}"
    paths = [
        "/queue",
        f"{queue}/",
        f"{queue}/pop/",
        f"{queue}/pops",
        f"{queue}/pop/x",
        f"{queue}/items/0-0-0-0/x",
        f"{queue}/in-flight/x",
        f"{queue}/in-flight/x/acknowledge",
        "/Queue/a/pop",
        "/queue/a/../b/pop",
    ]
    paths += [f"/{queue}/pop", "/queues/", "/queues/a", "/nothing", "//", "/v1/queue/a/pop", "/.env"]
    async with RefusalCheck(server) as check:
        for path in paths:
            for verb in ("GET", "POST", "DELETE"):
                answer = await server.request(verb, path, b'{"item": 1}' if verb == "POST" else None)
                check.refused(answer, (verb, path), 404, "NOT_FOUND")


@on_every_stack
async def test_a_request_of_more_than_16_mebibytes(server: Server) -> None:
    async def in_pieces(size: int) -> Any:
        yield b'{"item": "'
        for _ in range(size // 65_536):
            yield b"x" * 65_536
        yield b'"}'

    body = b'{"items": [' + b",".join([b'{"item": "%s"}' % (b"x" * (MEBIBYTE - 100))] * 17) + b"]}"
    async with RefusalCheck(server) as check:
        for call in ("push", "acknowledge", "config", "complete"):
            verb, path = "PUT" if call == "config" else "POST", f"/queue/{server.name}/{call}"
            check.refused(await server.request(verb, path, body), f"{call} at once", 413, "TOO_LARGE")
            answer = await server.request(verb, path, in_pieces(17 * MEBIBYTE))
            check.refused(answer, f"{call} in pieces", 413, "TOO_LARGE")
        answer = await server.request("POST", f"/queue/{server.name}/push", in_pieces(2 * MEBIBYTE))
        check.refused(answer, "an item in pieces", 413, "TOO_LARGE")


def _raw(head: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([head, b"Host: localhost", *headers, b"", body])


PUSH = b"POST /queue/%(q)s/push HTTP/1.1"
IN_PIECES = b"Transfer-Encoding: chunked"
UPGRADE = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: AAAA")
RAW = {
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an asterisk": _raw(b"OPTIONS * HTTP/1.1"),
    "an absolute path": _raw(b"POST http://localhost/queue/%(q)s/push HTTP/1.1", b"Content-Length: 2", body=b"{}"),
    "no slash": _raw(b"POST queue/%(q)s/push HTTP/1.1", b"Content-Length: 2", body=b"{}"),
    "no host": PUSH + b"\r\nContent-Length: 2\r\n\r\n{}",
    "another host": PUSH + b'\r\nHost: example.com\r\nContent-Length: 11\r\n\r\n{"item": 1}',
    "a length that is not one": _raw(PUSH, b"Content-Length: x", body=b"{}"),
    "a negative length": _raw(PUSH, b"Content-Length: -1", body=b"{}"),
    "two lengths": _raw(PUSH, b"Content-Length: 2", b"Content-Length: 11", body=b'{"item": 1}'),
    "a length and pieces": _raw(PUSH, b"Content-Length: 2", IN_PIECES, body=b'b\r\n{"item": 1}\r\n0\r\n\r\n'),
    "pieces that are none": _raw(PUSH, IN_PIECES, body=b"zz\r\n{}"),
    "a body that ends early": _raw(PUSH, b"Content-Length: 99", body=b'{"item": 1}'),
    "a header without end": PUSH + b"\r\nX: " + b"x" * 200_000,
    "a path without end": _raw(b"GET /queue/" + b"x" * 200_000 + b" HTTP/1.1"),
    "an upgrade": _raw(b"GET /queue/%(q)s/nothing HTTP/1.1", *UPGRADE),
    "bytes in the query": _raw(b"POST /queue/%(q)s/pop?count=\xff HTTP/1.1"),
    "bytes in the path": _raw(b"POST /queue/\xff/pop HTTP/1.1"),
}


@on_every_stack
async def test_what_is_hardly_http(server: Server) -> None:
    """These may be answered or cut off, but the server is not hurt by them."""
    async with RefusalCheck(server):
        for name, sent in RAW.items():
            reader, writer = await asyncio.open_connection("127.0.0.1", server.stack.app_port)
            writer.write(sent.replace(b"%(q)s", server.name.encode()))
            with contextlib.suppress(OSError):  # it may have been cut off already
                writer.write_eof()
            try:
                async with asyncio.timeout(20):
                    received = await reader.read()
            except ConnectionError:
                received = b""
            finally:
                writer.close()
            assert not received.startswith((b"HTTP/1.1 5", b"HTTP/1.1 2")), f"{name}: {received[:500]!r}"
