"""Dedup ids, delays, lifetimes, completion by id, dead letters, other people's locks: over partitions too."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from tests.support.proxy import lose_answer, unavailable
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from holdfast.client import Queue
    from tests.support.proxy import FaultyProxy, ProxiedRequest


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def wide(request: pytest.FixtureRequest, queue: Queue) -> Queue:
    await queue.set_config(partitions=request.param, max_locks=10)
    return queue


async def test_an_id_is_stored_once(wide: Queue) -> None:
    first = await wide.push({"order": 1}, dedup_id="order-1")
    assert await wide.push({"order": 1}, dedup_id="order-1") == first
    pushed = await wide.push_many(
        [{"order": 1}, {"order": 2}, {"order": 2}], dedup_id=lambda it: f"order-{it['order']}"
    )
    assert pushed[0] == first
    assert pushed[1] == pushed[2] != first
    messages = [message for _ in range(4) for message in await wide.pop(10)]
    assert sorted(str(message.dedup_id) for message in messages) == ["order-1", "order-2"]
    # It is known after it was consumed as well.
    assert await wide.push({"order": 1}, dedup_id="order-1") == first
    assert (await wide.stats()).count == 0


async def test_nobody_gets_an_item_before_its_time_or_after_it(wide: Queue) -> None:
    await wide.push("later", delay_seconds=0.8)
    await wide.push("never", ttl_seconds=1, delay_seconds=0)
    assert (await wide.stats()).delayed == 1

    async def never_came() -> bool:
        return (await wide.stats()).counters["ttl_expired"] == 1

    await eventually(never_came, what="the item's time is over")
    assert [message.item for _ in range(4) for message in await wide.pop(10)] == ["later"]


async def test_what_is_given_back_with_a_delay_comes_later(wide: Queue) -> None:
    await wide.push("a")
    async with wide.lock() as batch:
        await batch.abandon("not yet", delay_seconds=0.5)
    assert await wide.pop() == []
    [message] = await wide.pop(wait_seconds=20)
    assert (message.item, message.last_error, message.delivery_count) == ("a", "not yet", 2)


async def test_some_of_what_is_locked_is_given_back_or_given_up(wide: Queue) -> None:
    ids = await wide.push_many(["a", "b", "c"])
    async with wide.lock(count=3) as batch:
        assert batch.lock_id is not None
        assert await wide.abandon(batch.lock_id, ids=ids[:1]) == 1
        assert await wide.dead_letter(batch.lock_id, "odd", ids=ids[1:2]) == 1
    assert [message.item for _ in range(3) for message in await wide.pop()] == ["a"]
    assert [letter.item async for letter in wide.dead_letters()] == ["b"]


async def test_items_are_completed_by_their_ids(wide: Queue) -> None:
    for number in range(6):
        await wide.push(number)
    async with wide.lock(count=2) as one, wide.lock(count=2) as other:
        ids = [message.id for batch in (one, other) for message in batch]
        done = await wide.complete([*ids, "no such id"])
        assert (done.completed, done.ignored) == (len(ids), 1)
        # A lock is over with its last item; the ids can be sent again.
        for batch in (one, other):
            with pytest.raises(errors.LockExpired):
                await batch.acknowledge()
    assert (await wide.complete(ids)).ignored == len(ids)


async def test_what_is_not_leased_is_named(queue: Queue) -> None:
    await queue.push_many(range(2500))
    await queue.set_config(max_locks=2)
    async with queue.lock(count=100) as batch:
        leased = [message.id for message in batch]
        [waiting] = [message.id for message in await queue.peek()]
        with pytest.raises(errors.NotLeased) as refused:
            await queue.complete([waiting, *leased, *(f"0-0-{number}-0" for number in range(5000, 7000))])
        assert refused.value.details == {"completed": 100, "ignored": 2000, "not_leased": [waiting]}
        with pytest.raises(errors.LockExpired):
            await batch.acknowledge()


async def test_dead_letters_are_shown_and_put_back(wide: Queue) -> None:
    for number in range(4):
        await wide.push({"n": number}, idempotency_key=f"key-{number}")
    for _ in range(4):
        async with wide.lock() as batch:
            await batch.dead_letter("unreadable")
    letters = [letter async for letter in wide.dead_letters(page_size=3)]
    assert sorted(letter.item["n"] for letter in letters) == [0, 1, 2, 3]
    letter = letters[0]
    assert (letter.reason, letter.attempts, letter.original_queue) == ("unreadable", 1, wide.name)
    assert letter.idempotency_key == f"key-{letter.item['n']}"
    assert abs((datetime.now(UTC) - letter.dead_lettered_at).total_seconds()) < 60
    assert (await wide.stats()).dead_letters == 4
    assert await wide.redrive([letter.id, "0-0-77-0"]) == 1
    assert await wide.redrive(limit=1) == 1
    assert await wide.redrive() == 2
    assert [letter async for letter in wide.dead_letters()] == []
    again = [message for _ in range(8) for message in await wide.pop()]
    assert sorted(message.item["n"] for message in again) == [0, 1, 2, 3]
    assert {message.delivery_count for message in again} == {1}


async def test_an_item_is_revoked_unless_somebody_has_it(wide: Queue) -> None:
    ids = [await wide.push(number) for number in range(3)]
    async with wide.lock() as batch:
        with pytest.raises(errors.Conflict):
            await wide.revoke(batch[0].id)
        for item in ids:
            if item != batch[0].id:
                await wide.revoke(item)
                with pytest.raises(errors.NotFound):
                    await wide.revoke(item)
    assert (await wide.stats()).count == 0
    for wrong in ("nonsense", "a/b", "9-0-0-0"):
        with pytest.raises(errors.NotFound):
            await wide.revoke(wrong)


async def test_an_operator_gives_back_what_somebody_else_holds(wide: Queue) -> None:
    await wide.push("a")
    async with wide.lock() as batch:
        [lock] = await wide.in_flight()
        longer = await wide.extend_in_flight(lock.lock_id_prefix, 100)
        assert longer > lock.expires_at.timestamp() + 90
        assert await wide.requeue(lock.lock_id_prefix, "its consumer hangs") == 1
        with pytest.raises(errors.LockNotFound):
            await wide.requeue(lock.lock_id_prefix)
        with pytest.raises(errors.LockExpired):
            await batch.acknowledge()
    [message] = await wide.pop()
    assert (message.item, message.last_error) == ("a", "its consumer hangs")


async def test_every_key_of_the_configuration(queue: Queue) -> None:
    wanted = {
        "partitions": 2,
        "max_locks": 3,
        "max_deliveries": 4,
        "dead_letter_queue": "graves",
        "dedup_window_seconds": 60,
        "capacity": 1000,
        "default_ttl_seconds": 3600,
        "expired_to_dead_letters": True,
        "rate_per_second": 100.0,
        "retry_delay_seconds": 5.0,
        "retry_delay_factor": 3.0,
        "retry_delay_max_seconds": 60.0,
        "paused": True,
    }
    assert await queue.set_config(**wanted) == wanted
    assert await queue.config() == wanted
    with pytest.raises(errors.InvalidRequest, match="partitions"):
        await queue.set_config(partitions=1)


async def test_a_push_with_an_id_is_repeated_whatever_became_of_it(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/push", lose_answer, unavailable)
    await disturbed.push("a", dedup_id="a")
    assert proxy.times("/push") == 3
    assert (await disturbed.stats()).count == 1


async def test_many_are_repeated_only_when_all_have_an_id(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/push", lose_answer)
    ids = await disturbed.push_many(["a", "b"], dedup_id=str)
    assert (len(set(ids)), (await disturbed.stats()).count) == (2, 2)
    proxy.on("/push", lose_answer)
    with pytest.raises(errors.AnswerLost):
        await disturbed.push_many(["c", "d"])


async def test_a_completion_and_a_revocation_are_repeated(proxy: FaultyProxy, disturbed: Queue) -> None:
    await disturbed.push_many(["a", "b"])
    async with disturbed.lock() as batch:
        proxy.on("/complete", unavailable, lose_answer)
        done = await disturbed.complete([batch[0].id])
        # The attempt whose answer was lost completed it.
        assert (done.completed, done.ignored) == (0, 1)
        with pytest.raises(errors.LockExpired):
            await batch.acknowledge()
    [message] = await disturbed.peek()
    proxy.on(message.id, lose_answer)
    await disturbed.revoke(message.id)
    assert (await disturbed.stats()).count == 0


async def test_a_full_queue_is_tried_again_until_there_is_room(
    proxy: FaultyProxy, disturbed: Queue, queue: Queue
) -> None:
    await queue.set_config(capacity=1)
    await queue.push("a")

    async def make_room(crossing: ProxiedRequest) -> Any:
        refused = await crossing.pass_on()
        await queue.pop()
        return refused

    proxy.on("/push", make_room)
    await disturbed.push("b")
    assert proxy.times("/push") == 2
    assert [message.item for message in await queue.pop()] == ["b"]


async def test_without_room_the_error_says_when_to_come_back(queue: Queue, proxy: FaultyProxy, name: str) -> None:
    await queue.set_config(capacity=1)
    await queue.push("a")
    async with Client(proxy.url, retries=0) as impatient:
        with pytest.raises(errors.Capacity) as full:
            await impatient.queue(name).push("b")
        assert full.value.retryable
        assert full.value.details["retry_after"] >= 1
        await queue.set_config(capacity=None, rate_per_second=1)
        await impatient.queue(name).push("b")
        with pytest.raises(errors.RateLimited):
            await impatient.queue(name).push("c")
