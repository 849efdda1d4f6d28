"""Options of a start: a later time, a first event, the priority of the instance's activities."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

LATER = "2999-12-31T23:59:59Z"


def _soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def _listed(server: Server, status: str) -> set[str]:
    page = (await server.request("GET", "/orchestrations", query={"status": status, "limit": 100})).ok()
    return {entry["instance_id"] for entry in page["orchestrations"]}


# Delayed starts


@on_every_stack
async def test_the_code_begins_at_the_time_and_mail_of_before_is_kept(server: Server) -> None:
    run, at = Run(server), _soon(2)
    answer = await run.start("scheduled", start_at=at)
    assert (answer.status, answer.body) == (202, {"instance_id": run.id, "created": True})
    assert (await run.status())["status"] == "PENDING"
    accepted(await run.raise_event("letters", "early"))
    began, letter = await run.output()
    assert letter == "early"
    assert datetime.fromisoformat(began) >= datetime.fromisoformat(at)
    started, created, raised, *_ = await run.history()
    assert [started["start_at"], created["fire_at"]] == [_exactly(at)] * 2
    assert raised["type"] == "EventRaised"


@on_every_stack
async def test_until_then_it_is_listed_as_pending_and_may_be_cancelled_or_deleted(server: Server) -> None:
    cancelled, deleted = Run(server, "cancelled"), Run(server, "deleted")
    for run in (cancelled, deleted):
        await run.start("cleaning_up", start_at=LATER)

    async def listed() -> bool:
        return {cancelled.id, deleted.id} <= await _listed(server, "PENDING")

    await eventually(listed)
    accepted(await cancelled.tell("cancel", reason="not wanted"))
    status = await cancelled.ended()
    # Its code never began, so it has nothing to clean up.
    assert (status["status"], status["reason"], status["custom_status"]) == ("CANCELLED", "not wanted", None)
    (await deleted.delete()).refused(409, "CONFLICT")
    assert (await deleted.delete(force="true")).status == 200
    assert not await deleted.is_found()

    async def gone() -> bool:
        return not ({cancelled.id, deleted.id} & await _listed(server, "PENDING"))

    await eventually(gone)
    assert (await deleted.start("echo", 1)).status == 202
    assert await deleted.output() == 1


@on_every_stack
async def test_a_time_that_has_passed_is_now(server: Server) -> None:
    run = Run(server)
    await run.start("echo", 1, start_at="2001-01-01")
    assert await run.output() == 1
    assert "TimerCreated" not in await run.types()


@on_every_stack
async def test_one_that_is_suspended_before_begins_when_it_is_resumed(server: Server) -> None:
    run = Run(server)
    await run.start("echo", 1, start_at=_soon(0.5))
    accepted(await run.tell("suspend"))
    assert (await run.status())["status"] == "SUSPENDED"
    await asyncio.sleep(1)
    assert (await run.status())["status"] == "SUSPENDED"
    accepted(await run.tell("resume"))
    assert await run.output() == 1


@on_every_stack
async def test_events_that_no_mailbox_takes_are_dropped_until_it_begins(server: Server) -> None:
    run = Run(server)
    answer = await run.start("waiting", start_at=LATER, event={"name": "go", "data": 1})
    assert (answer.status, answer.body["delivered"]) == (202, False)
    assert await run.types() == ["OrchestrationStarted", "TimerCreated"]


# Events with a start


@on_every_stack
async def test_the_event_reaches_the_first_step(server: Server) -> None:
    run = Run(server)
    answer = await run.start("waiting", event={"name": "go", "data": {"a": 1}})
    assert (answer.status, answer.body) == (202, {"instance_id": run.id, "created": True, "delivered": True})
    assert await run.output() == {"a": 1}


@on_every_stack
async def test_the_event_reaches_an_instance_that_was_there(server: Server) -> None:
    run = Run(server)
    for number, created in enumerate((True, False, False)):
        event = {"name": "letters", "data": number if number < 2 else "end"}
        answer = await run.start("collecting", [], event=event)
        assert (answer.status, answer.body["created"], answer.body["delivered"]) == (
            202 if created else 200,
            created,
            True,
        )
    assert await run.output() == [0, 1, "end"]


@on_every_stack
async def test_an_event_with_an_id_counts_once(server: Server) -> None:
    run = Run(server)
    for event_id in ("a", "a", "b"):
        event = {"name": "letters", "data": event_id, "event_id": event_id}
        assert (await run.start("collecting", [], event=event)).body["delivered"] is True
    accepted(await run.raise_event("letters", "again", event_id="b"))
    accepted(await run.raise_event("letters", "end"))
    assert await run.output() == ["a", "b", "end"]


@on_every_stack
async def test_twenty_signals_at_once_start_one_instance_and_all_arrive(server: Server) -> None:
    run = Run(server)
    answers = await asyncio.gather(
        *(run.start("collecting", [], event={"name": "letters", "data": number}) for number in range(20))
    )
    assert sorted(answer.status for answer in answers) == [200] * 19 + [202]
    await run.raise_event("letters", "end")
    *letters, end = await run.output()
    assert (sorted(letters), end) == ([*range(20)], "end")


@on_every_stack
async def test_an_event_for_an_ended_instance_is_a_conflict_unless_it_came_before(server: Server) -> None:
    run = Run(server)
    event = {"name": "go", "event_id": "once"}
    await run.start("waiting", event=event)
    await run.ended()
    assert (await run.start("waiting")).status == 200
    answer = await run.start("waiting", event=event)
    assert (answer.status, answer.body) == (200, {"instance_id": run.id, "created": False, "delivered": True})
    (await run.start("waiting", event={"name": "go"})).refused(409, "CONFLICT")


@on_every_stack
async def test_an_event_that_its_instance_refuses_starts_nothing(server: Server) -> None:
    run = Run(server)
    wrong: Any = {"name": "approved", "data": {"number": "seven"}}
    assert "approved" in (await run.start("approval", event=wrong)).refused(400, "INVALID_REQUEST")["message"]
    assert await run.stored() == {}
    assert not await run.is_found()
    answer = await run.start("approval", event={"name": "approved", "data": {"number": 7}})
    assert answer.body["created"] is True
    assert await run.output() == {"number": 7, "lines": []}


@on_every_stack
async def test_an_instance_that_ends_in_its_first_step_drops_the_event(server: Server) -> None:
    run = Run(server)
    answer = await run.start("echo", 1, event={"name": "go"})
    assert (answer.status, answer.body["created"], answer.body["delivered"]) == (202, True, False)
    assert await run.output() == 1


# Priorities


@on_every_stack
async def test_activities_have_the_priority_of_their_call_or_of_their_instance(server: Server) -> None:
    queue = server.queue()
    queue.name = "prioritised"
    (await queue.configure(paused=True)).ok()
    try:
        urgent, usual = Run(server, "urgent"), Run(server, "usual")
        await usual.start("noting", "usual")
        await urgent.start("noting", "urgent", priority=3)
        assert (await urgent.status())["priority"] == 3

        async def queued() -> bool:
            return bool((await queue.stats())["count"] >= 6)

        await eventually(queued)
        waiting = [(message["priority"], item["input"]) for item, message in await _waiting(queue)]
        own = [(priority, text) for priority, text in waiting if text.split()[0] in ("urgent", "usual")]
        assert [priority for priority, _ in own] == sorted(priority for priority, _ in own)
        assert sorted(own) == [
            (0, "urgent first"),
            (0, "usual"),
            (0, "usual first"),
            (3, "urgent"),
            (9, "urgent last"),
            (9, "usual last"),
        ]
        scheduled = [event for event in await urgent.history() if event["type"] == "ActivityScheduled"]
        assert [event.get("priority") for event in scheduled] == [3, None, 9]
    finally:
        (await queue.configure(paused=False)).ok()
    for run in (urgent, usual):
        await run.ended()
        assert len(run.effects()) == 3


async def _waiting(queue: Any) -> list[tuple[Any, Any]]:
    page = await queue.peek(count=100)
    return list(zip(page["items"], page["messages"], strict=True))


def _exactly(moment: str) -> str:
    """As the server writes a time."""
    return datetime.fromisoformat(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")
