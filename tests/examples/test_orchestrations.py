"""The examples do what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from examples import meter, orders, words
from examples.orders import Order, Outcome
from holdfast import errors
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from holdfast import Client
    from holdfast.client import Run


async def done(run: Run[Any]) -> list[str]:
    """The activities that came to a good end."""
    events = {event.seq: event async for event in run.history()}
    return [
        events[event.details["scheduled_seq"]].details["name"]
        for event in events.values()
        if event.type == "ActivityCompleted"
    ]


async def says(run: Run[Any], status: Any) -> bool:
    return bool((await run.status()).custom_status == status)


async def test_an_order_is_paid_and_shipped(client: Client) -> None:
    run = await client.start(orders.order, Order(customer="ann", lines=["oar", "rope"], total=99))
    assert await run.result(timeout=30) == Outcome(status="shipped", parcels=["oar", "rope"])
    assert sorted(await done(run)) == ["charge", "ship", "ship"]


async def test_a_large_order_waits_for_approval(client: Client) -> None:
    run = await client.start(orders.order, Order(customer="ann", lines=["oar"], total=250))
    await eventually(lambda: says(run, "waits for approval"), what="it says that it waits")
    assert await done(run) == []
    await run.raise_event("approved", orders.Approval(by="bob"))
    assert await run.result(timeout=30) == Outcome(status="shipped", approved_by="bob", parcels=["oar"])


async def test_an_order_that_nobody_approves_costs_nothing(client: Client) -> None:
    run = await client.start(orders.order, Order(customer="ann", lines=["oar"], total=250, patience_seconds=0.2))
    outcome = await run.result(timeout=30)
    assert (outcome.status, outcome.reason) == ("not approved", "not approved in time")
    assert await done(run) == []


async def test_an_order_that_cannot_be_shipped_whole_is_taken_back(client: Client) -> None:
    lines = ["oar", orders.SOLD_OUT, "rope"]
    run = await client.start(orders.order, Order(customer="ann", lines=lines, total=99))
    outcome = await run.result(timeout=30)
    assert (outcome.status, outcome.reason) == ("refunded", "kedges are sold out")
    told = await done(run)
    assert sorted(told) == ["call_back", "call_back", "charge", "refund", "ship", "ship"]
    assert told[-1] == "refund"


async def test_pages_are_counted_in_parallel(client: Client) -> None:
    run = await client.start(words.count_words, ["to be or not to be"] * 30 + ["that is the question"] * 20)
    counted = await run.result(timeout=60)
    assert counted == {"to": 60, "be": 60, "or": 30, "not": 30, "that": 20, "is": 20, "the": 20, "question": 20}
    assert (await run.status()).custom_status == {"pages": 50, "counted": 50}


async def test_a_meter_reports_again_and_again_and_loses_no_reading(client: Client) -> None:
    run = await client.start(meter.meter, meter.Meter(period=0.2))
    for reading in range(20):
        await run.raise_event("readings", reading)

    async def reported_all() -> bool:
        told = (await run.status()).custom_status
        return bool(told["reports"] >= 3 and told["total"] == sum(range(20)))

    await eventually(reported_all, what="three reports, and all readings in them")
    status = await run.status()
    assert status.execution_id > 3
    assert status.status == "RUNNING"
    await run.cancel()
    with pytest.raises(errors.OrchestrationCancelled):
        await run.result(timeout=20)
