"""Effects that happen once: what the client does when it is cancelled, cut off, or given what cannot be kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from holdfast.client import Idempotency
from holdfast.client.idempotency import IdempotencyCalls
from tests.client.test_consume import consuming, drained
from tests.support.proxy import unavailable
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.client import Message, Queue
    from tests.support.proxy import FaultyProxy
    from tests.support.server import Server


@pytest.fixture
async def cut_off(proxy: FaultyProxy) -> AsyncIterator[Client]:
    async with Client(proxy.url, retries=0) as made:
        yield made


async def record(client: Client, key: str, tenant: str = "default") -> dict[str, Any]:
    return await IdempotencyCalls(client._connection, tenant, key).get()


async def other_begins(client: Client, key: str, tenant: str = "default", lease_seconds: int = 60) -> IdempotencyCalls:
    calls = IdempotencyCalls(client._connection, tenant, key)
    assert (await calls.begin("other", lease_seconds))["outcome"] == "run"
    return calls


@pytest.mark.parametrize("key", [".", "..", "...", "a/b", "%2e%2e", "?x=1#y", " ", "ключ"])
async def test_a_key_of_any_kind_is_the_key_it_is(client: Client, name: str, key: str) -> None:
    assert (await client.idempotent(tenant_id=name, key=key, run=lambda: key)).ran
    again = await client.idempotent(tenant_id=name, key=key, run=lambda: "something else")
    assert (again.result, again.ran) == (key, False)
    assert (await record(client, key, tenant=name))["result"] == key


async def test_a_key_that_is_no_text_is_refused(client: Client) -> None:
    with pytest.raises(errors.InvalidRequest, match="surrogate"):
        await client.idempotent(key="\ud800", run=pytest.fail)
    with pytest.raises(errors.InvalidRequest, match=r"without U\+0000"):
        await client.idempotent(key="a\0b", run=pytest.fail)


async def test_without_a_key_it_is_just_run(client: Client) -> None:
    assert [(await client.idempotent(key="", run=lambda: 1)).ran for _ in range(2)] == [True, True]


async def test_an_error_is_recorded_and_the_next_one_runs(client: Client, name: str) -> None:
    async def fails() -> None:
        raise RuntimeError("no connection")

    with pytest.raises(RuntimeError, match="no connection"):
        await client.idempotent(key=name, run=fails)
    failed = await record(client, name)
    assert (failed["status"], failed["last_error"]) == ("FAILURE", "RuntimeError: no connection")
    assert (await client.idempotent(key=name, run=lambda: 7)).result == 7
    assert (await record(client, name))["attempts"] == 2


async def test_a_cancelled_run_is_a_failed_one(client: Client, name: str) -> None:
    started = asyncio.Event()

    async def effect() -> None:
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(client.idempotent(key=name, run=effect))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await record(client, name))["status"] == "FAILURE"


@pytest.mark.parametrize("finishes", [True, False], ids=["while it is cancelled", "when it is cancelled"])
async def test_what_has_happened_is_recorded_though_it_was_cancelled(client: Client, name: str, finishes: bool) -> None:
    started, ending = asyncio.Event(), asyncio.Event()

    async def effect() -> int:
        started.set()
        try:
            await ending.wait()
        except asyncio.CancelledError:
            if not finishes:
                raise
        return 5

    running = asyncio.create_task(client.idempotent(key=name, run=effect))
    await started.wait()
    if not finishes:
        # Both in the same turn of the loop.
        ending.set()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    again = await client.idempotent(key=name, run=pytest.fail)
    assert (again.result, again.ran) == (5, False)


async def test_a_result_that_cannot_be_kept_leaves_a_cancellation_one(client: Client, name: str) -> None:
    started = asyncio.Event()

    async def effect() -> object:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return object()

    running = asyncio.create_task(client.idempotent(key=name, run=effect))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not (await client.idempotent(key=name, run=pytest.fail)).ran


async def test_a_lease_lasts_as_long_as_the_run(client: Client, name: str) -> None:
    async def effect() -> None:
        first = (await record(client, name))["lease_expires_at"]

        async def renewed() -> bool:
            return (await record(client, name))["lease_expires_at"] > first

        await eventually(renewed, what="the lease is renewed")

    assert (await client.idempotent(key=name, run=effect, lease_seconds=1)).ran
    assert (await record(client, name))["attempts"] == 1


async def test_what_somebody_else_runs_is_reported_or_waited_for(client: Client, name: str) -> None:
    other = await other_begins(client, name)
    with pytest.raises(errors.AlreadyInProgress) as told:
        await client.idempotent(key=name, run=lambda: 1)
    assert told.value.details["lease_expires_at"] == (await record(client, name))["lease_expires_at"]
    waiting = asyncio.create_task(client.idempotent(key=name, run=lambda: 1, wait_seconds=30))
    await other.commit("other", b'"theirs"', None)
    outcome = await waiting
    assert (outcome.result, outcome.ran) == ("theirs", False)


async def test_a_lease_that_cannot_be_renewed_ends_the_run_before_another_begins(
    proxy: FaultyProxy, cut_off: Client, client: Client, name: str
) -> None:
    proxy.on("/renew", *[unavailable] * 100)
    ended = asyncio.Event()

    async def effect() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def takes_over() -> str:
        assert ended.is_set()
        return "done"

    running = asyncio.create_task(cut_off.idempotent(key=name, run=effect, lease_seconds=2))
    await eventually(lambda: _begun(client, name), what="it runs")
    assert (await client.idempotent(key=name, run=takes_over, wait_seconds=20)).result == "done"
    with pytest.raises(errors.LeaseLost):
        await running


async def _begun(client: Client, name: str) -> bool:
    try:
        return (await record(client, name))["status"] == "IN_PROGRESS"
    except errors.NotFound:
        return False


async def test_what_has_happened_is_recorded_when_the_server_is_back(
    proxy: FaultyProxy, cut_off: Client, client: Client, name: str
) -> None:
    proxy.on("/commit", *[unavailable] * 3)
    assert (await cut_off.idempotent(key=name, run=lambda: 5)).result == 5
    assert proxy.times("/commit") == 4
    assert (await record(client, name))["result"] == 5


async def test_what_has_happened_and_is_not_recorded_is_told_apart_from_what_has_not(
    proxy: FaultyProxy, cut_off: Client, name: str
) -> None:
    async def effect() -> str:
        await proxy.close()
        return "paid"

    with pytest.raises(errors.NotRecorded, match="The effect has happened") as told:
        await cut_off.idempotent(key=name, run=effect, lease_seconds=1)
    assert isinstance(told.value.__cause__, errors.ConnectionFailed)
    assert not told.value.retryable
    with pytest.raises(errors.ConnectionFailed, match="nothing was done"):
        await cut_off.idempotent(key=name, run=pytest.fail)


@pytest.mark.parametrize("happens", [True, False], ids=["it happens", "it does not happen"])
async def test_a_run_that_outlives_its_client_ends_with_its_cancellation(
    server: Server, client: Client, name: str, happens: bool
) -> None:
    started = asyncio.Event()

    async def effect() -> int:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not happens:
                raise
        return 5

    async with Client(server.url) as closed:
        running = asyncio.create_task(closed.idempotent(key=name, run=effect))
        await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await record(client, name))["status"] == "IN_PROGRESS"


async def test_what_happens_after_its_client_was_closed_is_told(server: Server, name: str) -> None:
    async with Client(server.url) as closed:
        with pytest.raises(errors.NotRecorded, match="not open"):
            await closed.idempotent(key=name, run=closed._connection.close)


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (float("nan"), errors.InvalidRequest),
        (object(), errors.InvalidRequest),
        ("x" * 1024 * 1024, errors.TooLarge),
    ],
)
async def test_a_result_that_cannot_be_kept_does_not_make_it_happen_again(
    client: Client, name: str, result: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match="The effect has happened"):
        await client.idempotent(key=name, run=lambda: result)
    again = await client.idempotent(key=name, run=lambda: "again")
    assert (again.result, again.ran) == (None, False)


async def test_what_makes_no_sense_is_refused_before_anything_happens(client: Client, name: str) -> None:
    for wrong in ({"retention_seconds": 0}, {"lease_seconds": 0}, {"lease_seconds": 3601}):
        with pytest.raises(errors.InvalidRequest):
            await client.idempotent(key=name, run=pytest.fail, **wrong)
    with pytest.raises(errors.NotFound):
        await record(client, name)


# Messages


async def test_a_message_with_the_same_key_is_handled_once(client: Client, queue: Queue) -> None:
    await queue.set_config(max_locks=4)
    for item in ("a", "a", "b", "a", None, None):
        await queue.push(item, idempotency_key=item and f"{queue.name}-{item}")
    seen: list[Any] = []

    async def handler(message: Message) -> dict[str, Any]:
        seen.append(message.item)
        return {"seen": message.id}

    async with consuming(queue, handler, idempotency=True):
        await drained(queue)
    assert sorted(str(item) for item in seen) == ["None", "None", "a", "b"]
    assert (await queue.stats()).counters["acknowledged"] == 6
    assert (await record(client, f"{queue.name}-b"))["result"].keys() == {"seen"}


async def test_a_redelivered_message_whose_record_says_done_is_acknowledged(client: Client, queue: Queue) -> None:
    await queue.push("a", idempotency_key=queue.name)
    await (await other_begins(client, queue.name)).commit("other", b"null", None)

    async def handler(message: Message) -> None:
        raise AssertionError("it has been handled")

    async with consuming(queue, handler, idempotency=True):
        await drained(queue)
    assert (await queue.stats()).counters["acknowledged"] == 1


async def test_a_key_may_be_made_of_the_message(client: Client, queue: Queue) -> None:
    await queue.push_many([{"order": 1}, {"order": 1}, {"order": 2}], tenant_id="acme")
    seen: list[int] = []

    async def handler(message: Message) -> None:
        seen.append(message.item["order"])

    def key(message: Message) -> str:
        return f"{queue.name}-{message.item['order']}"

    async with consuming(queue, handler, idempotency=key):
        await drained(queue)
    assert seen == [1, 2]
    for order in (1, 2):
        assert (await record(client, f"{queue.name}-{order}", tenant="acme"))["status"] == "SUCCESS"


async def test_the_tenant_may_be_said(client: Client, queue: Queue) -> None:
    await queue.push("a", idempotency_key=queue.name, tenant_id="acme")

    async def handler(message: Message) -> None: ...

    async with consuming(queue, handler, idempotency=Idempotency(tenant_id="other", retention_seconds=60)):
        await drained(queue)
    assert (await record(client, queue.name, tenant="other"))["status"] == "SUCCESS"
    with pytest.raises(errors.NotFound):
        await record(client, queue.name, tenant="acme")


async def test_the_record_is_committed_before_the_message_is_acknowledged(
    proxy: FaultyProxy, disturbed: Queue, name: str
) -> None:
    await disturbed.push("a", idempotency_key=name)

    async def handler(message: Message) -> None: ...

    async with consuming(disturbed, handler, idempotency=True):
        await drained(disturbed)
    calls = [path.rsplit("/", 1)[1] for path in proxy.seen]
    assert calls.index("begin") < calls.index("commit") < calls.index("acknowledge")


async def test_a_handler_that_fails_runs_again_with_the_next_delivery(client: Client, queue: Queue) -> None:
    await queue.push("a", idempotency_key=queue.name)
    deliveries: list[int] = []

    async def handler(message: Message) -> None:
        deliveries.append(message.delivery_count)
        if message.delivery_count < 3:
            raise ValueError("not yet")

    async with consuming(queue, handler, idempotency=True):
        await drained(queue)
    assert deliveries == [1, 2, 3]
    done = await record(client, queue.name)
    assert (done["status"], done["attempts"]) == ("SUCCESS", 3)


async def test_a_message_waits_for_another_owner_without_being_delivered_again(client: Client, queue: Queue) -> None:
    await queue.push("a", idempotency_key=queue.name)
    other = await other_begins(client, queue.name)

    async def handler(message: Message) -> None:
        raise AssertionError("the handler ran although another owner has the lease")

    async with consuming(queue, handler, ttl_seconds=1, idempotency=True):
        [first] = await _locks(queue)

        async def extended() -> bool:
            return bool((await _locks(queue))[0].expires_at > first.expires_at)

        await eventually(extended, what="the lock is extended while it waits")
        await other.commit("other", b"1", None)
        await drained(queue)
    counters = (await queue.stats()).counters
    assert (counters["popped"], counters["acknowledged"], counters["expired"]) == (1, 1, 0)


async def _locks(queue: Queue) -> list[Any]:
    async def locked() -> bool:
        return bool(await queue.in_flight())

    await eventually(locked, what="the message is taken")
    return await queue.in_flight()


async def test_what_is_not_waited_for_comes_again_when_the_lease_is_over(client: Client, queue: Queue) -> None:
    await queue.set_config(max_deliveries=2)
    await queue.push("a", idempotency_key=queue.name)
    await other_begins(client, queue.name, lease_seconds=2)
    seen: list[tuple[int, str | None]] = []

    async def handler(message: Message) -> None:
        seen.append((message.delivery_count, message.last_error))

    async with consuming(queue, handler, idempotency=Idempotency(wait_seconds=0)):

        async def put_off() -> bool:
            return (await queue.stats()).delayed == 1

        await eventually(put_off, what="it is given back for later")
        await drained(queue)
    # Delivered at once again and again, it would have become a dead letter.
    assert seen == [(2, "AlreadyInProgress: Another owner is running this. Try again when its lease has ended.")]


@pytest.mark.parametrize("wrong", [{"lease_seconds": 0}, {"wait_seconds": -1}, {"retention_seconds": 0}])
def test_settings_that_make_no_sense_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="seconds must be"):
        Idempotency(**wrong)
