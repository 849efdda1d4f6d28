"""Bodies that are too large, too deep, too slow, or something else than they seem."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.behaviour.security.guarded import BODY_TIMEOUT, QUEUE, SPARE, TOKENS
from tests.behaviour.security.test_roles import ROLES, path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.behaviour.security.guarded import Guarded

MEBIBYTE = 1024 * 1024
#: What may have a body.
WITH_BODY = [
    operation for operation in ROLES if operation.startswith(("POST", "PUT")) and not operation.endswith("pop")
]
#: What takes any JSON: too deep is all that is wrong with it.
ANYTHING = {
    f"/queue/{QUEUE}/push": b'{"item": %b}',
    f"/orchestrations/{QUEUE}/events/{QUEUE}": b"%b",
    f"/orchestrations/{QUEUE}/requests/{QUEUE}": b"%b",
    f"/idempotency/default/{QUEUE}/commit": b'{"owner": "x", "result": %b}',
}
_BLANK = b" " * (64 * MEBIBYTE)
BOMBS = {"gzip": gzip.compress(_BLANK), "deflate": zlib.compress(_BLANK), "br": b"x", "identity, gzip": b"x"}


async def repeated(piece: bytes, times: int) -> AsyncIterator[bytes]:
    for _ in range(times):
        yield piece


async def test_a_body_that_says_it_is_too_large_is_not_read(guarded: Guarded) -> None:
    async def attack(operation: str) -> list[int]:
        verb, path = path_of(operation, QUEUE)
        proof = f"Host: a\r\nAuthorization: Bearer {TOKENS['operator']}\r\nContent-Length: {16 * MEBIBYTE + 1}\r\n\r\n"
        # Nothing of it comes: the answer does not wait for it.
        return await guarded.send_raw(f"{verb} {path} HTTP/1.1\r\n{proof}".encode())

    told = len(guarded.audit())
    assert await asyncio.gather(*map(attack, WITH_BODY)) == [[413]] * len(WITH_BODY)
    assert {line["error_code"] for line in guarded.audit()[told:]} == {"TOO_LARGE", "TOO_SLOW"}


@pytest.mark.parametrize("operation", [f"POST /queue/{QUEUE}/push", "PUT /queue/spare/config"])
async def test_a_body_that_does_not_say_how_large_it_is_is_counted(guarded: Guarded, operation: str) -> None:
    verb, path = operation.split(" ")
    answer = await guarded.ask(verb, path, repeated(b" " * MEBIBYTE, 17), token="operator")
    answer.refused(413, "TOO_LARGE")


# Deeper, it would be refused for the number of its lists.
@pytest.mark.parametrize("depth", [101, 199, 201, 50_000])
@pytest.mark.parametrize("path", ANYTHING)
async def test_a_body_that_is_nested_too_deep(guarded: Guarded, path: str, depth: int) -> None:
    for nested in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        body = ANYTHING[path] % nested
        answer, line = await guarded.told(
            lambda: guarded.ask("POST", path, body, token="user"),  # noqa: B023
            status=400,
            path=path,
        )
        answer.refused(400, "INVALID_REQUEST")
        assert "[[" not in line["message"]


@pytest.mark.parametrize("encoding", BOMBS)
async def test_a_bomb_is_not_unpacked(guarded: Guarded, encoding: str) -> None:
    for operation in WITH_BODY:
        verb, path = path_of(operation, QUEUE)
        headers = {"Content-Encoding": encoding}
        answer = await guarded.ask(verb, path, BOMBS[encoding], token="operator", headers=headers)
        assert "compressed" in answer.refused(400, "INVALID_REQUEST")["message"]
    path = f"/queue/{QUEUE}/push"
    _, line = await guarded.told(
        lambda: guarded.ask("POST", path, b"x", token="user", headers=headers), status=400, path=path
    )
    assert line["token"] == "user"


async def test_one_byte_now_and_then_is_too_slow(guarded: Guarded) -> None:
    async def attack() -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
        proof = f"Authorization: Bearer {TOKENS['operator']}\r\nContent-Length: 1000\r\n\r\n".encode()
        writer.write(b"POST /queue/%b/push HTTP/1.1\r\nHost: a\r\n%b" % (QUEUE.encode(), proof))
        answered = asyncio.create_task(reader.read(-1))
        try:
            while not answered.done():
                writer.write(b" ")
                await asyncio.wait({answered}, timeout=BODY_TIMEOUT / 10)
            return [int((await answered).split(b" ")[1])]
        finally:
            writer.close()

    statuses, line = await guarded.told(attack, status=408)
    assert statuses == [408]
    assert line["error_code"] == "TOO_SLOW"


async def test_many_slow_ones_do_not_hold_up_the_others(guarded: Guarded) -> None:
    begun = b"POST /queue/%b/push HTTP/1.1\r\nHost: a\r\n" % QUEUE.encode()
    slow = [asyncio.create_task(guarded.send_raw(begun)) for _ in range(200)]
    assert (await guarded.ask("GET", f"/queue/{QUEUE}", token="reader")).ok()["count"] == 1
    assert await asyncio.gather(*slow) == [[408]] * 200


@pytest.mark.parametrize("depth", [101, 196, 198])
@pytest.mark.parametrize("path", [f"/queue/{SPARE}/push", f"/orchestrations/{SPARE}/start"])
async def test_a_deep_body_breaks_no_other_call_of_its_batch(guarded: Guarded, path: str, depth: int) -> None:
    form = b'{"item": %b}' if path.endswith("push") else b'{"instance_id": "spare", "input": %b}'
    flat, deep = form % b"1", form % (b"[" * depth + b"]" * depth)
    # What an honest caller gets alone: there is no orchestration of that name here.
    alone = (await guarded.ask("POST", path, flat, token="user")).status
    for _ in range(3):
        bodies = [deep if number % 4 == 0 else flat for number in range(80)]
        answers = await asyncio.gather(*(guarded.ask("POST", path, body, token="user") for body in bodies))
        for body, answer in zip(bodies, answers, strict=True):
            if body is deep:
                answer.refused(400, "INVALID_REQUEST")
            else:
                assert answer.status == alone, answer.text
