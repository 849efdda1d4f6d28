"""A queue of several actors, which callers see as one."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.behaviour.queues.test_long_polls import answered, waiting
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Queue, Server

PARTITIONS = 4


async def partitioned(server: Server, suffix: str = "", **config: Any) -> Queue:
    queue = server.queue(suffix)
    assert (await queue.configure(partitions=PARTITIONS, **config)).ok()["partitions"] == PARTITIONS
    return queue


def partition_of(item_id: str) -> int:
    return int(item_id.split("-")[0])


async def one_in_each(queue: Queue, count: int = 1) -> dict[int, list[str]]:
    """So many items in each partition, and their ids; each item says where it is and as which."""
    ids: dict[int, list[str]] = {}
    for number in range(PARTITIONS):
        pushed = (await queue.push_many(*([number, each] for each in range(count)))).ok()["ids"]
        ids[partition_of(pushed[0])] = pushed
    assert ids.keys() == set(range(PARTITIONS))
    return ids


# Pushing


@on_every_stack
async def test_one_request_stays_together_in_one_partition(server: Server) -> None:
    queue = await partitioned(server)
    answers = await asyncio.gather(*(queue.push_many(*([caller, n] for n in range(25))) for caller in range(12)))
    homes = []
    for answer in answers:
        assert answer.ok()["count"] == 25
        [home] = {partition_of(item_id) for item_id in answer.body["ids"]}
        homes.append(home)
    assert set(homes) == set(range(PARTITIONS))
    assert max(Counter(homes).values()) <= 4
    for item, message in await queue.drain_messages():
        assert message["partition"] == homes[item[0]] == partition_of(message["id"])


@on_every_stack
async def test_a_push_goes_to_the_partition_that_holds_least(server: Server) -> None:
    queue = await partitioned(server)
    first = (await queue.push_many(*range(12))).ok()["ids"][0]
    homes = [partition_of((await queue.push(number)).ok()["ids"][0]) for number in range(30)]
    others = set(range(PARTITIONS)) - {partition_of(first)}
    assert Counter(homes) == dict.fromkeys(others, 10)
    # What is locked or delayed is held too.
    locks = [await queue.lock(count=100) for _ in range(PARTITIONS)]
    (await queue.push_many(*range(9), delay_seconds=100)).ok()
    (await queue.acknowledge(locks[0]["lock_id"])).ok()
    emptied = locks[0]["messages"][0]["partition"]
    assert partition_of((await queue.push("next")).ok()["ids"][0]) == emptied


@on_every_stack
async def test_order_is_kept_inside_a_partition(server: Server) -> None:
    queue = await partitioned(server)
    ids: list[str] = []
    for number in range(40):
        ids += (await queue.push(number, priority=number % 3)).ok()["ids"]
    drained = await queue.drain_messages()
    assert sorted(item for item, _ in drained) == list(range(40))
    for partition in range(PARTITIONS):
        own = [(message["priority"], item) for item, message in drained if message["partition"] == partition]
        assert own == sorted(own)
        assert len(own) == 10
    assert {message["id"]: item for item, message in drained} == dict(zip(ids, range(40), strict=True))


# Popping


@on_every_stack
async def test_pops_take_turns_over_the_partitions(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 5)
    taken = []
    for _ in range(20):
        [message] = (await queue.pop()).ok()["messages"]
        taken.append(message["partition"])
        assert max(Counter(taken).values()) - min(Counter(taken)[number] for number in range(PARTITIONS)) <= 1
    assert (await queue.pop()).ok()["count"] == 0


@on_every_stack
async def test_no_partition_starves_beside_one_that_is_never_empty(server: Server) -> None:
    queue = await partitioned(server, max_locks=3)
    busy = partition_of((await queue.push_many(*(["busy", n] for n in range(500)))).ok()["ids"][0])
    for number in range(PARTITIONS - 1):
        (await queue.push_many(["rare", number])).ok()
    seen = []
    for _ in range(2 * PARTITIONS):
        taken = await queue.lock(count=10)
        seen += taken["items"]
        (await queue.acknowledge(taken["lock_id"])).ok()
    assert sorted(item for item in seen if item[0] == "rare") == [["rare", n] for n in range(PARTITIONS - 1)]
    stats = await queue.stats()
    assert stats["count"] == 500 - sum(item[0] == "busy" for item in seen)
    assert {message["partition"] for message in (await queue.peek(count=100))["messages"]} == {busy}


@on_every_stack
async def test_a_pop_finds_the_only_item_wherever_it_is(server: Server) -> None:
    queue = await partitioned(server)
    for number in range(10):
        (await queue.push(number)).ok()
        taken = await queue.lock(count=10)
        assert taken["items"] == [number]
        (await queue.acknowledge(taken["lock_id"])).ok()


@on_every_stack
async def test_pops_take_turns_whatever_is_pushed_between(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 2)
    taken = []
    for number in range(4 * PARTITIONS):
        (await queue.push(["new", number])).ok()
        taken += (await queue.pop()).ok()["items"]
    assert sum(item[0] != "new" for item in taken) == 2 * PARTITIONS, "some of the first ones are still waiting"


@on_every_stack
async def test_a_pop_takes_from_one_partition(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 6)
    for count in (100, 4):
        taken = (await queue.pop(count=count)).ok()
        assert taken["count"] == min(count, 6)
        assert len({message["partition"] for message in taken["messages"]}) == 1
        assert [item[1] for item in taken["items"]] == list(range(taken["count"]))


@on_every_stack
async def test_locks_are_counted_by_partition(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 2)
    locks = [await queue.lock(ttl_seconds=60 + number) for number in range(PARTITIONS)]
    assert {lock["messages"][0]["partition"] for lock in locks} == set(range(PARTITIONS))
    for require_ack in (True, False):
        body = (await queue.pop(require_ack=require_ack)).refused(423, "QUEUE_LOCKED")
        assert body["lock_expires_at"] == min(lock["lock_expires_at"] for lock in locks)
    (await queue.acknowledge(locks[2]["lock_id"])).ok()
    again = await queue.lock()
    assert again["messages"][0]["partition"] == locks[2]["messages"][0]["partition"]
    (await queue.pop()).refused(423, "QUEUE_LOCKED")


@on_every_stack
async def test_a_partition_that_is_locked_does_not_hide_the_others(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 1)
    taken = await queue.lock()
    items = []
    for _ in range(PARTITIONS - 1):
        items += (await queue.pop()).ok()["items"]
    assert len(items) == PARTITIONS - 1
    # There is room for a lock, and nothing to put under it.
    assert (await queue.pop(require_ack=True)).ok() == {"items": [], "count": 0, "messages": []}
    (await queue.abandon(taken["lock_id"])).ok()
    assert (await queue.pop()).ok()["items"] == taken["items"]


@on_stacks(*ALL, part=KILLED)
async def test_polls_hear_of_a_push_to_any_partition(server: Server) -> None:
    queue = await partitioned(server, max_locks=10)
    polls = await waiting(queue, polls=2 * PARTITIONS, require_ack=True)
    homes = []
    for number in range(2 * PARTITIONS):
        homes.append(partition_of((await queue.push(number)).ok()["ids"][0]))
        # Each push wakes one poll; no poll has to wait for the next push.
        assert len(await answered(polls, number + 1)) == number + 1
    assert set(homes) == set(range(PARTITIONS))
    taken = [poll.result().ok() for poll in polls]
    assert sorted(item for answer in taken for item in answer["items"]) == list(range(2 * PARTITIONS))
    assert {message["delivery_count"] for answer in taken for message in answer["messages"]} == {1}


@on_stacks(*ALL, part=KILLED)
async def test_polls_hear_of_a_lock_that_is_given_back_in_any_partition(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue)
    locks = [await queue.lock(ttl_seconds=300) for _ in range(PARTITIONS)]
    for lock in locks:
        [poll] = await waiting(queue)
        (await queue.abandon(lock["lock_id"])).ok()
        [answer] = await answered([poll], 1)
        assert answer["items"] == lock["items"]


@on_stacks(*ALL, part=KILLED)
async def test_polls_hear_of_a_push_to_a_partition_that_is_new(server: Server) -> None:
    queue = server.queue()
    polls = await waiting(queue, polls=PARTITIONS)
    (await queue.configure(partitions=PARTITIONS)).ok()
    homes = set()
    for number in range(PARTITIONS):
        homes.add(partition_of((await queue.push(number)).ok()["ids"][0]))
        assert len(await answered(polls, number + 1)) == number + 1
    assert homes > {0}


# What finds a partition


@on_every_stack
async def test_a_lock_leads_to_its_partition(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 2)
    locks = {}
    for _ in range(PARTITIONS):
        taken = await queue.lock(count=2, ttl_seconds=50)
        locks[taken["messages"][0]["partition"]] = taken
    assert locks.keys() == set(range(PARTITIONS))
    for lock in locks.values():
        extended = (await queue.extend(lock["lock_id"], additional_ttl_seconds=10)).ok()
        assert abs(extended["lock_expires_at"] - lock["lock_expires_at"] - 10) < 0.001
        (await queue.acknowledge(lock["lock_id"][:-1] + "!")).refused(400, "INVALID_LOCK_ID")
    assert (await queue.acknowledge(locks[1]["lock_id"])).ok()["items_acknowledged"] == 2
    assert (await queue.abandon(locks[2]["lock_id"])).ok()["items_acknowledged"] == 2
    assert (await queue.dead_letter(locks[3]["lock_id"])).ok()["items_acknowledged"] == 2
    assert (await queue.acknowledge(locks[0]["lock_id"])).ok()["items_acknowledged"] == 2
    for lock in locks.values():
        (await queue.acknowledge(lock["lock_id"])).refused(404, "LOCK_NOT_FOUND")
    assert await queue.drain() == locks[2]["items"]


@on_every_stack
async def test_locks_of_partitions_that_are_not_there_are_not_found(server: Server) -> None:
    queue = await partitioned(server)
    (await queue.push("a")).ok()
    for lock_id in ("4.abcdefghijklmnop", "99999.x", "0.abcdefghijklmnop", "3.", ".x", "3.abcdefghijklmnop"):
        for call in (queue.acknowledge, queue.abandon, queue.extend, queue.dead_letter):
            (await call(lock_id)).refused(404, "LOCK_NOT_FOUND")
    assert (await server.queue("other").acknowledge("3.abcdefghijklmnop")).status == 404
    (await server.request("GET", f"/queue/{queue.name}@1")).refused(400, "INVALID_REQUEST")


# The queue as a whole


@on_every_stack
async def test_views_show_all_partitions_as_one_queue(server: Server) -> None:
    queue = await partitioned(server, max_locks=2)
    ids = await one_in_each(queue, 30)
    (await queue.push_many(*"abc", priority=7)).ok()
    (await queue.push("later", delay_seconds=100)).ok()
    locks = [await queue.lock(count=5) for _ in range(6)]
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["delayed"]) == (30 * PARTITIONS + 4 - 30, 30, 1)
    assert stats["priorities"] == {"0": 30 * PARTITIONS - 30, "7": 3}
    assert (stats["counters"]["pushed"], stats["counters"]["popped"]) == (30 * PARTITIONS + 4, 30)
    assert stats["queue"] == queue.name
    assert 0 <= stats["oldest_age_seconds"] < 60
    shown = await queue.in_flight()
    assert sorted((lock["lock_id_prefix"], lock["count"]) for lock in stats["locks"]) == sorted(
        (lock["lock_id_prefix"], lock["count"]) for lock in shown
    )
    assert sorted(item for lock in shown for item in lock["items"]) == sorted(
        i for lock in locks for i in lock["items"]
    )
    assert all(sum(lock["lock_id"].startswith(each["lock_id_prefix"]) for each in shown) == 1 for lock in locks)
    peeked = await queue.peek(count=100)
    assert peeked["count"] == len(peeked["items"]) == 30 * PARTITIONS + 3 - 30
    assert peeked["items"][-3:] == ["a", "b", "c"]
    waiting_ids = {message["id"] for message in peeked["messages"]}
    assert waiting_ids & {item_id for own in ids.values() for item_id in own}
    assert len((await queue.peek(count=7))["items"]) == 7
    assert (await queue.purge()).ok()["purged"] == 30 * PARTITIONS + 4 - 30
    stats = await queue.stats()
    assert (stats["count"], stats["locked"], stats["delayed"]) == (0, 30, 0)
    for lock in locks:
        (await queue.abandon(lock["lock_id"])).ok()
    assert len(await queue.drain()) == 30


@on_every_stack
async def test_a_partitioned_queue_is_listed_once(server: Server) -> None:
    queue = await partitioned(server)
    await one_in_each(queue, 3)
    taken = await queue.lock(count=2)

    async def listed() -> Any:
        page = (await server.request("GET", "/queues", query={"cursor": server.name[:-1], "limit": 100})).ok()
        return [entry for entry in page["queues"] if entry["queue"].startswith(server.name)]

    found = await eventually(listed)
    assert found == [{"queue": queue.name, "count": 3 * PARTITIONS - 2, "locked": 2, "dead_letters": 0}]
    (await queue.acknowledge(taken["lock_id"])).ok()


@on_every_stack
async def test_fewer_partitions_are_refused_because_they_would_lose_something(server: Server) -> None:
    queue = await partitioned(server)
    for fewer in (1, 3):
        body = (await queue.configure(partitions=fewer, max_locks=9)).refused(400, "INVALID_REQUEST")
        assert "partitions" in body["message"]
        assert "lost" in body["message"]
    config = await queue.config()
    assert (config["partitions"], config["max_locks"]) == (PARTITIONS, 1)
    (await queue.configure(partitions=PARTITIONS)).ok()


@on_every_stack
async def test_a_configuration_holds_in_every_partition(server: Server) -> None:
    queue = await partitioned(server)
    (await queue.configure(max_locks=2, max_deliveries=1)).ok()
    await one_in_each(queue, 3)
    locks = [await queue.lock() for _ in range(2 * PARTITIONS)]
    (await queue.pop()).refused(423, "QUEUE_LOCKED")
    for lock in locks:
        (await queue.abandon(lock["lock_id"], error="once is enough")).ok()

    async def arrived() -> bool:
        return len(await queue.dead_letters()) == 2 * PARTITIONS

    await eventually(arrived)
    letters = await queue.dead_letters()
    assert {letter["original_partition"] for letter in letters} == set(range(PARTITIONS))
    assert len(await queue.drain()) == PARTITIONS


# Growing


@on_every_stack
async def test_a_queue_grows_while_it_is_in_use(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(max_locks=50)).ok()
    (await queue.push_many(*(["old", n] for n in range(100)))).ok()
    held = await queue.lock(count=10, ttl_seconds=120)
    assert "." not in held["lock_id"]
    pushed: list[Any] = [["old", n] for n in range(100)]
    done: list[Any] = []
    stopping = asyncio.Event()

    async def produce(caller: int) -> None:
        number = 0
        while not stopping.is_set():
            (await queue.push([caller, number])).ok()
            pushed.append([caller, number])
            number += 1

    async def consume() -> None:
        while True:
            taken = (await queue.pop(require_ack=True, count=5)).ok()
            if taken["count"]:
                done.extend(taken["items"])
                (await queue.acknowledge(taken["lock_id"])).ok()
            elif stopping.is_set():
                return

    producers = [server.begin(produce(caller)) for caller in range(4)]
    consumers = [server.begin(consume()) for _ in range(4)]
    for partitions in (2, 5):
        more = len(pushed) + 20

        async def further(more: int = more) -> bool:
            return len(pushed) >= more

        await eventually(further)
        assert (await queue.configure(partitions=partitions)).ok()["partitions"] == partitions
    await eventually(further)
    homes = {partition_of((await queue.push(["last", n])).ok()["ids"][0]) for n in range(40)}
    assert homes >= {1, 2, 3, 4}, "the first one still holds what was locked before"
    stopping.set()
    await asyncio.gather(*producers, *consumers)
    # What was taken when there was one partition is answered as ever.
    assert (await queue.acknowledge(held["lock_id"])).ok()["items_acknowledged"] == 10
    done += held["items"] + await queue.drain()
    assert sorted(map(str, done)) == sorted(map(str, pushed + [["last", n] for n in range(40)]))
    assert (await queue.stats())["locked"] == 0
