"""The queue through the official SDK's ``ActorProxy``: what REST answers with a status comes as an object."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.behaviour.clock import expired
from tests.behaviour.queues import actor_calls
from tests.behaviour.stacks import ALL, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.rest import Server


class Proxy:
    """The queue of a test, called by a program of its own."""

    def __init__(self, program: asyncio.subprocess.Process, queue: str) -> None:
        self._program = program
        self._queue = queue

    async def __call__(self, method: str, *arguments: Any, queue: str | None = None) -> Any:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps([queue or self._queue, method, *arguments]).encode() + b"\n")
        async with asyncio.timeout(30):
            line = await self._program.stdout.readline()
        assert line, f"{method} failed, and with it the program"
        return json.loads(line)


@contextlib.asynccontextmanager
async def proxied(server: Server) -> AsyncIterator[Proxy]:
    sidecar = {"DAPR_RUNTIME_HOST": "127.0.0.1", "DAPR_HTTP_PORT": str(server.stack.api_port)}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, actor_calls.__file__),
        env={**os.environ, **sidecar},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        yield Proxy(program, server.queue().name)
    finally:
        with contextlib.suppress(ProcessLookupError):
            program.kill()
        await program.wait()


def refused(answer: Any, error_code: str) -> Any:
    assert answer["success"] is False
    assert answer["error_code"] == error_code
    assert isinstance(answer["message"], str)
    return answer


@on_stacks(*ALL)
async def test_push_pop_lock_and_acknowledge(server: Server) -> None:
    async with proxied(server) as call:
        assert await call("Pop") == {"items": [], "count": 0, "messages": []}
        assert await call("PopWithAck", {"ttl_seconds": 60}) == {"items": [], "count": 0, "messages": []}
        pushed = await call("Push", {"item": {"id": 1}, "priority": 1})
        assert (pushed["success"], pushed["count"], len(pushed["ids"])) == (True, 1, 1)
        await call("Push", {"items": [{"item": {"id": 2}}, {"item": {"id": 3}, "priority": 0}]})
        assert (await call("Peek", {"count": 5}))["items"] == [{"id": 2}, {"id": 3}, {"id": 1}]
        assert (await call("Pop"))["items"] == [{"id": 2}]
        before = time.time()
        taken = await call("PopWithAck", {"ttl_seconds": 60, "count": 2})
        assert (taken["items"], taken["count"], taken["locked"]) == ([{"id": 3}, {"id": 1}], 2, True)
        assert before + 60 <= taken["lock_expires_at"] <= time.time() + 60
        answer = await call("Acknowledge", {"lock_id": taken["lock_id"]})
        assert (answer["success"], answer["items_acknowledged"]) == (True, 2)
        assert (await call("Stats"))["count"] == 0


@on_stacks(*ALL)
async def test_a_locked_queue_says_so_in_its_answer(server: Server) -> None:
    async with proxied(server) as call:
        await call("Push", {"item": 1})
        taken = await call("PopWithAck")
        for locked in (await call("PopWithAck", {}), await call("Pop")):
            assert (locked["items"], locked["count"], locked["locked"]) == ([], 0, True)
            assert locked["lock_expires_at"] == taken["lock_expires_at"]
            assert isinstance(locked["message"], str)
            assert "lock_id" not in locked
        assert abs(taken["lock_expires_at"] - time.time() - 30) < 10


@on_stacks(*ALL)
async def test_a_refused_acknowledge_says_why(server: Server) -> None:
    async with proxied(server) as call:
        refused(await call("Acknowledge", {"lock_id": "abc123def45"}), "LOCK_NOT_FOUND")
        refused(await call("Acknowledge", {}), "INVALID_REQUEST")
        await call("Push", {"item": "a"})
        taken = await call("PopWithAck")
        refused(await call("Acknowledge", {"lock_id": "abc123def45"}), "INVALID_LOCK_ID")
        await call("Abandon", {"lock_id": taken["lock_id"]})
        taken = await call("PopWithAck", {"ttl_seconds": 1})
        await expired(taken)
        refused(await call("Acknowledge", {"lock_id": taken["lock_id"]}), "LOCK_EXPIRED")
        assert (await call("Pop"))["items"] == ["a"]
        refused(await call("Acknowledge", {"lock_id": taken["lock_id"]}), "LOCK_EXPIRED")


@on_stacks(*ALL)
async def test_expired_items_are_back_in_their_own_priorities(server: Server) -> None:
    async with proxied(server) as call:
        for item, priority in (("b", 1), ("a1", 0), ("a2", 0)):
            await call("Push", {"item": item, "priority": priority})
        taken = await call("PopWithAck", {"ttl_seconds": 0, "count": 3})
        assert taken["items"] == ["a1", "a2", "b"]
        await expired(taken)
        again = await call("PopWithAck", {"count": 10})
        assert again["items"] == ["a1", "a2", "b"]
        assert [message["delivery_count"] for message in again["messages"]] == [2, 2, 2]


@on_stacks(*ALL)
async def test_the_rest_of_the_methods(server: Server) -> None:
    async with proxied(server) as call:
        assert (await call("SetConfig", {"max_locks": 2}))["max_locks"] == 2
        assert (await call("GetConfig"))["max_locks"] == 2
        await call("Push", {"items": [{"item": number} for number in range(6)]})
        first, second = await call("PopWithAck"), await call("PopWithAck")
        extended = await call("ExtendLock", {"lock_id": first["lock_id"], "additional_ttl_seconds": 10})
        assert abs(extended["lock_expires_at"] - first["lock_expires_at"] - 10) < 0.001
        assert [lock["items"] for lock in (await call("InFlight"))["locks"]] == [[1], [0]]
        assert (await call("Abandon", {"lock_id": first["lock_id"], "error": "no"}))["items_acknowledged"] == 1
        assert (await call("DeadLetter", {"lock_id": second["lock_id"]}))["items_acknowledged"] == 1
        assert (await call("Peek", {"count": 9}))["items"] == [0, 2, 3, 4, 5]
        assert (await call("Purge"))["purged"] == 5

        async def dead() -> Any:
            return (await call("Peek", queue=f"{server.queue().name}-deadletter"))["items"]

        assert await eventually(dead) == [1]


@on_stacks(*ALL)
async def test_what_is_not_valid_is_refused_and_nothing_is_stored(server: Server) -> None:
    deep = json.loads("[" * 150 + "]" * 150)
    wrong: dict[str, list[Any]] = {
        "Push": [{}, None, 7, "text", [], {"items": []}, {"item": 1, "priority": "0"}, {"item": 1, "priority": True}],
        "Pop": [{"count": 0}, {"count": "1"}, {"count": 101}, {"count": True}, []],
        "PopWithAck": [{"ttl_seconds": "30"}, {"ttl_seconds": 1.5}, {"ttl_seconds": None}],
        "Acknowledge": [{"lock_id": 1}, {"lock_id": ""}, [], "abc"],
        "ExtendLock": [{"lock_id": "a", "additional_ttl_seconds": 0}, {"lock_id": None}],
        "SetConfig": [{"max_locks": 0}, {"colour": 1}, [], None],
    }
    wrong["Push"] += [{"item": 1, "prio": 1}, {"item": deep}]
    async with proxied(server) as call:
        for method, requests in wrong.items():
            for request in requests:
                refused(await call(method, request), "INVALID_REQUEST")
        refused(await call("Push", {"item": "x" * 1_100_000}), "TOO_LARGE")
    assert await server.queue().stored() == {}


@on_stacks(*ALL)
async def test_rest_and_actor_calls_see_the_same_queue(server: Server) -> None:
    queue = server.queue()
    async with proxied(server) as call:
        (await queue.push({"by": "REST"})).ok()
        await call("Push", {"item": {"by": "proxy"}})
        taken = await call("PopWithAck", {"count": 2})
        assert taken["items"] == [{"by": "REST"}, {"by": "proxy"}]
        assert (await queue.acknowledge(taken["lock_id"])).ok()["items_acknowledged"] == 2
        poll = server.begin(queue.pop(wait_seconds=60))
        await asyncio.sleep(0.3)
        await call("Push", {"item": "wake up"})
        assert (await asyncio.wait_for(poll, 10)).ok()["items"] == ["wake up"]
