"""A pop that waits: it wakes when there is something, ends when its caller goes, and outlives what serves it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from tests.behaviour.stacks import ALL, DAPR, EMBEDDED, KILLED, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.rest import Answer, Queue, Server

#: Much longer than any test waits for an answer: it is waking that answers, not the end of the wait.
LONG = 120
#: Time to get there: what is tested holds for a poll that is slower, too.
ARRIVE = 0.4
#: Shorter than the time after which a poll asks again without a notification.
SOON = 8


async def waiting(queue: Queue, *, polls: int = 1, **query: Any) -> list[asyncio.Task[Answer]]:
    """So many polls that wait."""
    begun = [queue.server.begin(queue.pop(wait_seconds=LONG, **query)) for _ in range(polls)]
    await asyncio.sleep(ARRIVE)
    assert not any(poll.done() for poll in begun)
    return begun


async def answered(polls: Sequence[asyncio.Task[Answer]], count: int, within: float = SOON) -> list[Any]:
    """Waits until so many polls have an answer, and returns the bodies of the answers."""

    async def enough() -> bool:
        return sum(poll.done() for poll in polls) >= count

    await eventually(enough, within)
    return [poll.result().ok() for poll in polls if poll.done()]


async def leave(polls: Sequence[asyncio.Task[Answer]]) -> None:
    for poll in polls:
        poll.cancel()
    for poll in polls:
        with contextlib.suppress(asyncio.CancelledError):
            await poll


@on_stacks(*ALL, part=KILLED)
async def test_a_push_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    [plain] = await waiting(queue)
    (await queue.push("a")).ok()
    [answer] = await answered([plain], 1)
    assert answer["items"] == ["a"]
    [locking] = await waiting(queue, require_ack=True, count=5, ttl_seconds=77)
    before = time.time()
    (await queue.push_many("b", "c")).ok()
    [answer] = await answered([locking], 1)
    assert answer["items"] == ["b", "c"]
    assert before + 77 <= answer["lock_expires_at"] <= time.time() + 77
    (await queue.acknowledge(answer["lock_id"])).ok()


@on_stacks(*ALL, part=KILLED)
async def test_what_is_there_is_given_at_once(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    answer = await asyncio.wait_for(queue.pop(wait_seconds=LONG, count=10), SOON)
    assert answer.ok()["items"] == ["a", "b"]


@on_stacks(*ALL, part=KILLED)
async def test_a_lock_that_is_acknowledged_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    taken = await queue.lock(ttl_seconds=300)
    polls = await waiting(queue, require_ack=True)
    (await queue.acknowledge(taken["lock_id"])).ok()
    [answer] = await answered(polls, 1)
    assert answer["items"] == ["b"]


@on_stacks(*ALL, part=KILLED)
async def test_a_lock_that_is_abandoned_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    taken = await queue.lock(ttl_seconds=300)
    polls = await waiting(queue)
    (await queue.abandon(taken["lock_id"])).ok()
    [answer] = await answered(polls, 1)
    assert (answer["items"], answer["messages"][0]["delivery_count"]) == (["a"], 2)


@on_stacks(*ALL, part=KILLED)
async def test_a_lock_that_expires_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    await queue.push("a")
    taken = await queue.lock(ttl_seconds=3)
    polls = await waiting(queue, require_ack=True)
    [answer] = await answered(polls, 1)
    assert answer["items"] == ["a"]
    assert time.time() >= taken["lock_expires_at"]


@on_stacks(*ALL, part=KILLED)
async def test_room_for_more_locks_wakes_a_poll(server: Server) -> None:
    queue = server.queue()
    await queue.push_many("a", "b")
    await queue.lock(ttl_seconds=300)
    polls = await waiting(queue, require_ack=True)
    (await queue.configure(max_locks=2)).ok()
    [answer] = await answered(polls, 1)
    assert answer["items"] == ["b"]


@on_stacks(*ALL, part=KILLED)
async def test_when_the_time_is_up_a_poll_answers_as_a_pop_does(server: Server) -> None:
    empty, locked = server.queue("empty"), server.queue("locked")
    await locked.push("a")
    taken = await locked.lock()
    began = time.monotonic()
    nothing, refused = await asyncio.gather(
        empty.pop(wait_seconds=1, require_ack=True), locked.pop(wait_seconds=1.5, require_ack=True)
    )
    assert 1.5 <= time.monotonic() - began < 1.5 + SOON
    assert nothing.ok() == {"items": [], "count": 0, "messages": []}
    assert refused.refused(423, "QUEUE_LOCKED")["lock_expires_at"] == taken["lock_expires_at"]


@on_stacks(*ALL, part=KILLED)
async def test_each_item_goes_to_one_of_many_polls(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=100)).ok()
    polls = await waiting(queue, polls=30, require_ack=True)
    await asyncio.gather(*(queue.push(number) for number in range(12)))
    some = await answered(polls, 12)
    assert sorted(item for answer in some for item in answer["items"]) == list(range(12))
    await queue.push_many(*range(12, 30))
    every = await answered(polls, 30)
    assert sorted(item for answer in every for item in answer["items"]) == list(range(30))
    assert {message["delivery_count"] for answer in every for message in answer["messages"]} == {1}


@on_stacks(*ALL, part=KILLED)
async def test_polls_of_one_queue_do_not_hear_of_another(server: Server) -> None:
    queues = [server.queue(str(number)) for number in range(5)]
    polls = [poll for [poll] in await asyncio.gather(*(waiting(queue) for queue in queues))]
    (await queues[3].push("for 3")).ok()
    [answer] = await answered(polls, 1)
    assert answer["items"] == ["for 3"]
    assert polls[3].done()
    for queue in queues:
        (await queue.push(queue.name)).ok()
    everyone = await answered(polls, 4 + 1)
    assert len(everyone) == 5
    assert (await queues[3].pop()).ok()["items"] == [queues[3].name]


@on_stacks(*ALL, part=KILLED)
async def test_a_caller_that_has_left_takes_nothing(server: Server) -> None:
    queue = server.queue()
    for require_ack in (True, False):
        await leave(await waiting(queue, polls=5, require_ack=require_ack, ttl_seconds=300))
        (await queue.push_many(*range(10))).ok()
        taken = await queue.lock(count=10)
        assert taken["items"] == list(range(10))
        assert {message["delivery_count"] for message in taken["messages"]} == {1}
        (await queue.acknowledge(taken["lock_id"])).ok()


@on_stacks(*DAPR, part=KILLED)
async def test_what_a_caller_that_leaves_would_have_got_is_given_back(server: Server) -> None:
    queue = server.queue()
    (await queue.push("a")).ok()
    async with server.stack.daprd_halted():
        # It is on its way to the queue when its caller leaves.
        await leave(await waiting(queue, require_ack=True, ttl_seconds=300))
    [answer] = await answered([server.begin(queue.pop(require_ack=True, wait_seconds=LONG))], 1, within=15)
    assert answer["items"] == ["a"]
    assert answer["messages"][0]["delivery_count"] <= 2


@on_stacks(*ALL, part=KILLED)
async def test_callers_that_leave_at_the_moment_of_a_push_lose_nothing(server: Server) -> None:
    """The server cannot know whether an answer still reached its caller; if it did not, the lock expires."""
    queue = server.queue()
    (await queue.configure(max_locks=50, max_deliveries=1000)).ok()
    got: list[Any] = []
    for number in range(20):
        polls = [server.begin(queue.pop(wait_seconds=LONG, require_ack=True, ttl_seconds=5)) for _ in range(3)]
        await asyncio.sleep(ARRIVE / 4)
        push = server.begin(queue.push(number))
        await asyncio.sleep(number * 0.001)
        await leave(polls)
        for poll in polls:
            if not poll.cancelled():
                body = poll.result().ok()
                got += body["items"]
                (await queue.acknowledge(body["lock_id"])).ok()
        (await push).ok()

    async def unlocked() -> bool:
        return int((await queue.stats())["locked"]) == 0

    await eventually(unlocked, within=20)
    assert sorted(got + await queue.drain()) == list(range(20))


@on_stacks(*DAPR, part=KILLED)
async def test_a_poll_outlives_daprd(server: Server) -> None:
    queue = server.queue()
    polls = await waiting(queue, polls=3, require_ack=True)
    await server.stack.kill_daprd()
    await server.stack.start_daprd()
    (await queue.configure(max_locks=3)).ok()
    (await queue.push_many("a", "b", "c")).ok()
    # A waiting poll asks again from time to time: notifications do not survive a restart of daprd.
    answers = await answered(polls, 3, within=20)
    assert sorted(item for answer in answers for item in answer["items"]) == ["a", "b", "c"]


@on_stacks(*ALL, part=KILLED)
async def test_a_poll_of_a_process_that_dies_takes_nothing_with_it(server: Server) -> None:
    queue = server.queue()
    polls = await waiting(queue, polls=3, require_ack=True, ttl_seconds=300)
    await server.stack.kill_app()
    outcomes = await asyncio.gather(*polls, return_exceptions=True)
    assert not any(isinstance(outcome, dict) for outcome in outcomes)
    await server.stack.start_app()
    again = await waiting(queue, require_ack=True)
    (await queue.push("a")).ok()
    [answer] = await answered(again, 1)
    assert (answer["items"], answer["messages"][0]["delivery_count"]) == (["a"], 1)


@on_stacks(EMBEDDED, part=KILLED)
async def test_a_poll_outlives_the_deactivation_of_the_queue(server: Server) -> None:
    queue = server.queue()
    polls = await waiting(queue)
    await asyncio.sleep(server.stack.idle_timeout + 1.5)
    (await queue.push("a")).ok()
    [answer] = await answered(polls, 1, within=15)
    assert answer["items"] == ["a"]


@on_stacks(*ALL, part=KILLED)
async def test_a_stop_answers_those_who_wait(server: Server) -> None:
    empty, locked = server.queue("empty"), server.queue("locked")
    await locked.push("a")
    taken = await locked.lock(ttl_seconds=300)
    polls = [*await waiting(empty, polls=3), *await waiting(locked, require_ack=True)]
    try:
        assert await server.stack.stop_app() == 0
    finally:
        await server.stack.start_app()
    *nothing, refused = await asyncio.gather(*polls)
    assert [answer.ok()["items"] for answer in nothing] == [[], [], []]
    assert refused.refused(423, "QUEUE_LOCKED")["lock_expires_at"] == taken["lock_expires_at"]
