"""State of a server that was killed and started again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.behaviour.queues.test_config import DEFAULTS
from tests.behaviour.queues.test_delays import drained_when_due
from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partitioned
from tests.behaviour.stacks import ALL, KILLED, on_stacks

if TYPE_CHECKING:
    from tests.support.rest import Server

CONFIG: dict[str, Any] = {
    "partitions": 3,
    "max_locks": 7,
    "max_deliveries": 4,
    "dead_letter_queue": "elsewhere",
    "dedup_window_seconds": 17,
    "capacity": 1000,
    "default_ttl_seconds": 3600,
    "expired_to_dead_letters": True,
    "rate_per_second": 2.5,
    "retry_delay_seconds": 1.5,
    "retry_delay_factor": 3,
    "retry_delay_max_seconds": 60,
    "paused": True,
}


@on_stacks(*ALL, part=KILLED)
async def test_a_process_that_is_killed_takes_no_knowledge_with_it(server: Server) -> None:
    configured = server.queue("configured")
    (await configured.configure(**CONFIG)).ok()
    locked, counted, drained, delayed, repeated = [
        await partitioned(server, name) for name in ("locked", "counted", "drained", "delayed", "repeated")
    ]
    for queue in (locked, counted, drained):
        await one_in_each(queue, 3)
    locks = [await locked.lock(ttl_seconds=300) for _ in range(PARTITIONS)]
    first = {name: (await repeated.push(name, dedup_id=name)).ok()["ids"] for name in "abcdefgh"}
    single = server.queue("single")
    alone = (await single.push(1, dedup_id="x")).ok()["ids"]
    for number in range(8):
        (await delayed.push(number, delay_seconds=1.5)).ok()

    await server.stack.kill_app()
    await server.stack.start_app()

    assert CONFIG.keys() == DEFAULTS.keys()
    assert await configured.config() == CONFIG
    # Each of these is the first that the new server hears of its queue: it does not know yet of any partitions.
    far = max(locks, key=lambda lock: lock["messages"][0]["partition"])
    assert (await locked.acknowledge(far["lock_id"])).ok()["items_acknowledged"] == 1
    assert (await counted.stats())["count"] == 3 * PARTITIONS
    assert len(await drained.drain()) == 3 * PARTITIONS
    answers = await asyncio.gather(*(repeated.push("again", dedup_id=name) for name in first))
    assert [answer.ok()["ids"] for answer in answers] == list(first.values())
    assert {answer.body["count"] for answer in answers} == {0}
    assert (await single.push(2, dedup_id="x")).ok() == {"success": True, "count": 0, "ids": alone}
    assert sorted(await drained_when_due(delayed, 8)) == list(range(8))
    for lock in locks:
        if lock is not far:
            (await locked.abandon(lock["lock_id"])).ok()
    assert len(await locked.drain()) == 3 * PARTITIONS - 1
