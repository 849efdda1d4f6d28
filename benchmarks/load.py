"""The load generator: callers that each send the next request when the last one is answered.

It shares the machine with what it measures, so it is made to cost little: one keep-alive connection for each
caller, requests written once, answers parsed in C. What it takes of a core is measured too, and reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httptools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence

    from benchmarks.stacks import Stack

Outcome = TypeVar("Outcome")

_SECONDS_FOR_AN_ANSWER = 60.0


class CallFailed(Exception):
    """A call of a benchmark was refused, so there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a slice of load: calls per second, and the share of a core that the generator used."""

    rate: float
    generator_share: float


class Connection(asyncio.Protocol):
    """A keep-alive connection with one request under way at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[bytes] | None = None
        self._body = b""
        self._status = 200

    async def send(self, request: bytes, status: int = 200) -> bytes:
        """The body of the answer. Raises CallFailed when its status is another."""
        assert self._transport is not None
        self._status = status
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not derived from asyncio's, only shaped like them.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(CallFailed("The connection was closed before the answer came."))

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, chunk: bytes) -> None:
        self._body += chunk

    def on_message_complete(self) -> None:
        if self._answer is None or self._answer.done():
            return
        status = self._parser.get_status_code()
        if status == self._status:
            self._answer.set_result(self._body)
        else:
            self._answer.set_exception(CallFailed(f"A call was answered with {status}: {self._body.decode()}"))


#: Some requests, each after the answer to the one before.
Conversation = Callable[[Connection], Awaitable[None]]


@asynccontextmanager
async def connect(stack: Stack, count: int) -> AsyncIterator[list[Connection]]:
    """So many connections to a stack, closed at the end."""
    loop = asyncio.get_running_loop()
    connections: list[Connection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(Connection, stack.address, stack.port)
            connections.append(connection)
        yield connections
    finally:
        for connection in connections:
            connection.close()


def request(stack: Stack, verb: str, path: str, body: bytes = b"") -> bytes:
    """A request, ready to be sent."""
    head = (
        f"{verb} {path} HTTP/1.1\r\n"
        f"Host: {stack.address}:{stack.port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def actor_call(stack: Stack, actor_type: str, actor_id: str, method: str, body: bytes = b"") -> bytes:
    """A request of Dapr's actor API, ready to be sent."""
    return request(stack, "POST", f"/v1.0/actors/{actor_type}/{actor_id}/method/{method}", body)


async def call_once(stack: Stack, actor_type: str, actor_id: str, method: str, body: bytes = b"") -> bytes:
    async with asyncio.timeout(_SECONDS_FOR_AN_ANSWER), connect(stack, 1) as [connection]:
        return await connection.send(actor_call(stack, actor_type, actor_id, method, body))


async def get(stack: Stack, path: str) -> bytes:
    async with asyncio.timeout(_SECONDS_FOR_AN_ANSWER), connect(stack, 1) as [connection]:
        return await connection.send(request(stack, "GET", path))


async def repeat_for(stack: Stack, requests: Sequence[bytes], seconds: float) -> Load:
    """Runs a caller for each request, which repeats it until the time is over."""

    def sending(sent: bytes) -> Conversation:
        async def send(connection: Connection) -> None:
            await connection.send(sent)

        return send

    return await converse_for(stack, [sending(sent) for sent in requests], seconds)


async def converse_for(stack: Stack, conversations: Sequence[Conversation], seconds: float) -> Load:
    """Runs a caller for each conversation, which repeats it until the time is over, and counts the repetitions."""

    async def caller(connection: Connection, converse: Conversation, deadline: float) -> int:
        count = 0
        while time.perf_counter() < deadline:
            await converse(connection)
            count += 1
        return count

    async with asyncio.timeout(seconds + _SECONDS_FOR_AN_ANSWER), connect(stack, len(conversations)) as connections:
        began, cpu = time.perf_counter(), time.process_time()
        counts = await _together(
            caller(connection, converse, began + seconds)
            for connection, converse in zip(connections, conversations, strict=True)
        )
        elapsed, used = time.perf_counter() - began, time.process_time() - cpu
    return Load(sum(counts) / elapsed, used / elapsed)


async def send_all(stack: Stack, requests: Sequence[bytes], *, timeout: float, status: int = 200) -> list[bytes]:
    """All of these at the same time, each over a connection of its own."""
    async with asyncio.timeout(timeout), connect(stack, len(requests)) as connections:
        return await _together(
            connection.send(sent, status) for connection, sent in zip(connections, requests, strict=True)
        )


async def _together(callers: Iterable[Coroutine[Any, Any, Outcome]]) -> list[Outcome]:
    """Returns the outcomes of all callers. The first failure cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(caller) for caller in callers]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
