"""Every key of a queue's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.behaviour.stacks import EMBEDDED, on_every_stack, on_stacks

if TYPE_CHECKING:
    from tests.support.rest import Server

DEFAULTS: dict[str, Any] = {
    "partitions": 1,
    "max_locks": 1,
    "max_deliveries": 10,
    "dead_letter_queue": None,
    "dedup_window_seconds": 300,
    "capacity": None,
    "default_ttl_seconds": None,
    "expired_to_dead_letters": False,
    "rate_per_second": None,
    "retry_delay_seconds": 0,
    "retry_delay_factor": 2,
    "retry_delay_max_seconds": 300,
    "paused": False,
}
#: For each key, what it can be at least and at most.
RANGES: dict[str, list[Any]] = {
    "partitions": [1, 2, 256],
    "max_locks": [1, 10_000],
    "max_deliveries": [1, 1_000_000],
    "dead_letter_queue": ["a", "q" * 255, None],
    "dedup_window_seconds": [0, 86_400],
    "capacity": [1, 2**53, None],
    "default_ttl_seconds": [1, 31_536_000, None],
    "expired_to_dead_letters": [True, False],
    "rate_per_second": [0.001, 1, 2.5, 1e9, None],
    "retry_delay_seconds": [0, 0.5, 31_536_000],
    "retry_delay_factor": [1, 1.5, 1000],
    "retry_delay_max_seconds": [0, 0.5, 31_536_000],
    "paused": [True, False],
}


@on_every_stack
async def test_every_key_can_be_set_alone_and_is_answered_with_all_the_others(server: Server) -> None:
    assert RANGES.keys() == DEFAULTS.keys()
    for key, values in RANGES.items():
        queue = server.queue(key)
        assert await queue.config() == DEFAULTS
        for value in values:
            if key == "partitions" and value == 256:
                continue  # tried below, on its own
            assert (await queue.configure(**{key: value})).ok() == DEFAULTS | {key: value}
            assert await queue.config() == DEFAULTS | {key: value}
        assert (await queue.stats())["config"] == await queue.config()


@on_stacks(EMBEDDED)
async def test_a_queue_of_the_most_partitions(server: Server) -> None:
    queue = server.queue()
    assert (await queue.configure(partitions=256)).ok()["partitions"] == 256
    (await queue.push_many(1, 2, 3)).ok()
    assert (await queue.stats())["count"] == 3
    taken = await queue.lock(count=3)
    assert taken["items"] == [1, 2, 3]
    assert (await queue.complete(*(message["id"] for message in taken["messages"]))).ok()["completed"] == 3
    (await queue.configure(partitions=257)).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_what_is_refused_leaves_all_keys_as_they_were(server: Server) -> None:
    queue = server.queue()
    good = {"partitions": 3, "capacity": 50, "rate_per_second": 10.5}
    (await queue.configure(**good)).ok()
    wrong: list[dict[str, Any]] = [
        {"partitions": 2},
        {"dead_letter_queue": queue.name},
        {"capacity": 0},
        {"rate_per_second": 0},
        {"default_ttl_seconds": 0},
        {"dedup_window_seconds": -1},
        {"expired_to_dead_letters": 1},
        {"elsewhere": 0},
        {"retry_delay_seconds": -1},
        {"retry_delay_factor": 0.9},
        {"retry_delay_max_seconds": None},
        {"paused": "yes"},
        {"unknown": None},
    ]
    for changes in wrong:
        body = (await queue.configure(max_locks=9, **changes)).refused(400, "INVALID_REQUEST")
        assert next(iter(changes)) in body["message"]
    assert await queue.config() == DEFAULTS | good
