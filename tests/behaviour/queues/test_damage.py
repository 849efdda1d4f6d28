"""A stored value that is not JSON is reported for its queue, through daprd too."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.behaviour.queues.test_dead_letters import arrived
from tests.behaviour.stacks import ALL, DAPR, EMBEDDED, KILLED, OnPostgresql, on_stacks
from tests.support.stacks.served import APP_ID
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.rest import Queue, Server


@contextmanager
def damaged(database: Path, queue: str, value: bytes) -> Iterator[None]:
    """Inside, these bytes are the metadata of an unused queue. They are removed afterwards, as tests share the file."""
    key = f"{APP_ID}||PushPopActor||{queue}||metadata"
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        with connection:
            connection.execute(
                "INSERT INTO state (key, value, is_binary, etag) VALUES (?, CAST(? AS TEXT), 0, 'x')", (key, value)
            )
        try:
            yield
        finally:
            with connection:
                connection.execute("DELETE FROM state WHERE key = ?", (key,))


@pytest.mark.parametrize("value", [b"{broken", b'{"queue": "\xff"}'], ids=["not JSON", "not UTF-8"])
@on_stacks(EMBEDDED, DAPR[0])
async def test_a_queue_whose_state_is_damaged_is_no_other_error(server: Server, value: bytes) -> None:
    queue = server.queue()
    with damaged(server.stack._database, queue.name, value):
        looked = await server.request("GET", f"/queue/{queue.name}")
        popped = await server.request("POST", f"/queue/{queue.name}/pop")
        for answer in (looked, popped, await queue.push("a")):
            assert "metadata is not JSON" in answer.refused(500, "STORAGE_BROKEN")["message"]
    (await queue.push("a")).ok()
    assert (await queue.stats())["count"] == 1


@asynccontextmanager
async def unreadable(queue: Queue) -> AsyncIterator[None]:
    """Inside, a queue that was not used yet answers every call with an error."""
    stack = queue.server.stack
    if isinstance(stack, OnPostgresql):
        key = f"{APP_ID}||PushPopActor||{queue.name}||metadata"
        await stack.change(f"INSERT INTO state (key, value) VALUES ('{key}', '{{broken')")
        try:
            yield
        finally:
            await stack.change(f"DELETE FROM state WHERE key = '{key}'")
    else:
        with damaged(stack._database, queue.name, b"{broken"):
            yield


async def rejected(queue: Queue, *items: str, to: Queue) -> None:
    """These items become dead letters for one dead-letter queue, each in a parcel of its own."""
    (await queue.configure(dead_letter_queue=to.name)).ok()
    for item in items:
        (await queue.push(item)).ok()
        (await queue.dead_letter((await queue.lock())["lock_id"])).ok()


@on_stacks(*ALL, part=KILLED)
async def test_a_queue_that_takes_no_dead_letters_holds_up_none_for_others(server: Server) -> None:
    queue = server.queue()
    closed, other = (type(queue)(server, f"{queue.name}-{name}") for name in ("closed", "other"))
    async with unreadable(closed):
        await rejected(queue, "a", "b", to=closed)
        await rejected(queue, "c", "d", to=other)
        assert (await arrived(other, 2))["items"] == ["c", "d"]

    async def taken() -> bool:
        return bool((await closed.peek(count=10))["items"] == ["a", "b"])

    await eventually(taken, within=60)
    assert (await other.peek(count=10))["items"] == ["c", "d"]
