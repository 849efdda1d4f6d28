"""Starting orchestrations, talking to them, and what comes of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from tests.support import workflows
from tests.support.proxy import FaultyProxy, lose_answer, unavailable
from tests.support.waiting import eventually
from tests.support.workflows import Order, Receipt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.client import Run, StartEvent
    from tests.support.proxy import ProxiedRequest


@pytest.fixture
async def disturbed_client(proxy: FaultyProxy) -> AsyncIterator[Client]:
    async with Client(proxy.url) as made:
        yield made


async def status_of(run: Run[Any]) -> str:
    return (await run.status()).status


async def waits(run: Run[Any]) -> bool:
    return any([event.type == "EventSubscribed" async for event in run.history()])


async def test_a_function_gives_its_types_to_what_goes_in_and_comes_out(client: Client, instance_id: str) -> None:
    run = await client.start(workflows.checkout, Order(number=7, lines=["oar", "rope"]), instance_id=instance_id)
    assert (run.instance_id, run.created) == (instance_id, True)
    assert await run.result(timeout=20) == Receipt(number=7, shipped=["oar shipped", "rope shipped"])


async def test_a_name_takes_and_gives_json(client: Client) -> None:
    run = await client.start("checkout", {"number": 7, "lines": ["oar"]})
    assert await run.result(timeout=20) == {"number": 7, "shipped": ["oar shipped"]}
    again = client.orchestration(run.instance_id, workflows.checkout)
    assert await again.result() == Receipt(number=7, shipped=["oar shipped"])


async def test_an_instance_is_started_once(client: Client, instance_id: str) -> None:
    await client.start("greeting", "ann", instance_id=instance_id)
    again = await client.start("greeting", "bob", instance_id=instance_id)
    assert not again.created
    assert await again.result(timeout=20) == "ahoy ann"


async def test_an_instance_has_the_tags_of_its_start(client: Client, instance_id: str) -> None:
    run = await client.start("greeting", "ann", instance_id=instance_id, tags={"customer": "acme"})
    assert (await run.status()).tags == {"customer": "acme"}
    with pytest.raises(errors.InvalidRequest, match="tags"):
        await client.start("greeting", "ann", tags={"a key": "acme"})
    with pytest.raises(TypeError, match="tag"):
        await client.start("greeting", "ann", tag={"customer": "acme"})  # type: ignore[call-overload]


async def test_a_start_in_the_future_is_pending(client: Client, instance_id: str) -> None:
    later = datetime.now(UTC) + timedelta(days=400)
    run = await client.start("greeting", "ann", instance_id=instance_id, start_at=later, priority=5)
    status = await run.status()
    assert (status.status, status.priority) == ("PENDING", 5)
    await run.cancel()
    with pytest.raises(errors.OrchestrationCancelled):
        await run.result(timeout=20)


async def test_an_event_with_the_start_reaches_a_new_and_a_known_instance(client: Client, instance_id: str) -> None:
    for number in (3, 4):
        event: StartEvent = {"name": "numbers", "data": number}
        run = await client.start(workflows.adding, 2, instance_id=instance_id, event=event)
    assert await run.result(timeout=20) == 7
    with pytest.raises(errors.Conflict):
        await client.start(workflows.adding, 2, instance_id=instance_id, event=event)


async def test_without_an_id_each_start_is_an_instance_of_its_own(client: Client) -> None:
    runs = [await client.start("greeting", "ann") for _ in range(2)]
    assert runs[0].instance_id != runs[1].instance_id
    assert all(run.created for run in runs)


async def test_a_function_brings_its_version_and_a_name_the_last_one(client: Client) -> None:
    assert await (await client.start(workflows.greeting_of_old, "ann")).result(timeout=20) == "hello ann"
    assert await (await client.start("greeting", "ann")).result(timeout=20) == "ahoy ann"
    assert await (await client.start("greeting", "ann", version="1")).result(timeout=20) == "hello ann"


@pytest.mark.parametrize("name", ["nobody", "greeting"])
async def test_what_the_server_does_not_have_is_not_found(client: Client, name: str) -> None:
    with pytest.raises(errors.NotFound, match=name):
        await client.start(name, "ann", version="99")


async def test_an_input_of_another_shape_is_refused_at_the_start(client: Client, instance_id: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="lines"):
        await client.start("checkout", {"number": 7}, instance_id=instance_id)
    with pytest.raises(errors.InvalidRequest, match="lines"):
        await client.start(workflows.checkout, {"number": 7}, instance_id=instance_id)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidRequest, match="neither NaN nor Infinity"):
        await client.start("checkout", {"number": float("nan"), "lines": []}, instance_id=instance_id)
    with pytest.raises(errors.InvalidRequest, match="JSON"):
        await client.start("greeting", object(), instance_id=instance_id)
    with pytest.raises(errors.NotFound):
        await client.orchestration(instance_id).status()


async def test_what_is_not_an_orchestration_is_said_so(client: Client) -> None:
    with pytest.raises(TypeError, match=r"@app\.orchestration"):
        await client.start(workflows.ship, "oar")  # type: ignore[arg-type]


async def test_a_failure_is_raised_with_its_reason(client: Client) -> None:
    run = await client.start(workflows.failing, "sold out")
    with pytest.raises(errors.OrchestrationFailed, match="sold out") as failure:
        await run.result(timeout=20)
    assert failure.value.type == "ActivityFailed"
    assert failure.value.kind == "error"
    status = await run.status()
    assert (status.status, status.ended, status.output) == ("FAILED", True, None)
    assert status.error is not None
    assert "sold out" in status.error.message


async def test_a_cancelled_one_says_so_and_why(client: Client) -> None:
    run = await client.start(workflows.approval)
    await run.cancel("nobody wants it")
    with pytest.raises(errors.OrchestrationCancelled, match="was cancelled: nobody wants it") as failure:
        await run.result(timeout=20)
    assert isinstance(failure.value, errors.OrchestrationFailed)
    assert (failure.value.kind, failure.value.reason) == ("cancelled", "nobody wants it")
    assert (await run.status()).reason == "nobody wants it"


async def test_time_that_is_up_is_a_timeout_and_the_run_goes_on(client: Client) -> None:
    run = await client.start(workflows.approval)
    for seconds in (0, 0.1):
        with pytest.raises(TimeoutError, match=f"within {seconds:g} s: it is RUNNING"):
            await run.result(timeout=seconds)
    assert not await run.raise_event("nobody-waits")
    [awaited] = (await run.status()).waiting_for
    assert (awaited.kind, awaited.name, awaited.due_at) == ("event", "approved", None)
    assert await run.raise_event("approved", "late")
    assert await run.result(timeout=20) == "late"


async def test_a_server_that_hangs_does_not_keep_anybody_long(proxy: FaultyProxy, disturbed_client: Client) -> None:
    async def never(crossing: ProxiedRequest) -> Any:
        await asyncio.Event().wait()

    run = await disturbed_client.start(workflows.approval)
    proxy.on("/wait", never)
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.1)


async def test_an_event_reaches_whoever_waits_for_it(client: Client) -> None:
    run = await client.start(workflows.approval)
    waiting = asyncio.create_task(run.result(timeout=20))
    await eventually(lambda: waits(run), what="it waits")
    with pytest.raises(errors.InvalidRequest, match="approved"):
        await run.raise_event("approved", {"not": "a text"})
    await run.raise_event("approved", "ann")
    assert await waiting == "ann"
    with pytest.raises(errors.Conflict, match="has ended"):
        await run.raise_event("approved", "bob")


async def test_a_request_has_a_reply(client: Client) -> None:
    run = await client.start(workflows.cart)
    assert await run.request("add", 3, request_id="first") == {"total": 3}
    assert await run.request("add", 4) == {"total": 7}
    assert await run.request("add", 5, request_id="first") == {"total": 3}
    assert await run.reply("first") == {"total": 3}
    with pytest.raises(errors.Rejected, match="Nothing can be taken out"):
        await run.request("add", -1)
    with pytest.raises(errors.InvalidRequest, match="the request add"):
        await run.request("add", {"not": "a number"})
    for name, request_id in (("take", None), ("a b", None), ("add", "")):
        with pytest.raises((errors.NotFound, errors.InvalidRequest)):
            await run.request(name, 1, request_id=request_id)
    for unknown in ("unknown", "..", "a/b"):
        with pytest.raises(errors.NotFound):
            await run.reply(unknown)
    assert await run.request("add", 3, request_id="../..") == {"total": 10}
    assert await run.result(timeout=20) == 10
    assert await run.reply("../..") == {"total": 10}
    with pytest.raises(errors.Conflict, match="has ended"):
        await run.request("add", 1)


async def test_a_reply_that_comes_later_is_waited_for(client: Client) -> None:
    run = await client.start(workflows.cart)
    with pytest.raises(TimeoutError, match=r"has not replied to the request slow within 0\.1 s"):
        await run.request("add", 0, request_id="slow", timeout=0.1)
    waits = [asyncio.create_task(run.reply("slow")), asyncio.create_task(run.request("add", 0, request_id="slow"))]
    assert await run.raise_event("go", "at last")
    assert await asyncio.gather(*waits) == ["at last", "at last"]


async def test_an_event_with_an_id_counts_once(client: Client) -> None:
    run = await client.start(workflows.adding, 2)
    for event_id, number in (("a", 1), ("a", 1), ("b", 10)):
        await run.raise_event("numbers", number, event_id=event_id)
    assert await run.result(timeout=20) == 11


async def test_suspended_it_rests_until_it_is_resumed(client: Client) -> None:
    run = await client.start(workflows.adding, 1)
    await run.suspend("maintenance")
    await run.suspend()
    assert await status_of(run) == "SUSPENDED"
    await run.raise_event("numbers", 5)
    with pytest.raises(TimeoutError, match="SUSPENDED"):
        await run.result(timeout=0.2)
    await run.resume()
    assert await run.result(timeout=20) == 5


async def test_deleted_when_it_has_ended_or_when_forced(client: Client, instance_id: str) -> None:
    run = await client.start(workflows.approval, instance_id=instance_id)
    with pytest.raises(errors.Conflict, match="not ended"):
        await run.delete()
    await run.delete(force=True)
    for call in (run.status, run.delete, run.result, run.cancel):
        with pytest.raises(errors.NotFound):
            await call()
    assert (await client.start(workflows.greeting, "ann", instance_id=instance_id)).created


async def test_the_status_says_what_is_known(client: Client, instance_id: str) -> None:
    run = await client.start(workflows.approval, instance_id=instance_id)
    status = await run.status()
    assert (status.instance_id, status.name, status.version) == (instance_id, "approval", "1")
    assert (status.status, status.custom_status, status.ended, status.ended_at) == ("RUNNING", "waits", False, None)
    assert (status.input, status.output, status.error, status.parent) == (None, None, None, None)
    assert (status.execution_id, status.events) == (1, 2)
    assert abs(datetime.now(UTC) - status.created_at) < timedelta(minutes=1)


async def test_the_history_is_read_page_by_page(proxy: FaultyProxy, disturbed_client: Client) -> None:
    run = await disturbed_client.start(workflows.checkout, Order(number=1, lines=["oar"] * 20))
    await run.result(timeout=20)
    events = [event async for event in run.history(page_size=10)]
    assert proxy.times("/history") == 5
    assert [event.seq for event in events] == list(range(1, 43))
    assert [events[0].type, events[-1].type] == ["OrchestrationStarted", "OrchestrationCompleted"]
    scheduled = events[1]
    assert (scheduled.type, scheduled.execution_id) == ("ActivityScheduled", 1)
    assert (scheduled.details["name"], scheduled.details["input"]) == ("ship", "oar")


async def test_continued_as_new_it_gives_the_last_result(client: Client) -> None:
    assert await (await client.start(workflows.counting)).result(timeout=20) == 4
    assert await (await client.start(workflows.counting, 1)).result(timeout=20) == 2


async def test_the_list_can_be_narrowed(client: Client, instance_id: str) -> None:
    await client.start(workflows.approval, instance_id=instance_id)
    ended = await client.start(workflows.greeting, "ann", instance_id=f"{instance_id}-ended")
    await ended.result(timeout=20)

    async def listed() -> bool:
        found = {one.instance_id: one async for one in client.orchestrations(page_size=3)}
        # The list is kept off the hot path: it may be a moment behind.
        return instance_id in found and found.get(ended.instance_id, found[instance_id]).status == "COMPLETED"

    await eventually(listed, what="both are listed")
    named = {one.instance_id async for one in client.orchestrations(name="greeting")}
    running = {one.instance_id async for one in client.orchestrations(status="RUNNING")}
    assert {instance_id, ended.instance_id} & named == {ended.instance_id}
    assert {instance_id, ended.instance_id} & running == {instance_id}
    with pytest.raises(errors.InvalidRequest, match="status"):
        [one async for one in client.orchestrations(status="TIRED")]


@pytest.mark.parametrize("fault", [lose_answer, unavailable], ids=lambda fault: fault.__name__)
async def test_a_start_is_repeated_and_runs_once(proxy: FaultyProxy, disturbed_client: Client, fault: Any) -> None:
    proxy.on("/start", fault)
    run = await disturbed_client.start(workflows.checkout, Order(number=1, lines=["oar"]))
    assert run.created
    assert await run.result(timeout=20) == Receipt(number=1, shipped=["oar shipped"])
    assert proxy.times("/start") == 2


async def test_an_event_whose_answer_is_lost_counts_once(proxy: FaultyProxy, disturbed_client: Client) -> None:
    run = await disturbed_client.start(workflows.adding, 2)
    proxy.on("/numbers", lose_answer)
    await run.raise_event("numbers", 1)
    await run.raise_event("numbers", 10)
    assert await run.result(timeout=20) == 11
    assert proxy.times("/numbers") == 3


async def test_a_cancellation_or_deletion_whose_answer_is_lost_is_done(
    proxy: FaultyProxy, disturbed_client: Client
) -> None:
    run = await disturbed_client.start(workflows.approval)
    proxy.on("/cancel", lose_answer)
    await run.cancel("enough")
    assert await status_of(run) == "CANCELLED"
    with pytest.raises(errors.Conflict):
        await run.cancel()
    proxy.on(f"/orchestrations/{run.instance_id}", lose_answer)
    await run.delete()
    with pytest.raises(errors.NotFound):
        await run.delete()


async def test_waiting_survives_a_server_that_is_away_for_a_moment(
    proxy: FaultyProxy, disturbed_client: Client
) -> None:
    run = await disturbed_client.start(workflows.approval)
    proxy.on("/wait", unavailable, lose_answer)
    waiting = asyncio.create_task(run.result(timeout=1))
    with pytest.raises(TimeoutError):
        await waiting
    await run.raise_event("approved", "ann")
    assert await run.result(timeout=20) == "ann"
