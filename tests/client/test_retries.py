"""The client repeats failed calls where that is safe, and only there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from holdfast.local.ports import free_port
from tests.support.proxy import FaultyProxy, bad_gateway, lose_answer, unavailable

if TYPE_CHECKING:
    from holdfast.client import Queue
    from tests.support.proxy import ProxiedRequest
    from tests.support.server import Server


async def test_a_push_whose_answer_is_lost_is_not_repeated(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/push", lose_answer)
    with pytest.raises(errors.AnswerLost, match="may or may not"):
        await disturbed.push("a")
    assert proxy.times("/push") == 1
    assert (await disturbed.stats()).count == 1


async def test_a_push_is_not_repeated_after_a_503_either(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/push", unavailable)
    with pytest.raises(errors.Unavailable) as failure:
        await disturbed.push("a")
    assert failure.value.retryable
    assert failure.value.details["retry_after_seconds"] == 1
    assert proxy.times("/push") == 1


async def test_nor_is_a_plain_pop_or_a_purge(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/pop", unavailable)
    proxy.on("/items", unavailable)
    with pytest.raises(errors.Unavailable):
        await disturbed.pop()
    with pytest.raises(errors.Unavailable):
        await disturbed.purge()
    assert (proxy.times("/pop"), proxy.times("/items")) == (1, 1)


async def test_a_purge_whose_answer_is_lost_is_not_repeated_either(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/items", lose_answer)
    with pytest.raises(errors.AnswerLost):
        await disturbed.purge()
    assert proxy.times("/items") == 1


async def test_a_deletion_of_dead_letters_is_repeated_only_if_it_selects_the_same_ones(
    proxy: FaultyProxy, disturbed: Queue
) -> None:
    """A second attempt would delete dead letters that came after the first one."""
    await disturbed.push_many(["a", "b"])
    async with disturbed.lock(count=2) as batch:
        await batch.dead_letter()
    proxy.on("/dead-letters/delete", lose_answer)
    assert await disturbed.delete_dead_letters(before=datetime.now(UTC) - timedelta(days=1)) == 0
    assert proxy.times("/dead-letters/delete") == 2
    for reason in (None, "rejected"):
        proxy.on("/dead-letters/delete", lose_answer)
        with pytest.raises(errors.AnswerLost):
            await disturbed.delete_dead_letters(reason=reason)
    assert proxy.times("/dead-letters/delete") == 4


async def test_a_push_is_repeated_while_nobody_listens(server: Server, name: str) -> None:
    closed = FaultyProxy(server)
    async with Client(closed.url) as client:
        pushing = asyncio.create_task(client.queue(name).push("a"))
        # The first attempt is refused; the way opens before the last.
        await asyncio.wait({pushing}, timeout=0.3)
        assert not pushing.done()
        await closed.open()
        try:
            await pushing
            assert (await client.queue(name).stats()).count == 1
            assert closed.times("/push") == 1
        finally:
            await closed.close()


async def test_where_nobody_listens_nothing_was_done(name: str) -> None:
    async with Client(f"http://127.0.0.1:{free_port()}", retries=0) as client:
        with pytest.raises(errors.ConnectionFailed, match="nothing was done") as failure:
            await client.queue(name).push("a")
        assert failure.value.retryable


@pytest.mark.parametrize("fault", [unavailable, bad_gateway, lose_answer], ids=lambda fault: fault.__name__)
async def test_reads_and_settings_are_repeated(proxy: FaultyProxy, disturbed: Queue, fault: Any) -> None:
    proxy.on("/peek", fault)
    proxy.on("/config", fault)
    assert await disturbed.peek() == []
    assert (await disturbed.set_config(max_locks=3))["max_locks"] == 3
    assert (proxy.times("/peek"), proxy.times("/config")) == (2, 2)


async def test_a_lock_is_taken_again_when_the_answer_was_lost(proxy: FaultyProxy, disturbed: Queue) -> None:
    proxy.on("/pop", lose_answer)
    await disturbed.set_config(max_locks=2)
    await disturbed.push_many(["a", "b"])
    async with disturbed.lock() as batch:
        # The first item returns when the lock whose id was lost expires.
        assert [message.item for message in batch] == ["b"]


async def test_giving_up_says_that_it_may_have_been_done(server: Server, name: str) -> None:
    proxy = FaultyProxy(server)
    await proxy.open()
    proxy.on("/acknowledge", lose_answer)

    async def acknowledge_and_go_away(crossing: ProxiedRequest) -> Any:
        await crossing.pass_on()
        closing.append(asyncio.create_task(proxy.close()))
        return crossing.break_off()

    closing: list[asyncio.Task[None]] = []
    proxy.on("/abandon", acknowledge_and_go_away)
    async with Client(server.url) as client, Client(proxy.url, retries=2) as disturbed:
        await client.queue(name).push("a")
        async with client.queue(name).lock() as batch:
            with pytest.raises(errors.AnswerLost):
                await disturbed.queue(name).abandon(str(batch.lock_id))
            await asyncio.gather(*closing)
            with pytest.raises(errors.LockExpired):
                await batch.acknowledge()


async def test_by_id_a_lock_that_is_gone_after_a_lost_answer_has_that_as_its_cause(
    proxy: FaultyProxy, disturbed: Queue
) -> None:
    await disturbed.push("a")
    async with disturbed.lock() as batch:
        proxy.on("/acknowledge", lose_answer)
        with pytest.raises(errors.LockNotFound) as gone:
            await disturbed.acknowledge(str(batch.lock_id))
        assert isinstance(gone.value.__cause__, errors.AnswerLost)
        with pytest.raises(errors.LockExpired):
            await batch.acknowledge()
    assert (await disturbed.stats()).counters["acknowledged"] == 1


async def test_no_answer_in_time_is_a_lost_answer(proxy: FaultyProxy, name: str) -> None:
    async def never(crossing: ProxiedRequest) -> Any:
        await asyncio.Event().wait()

    proxy.on("/push", never)
    async with Client(proxy.url, timeout=0.3) as client:
        with pytest.raises(errors.AnswerLost, match=r"within 0\.3 s"):
            await client.queue(name).push("a")


async def test_what_does_not_speak_holdfast_is_an_error_that_says_so(proxy: FaultyProxy, disturbed: Queue) -> None:
    async def another(crossing: ProxiedRequest) -> Any:
        answer = await crossing.pass_on()
        answer.set_status(418)
        answer.body = b"teapot"
        return answer

    proxy.on(f"/queue/{disturbed.name}", another)
    with pytest.raises(errors.HoldfastError, match="status 418"):
        await disturbed.stats()
