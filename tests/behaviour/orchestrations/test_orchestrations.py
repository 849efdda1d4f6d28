"""Orchestrations from start to end: what runs, what is answered, what the history says."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import STATUS_FIELDS, Run, accepted, delivered, start
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

JSON_VALUES: list[Any] = [None, True, 0, -1, 2**53, 1.5, "", 'ü𝄞\u2028"\\', [], [1, [None]], {}, {"a": {"": [0]}}]


@on_every_stack
async def test_a_start_runs_once_whoever_asks_again(server: Server) -> None:
    run = Run(server)
    first, again = await run.start("countdown", 0), await run.start("countdown", 5)
    assert (first.status, first.body) == (202, {"instance_id": run.id, "created": True})
    assert (again.status, again.body) == (200, {"instance_id": run.id, "created": False})
    await run.output()
    after_its_end = await run.start("echo", 1)
    assert (after_its_end.status, after_its_end.body) == (200, {"instance_id": run.id, "created": False})
    assert run.effects() == [0]
    assert (await run.status())["input"] == 0


@on_every_stack
async def test_twenty_starts_at_once_of_one_id(server: Server) -> None:
    run = Run(server)
    answers = await asyncio.gather(*(run.start("countdown", 0) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [200] * 19 + [202]
    await run.output()
    assert run.effects() == [0]


@on_every_stack
async def test_an_id_is_made_up(server: Server) -> None:
    ids = set()
    for _ in range(2):
        answer = await start(server, "echo", input=1)
        assert (answer.status, answer.body["created"]) == (202, True)
        ids.add(answer.body["instance_id"])
    assert len(ids) == 2


@on_every_stack
async def test_versions(server: Server) -> None:
    for version, said in ((None, "ahoy"), ("1", "hello"), ("2", "ahoy")):
        run = Run(server, str(version))
        await run.start("greeting", version=version)
        assert await run.output() == said
        assert (await run.status())["version"] == (version or "2")


@on_every_stack
async def test_the_status_has_every_field(server: Server) -> None:
    run = await Run(server).begin("waiting")
    before = await run.status()
    assert before.keys() == STATUS_FIELDS
    assert before | {"created_at": 0, "updated_at": 0} == {
        "instance_id": run.id,
        "name": "waiting",
        "version": "1",
        "status": "RUNNING",
        "input": None,
        "output": None,
        "error": None,
        "custom_status": {"waits": True},
        "tags": {},
        "priority": 0,
        "execution_id": 1,
        "events": 2,
        "created_at": 0,
        "updated_at": 0,
        "ended_at": None,
        "waiting_for": [
            {"kind": "event", "name": "go", "since": before["waiting_for"][0]["since"], "scheduled_seq": 2}
        ],
    }
    delivered(await run.raise_event("go", {"a": 1}))
    after = await run.ended()
    assert after.keys() == STATUS_FIELDS
    assert (after["status"], after["output"], after["events"]) == ("COMPLETED", {"a": 1}, 4)
    assert after["waiting_for"] == []
    assert after["created_at"] == before["created_at"]
    assert _moment(before["created_at"]) <= _moment(after["updated_at"]) == _moment(after["ended_at"])
    for moment in (after["created_at"], after["ended_at"]):
        assert _moment(moment).utcoffset() == timedelta(0)


@on_every_stack
async def test_any_json_goes_in_and_comes_out(server: Server) -> None:
    for number, value in enumerate(JSON_VALUES):
        run = await Run(server, str(number)).begin("echo", value)
        status = await run.ended()
        assert (status["input"], status["output"]) == (value, value)


@on_every_stack
async def test_typed_both_ways(server: Server) -> None:
    run = await Run(server).begin("typed", {"number": 7, "lines": ["a", "b"]})
    assert await run.output() == {"number": 7, "shipped": ["a shipped", "b shipped"]}


@on_every_stack
async def test_every_event_is_in_the_history(server: Server) -> None:
    run = await Run(server).begin("everything")
    await run.waits_for("EventSubscribed")
    assert (await run.status())["custom_status"] == "waits"
    delivered(await run.raise_event("go", [1]))
    assert await run.output() == [8, "NonRetryable", "child", "RuntimeError", [1]]
    events = await run.history()
    assert [event["type"] for event in events] == [
        "OrchestrationStarted",
        "ActivityScheduled",
        "ActivityCompleted",
        "ActivityScheduled",
        "ActivityFailed",
        "TimerCreated",
        "TimerFired",
        "SubOrchestrationScheduled",
        "SubOrchestrationCompleted",
        "SubOrchestrationScheduled",
        "SubOrchestrationFailed",
        "EventSubscribed",
        "EventRaised",
        "OrchestrationCompleted",
    ]
    assert {event["execution_id"] for event in events} == {1}
    scheduled, failed, raised, ended = events[1], events[4], events[12], events[13]
    assert (scheduled["name"], scheduled["input"], scheduled["queue"]) == ("double", 4, "activities")
    assert events[2]["result"] == 8
    assert "in refuse" in failed["error"].pop("traceback")
    assert failed["error"] == {"type": "NonRetryable", "message": "never", "kind": "error"}
    assert (raised["name"], raised["data"], raised["scheduled_seq"]) == ("go", [1], 12)
    assert ended["output"] == [8, "NonRetryable", "child", "RuntimeError", [1]]


@on_every_stack
async def test_a_history_comes_in_pages(server: Server) -> None:
    run = await Run(server).begin("fan_out", 50)
    assert await run.output() == 50 * 49
    whole = await run.history()
    assert len(whole) == 102
    assert await run.history(limit=7) == whole
    assert await run.history(limit=102) == whole
    page = (await run.get("/history", limit=3, cursor=5)).ok()
    assert ([event["seq"] for event in page["events"]], page["next_cursor"]) == ([6, 7, 8], "8")
    assert (await run.get("/history", cursor=102)).ok() == {"events": []}


@on_every_stack
async def test_sleep_and_timeout(server: Server) -> None:
    nap, hurry = await Run(server, "nap").begin("napping", 0.3), await Run(server, "hurry").begin("impatient")
    assert 0.3 <= await nap.output() < 10
    assert await nap.types() == ["OrchestrationStarted", "TimerCreated", "TimerFired", "OrchestrationCompleted"]
    _, created, fired, _ = await nap.history()
    assert _moment(created["fire_at"]) <= _moment(fired["timestamp"])
    assert await hurry.output() == "gave up"
    # It no longer waits: what comes now is refused as for any that has ended.
    (await hurry.raise_event("never")).refused(409, "CONFLICT")


@on_every_stack
async def test_fan_out(server: Server) -> None:
    run = await Run(server).begin("fan_out", 200)
    assert await run.output() == 200 * 199
    types = await run.types()
    # All are scheduled before the first is answered.
    assert types[1:201] == ["ActivityScheduled"] * 200
    assert types[201:401] == ["ActivityCompleted"] * 200
    assert sorted(run.effects()) == list(range(200))


@on_every_stack
async def test_continue_as_new(server: Server) -> None:
    run = await Run(server).begin("countdown", 3)
    assert await run.output() == {"execution_id": 4}
    status = await run.status()
    assert (status["execution_id"], status["input"], status["events"]) == (4, 0, 4)
    events = await run.history()
    assert {event["execution_id"] for event in events} == {4}
    assert run.effects() == [3, 2, 1, 0]
    assert len(run.effect_keys()) == 4


@on_every_stack
async def test_the_histories_of_the_last_ten_executions_are_kept(server: Server) -> None:
    run = await Run(server).begin("countdown", 12)
    assert await run.output() == {"execution_id": 13}
    for execution_id in range(4, 13):
        events = await run.history(limit=3, execution_id=execution_id)
        assert [event["type"] for event in events] == [
            "OrchestrationStarted",
            "ActivityScheduled",
            "ActivityCompleted",
            "ContinuedAsNew",
        ]
        assert {event["execution_id"] for event in events} == {execution_id}
        assert (events[0]["input"], events[3]["input"]) == (13 - execution_id, 12 - execution_id)
    for execution_id in (1, 2, 14):
        (await run.get("/history", execution_id=execution_id)).refused(404, "NOT_FOUND")
    (await run.get("/history", execution_id=0)).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_a_child_gives_its_output(server: Server) -> None:
    run = await Run(server).begin("parent", "waiting")
    child = run.child
    await eventually(child.is_found)
    assert (await child.status())["parent"] == {"instance_id": run.id, "execution_id": 1, "scheduled_seq": 2}
    delivered(await child.raise_event("go", "done"))
    assert await run.output() == "done"
    assert (await child.status())["status"] == "COMPLETED"


@on_every_stack
async def test_a_child_that_fails_fails_its_parent_unless_it_is_caught(server: Server) -> None:
    run = await Run(server).begin("parent", "broken")
    error = await run.error()
    assert (error["type"], error["kind"]) == ("SubOrchestrationFailed", "error")
    assert "broken on purpose" in error["message"]
    assert (await run.child.error())["message"] == "broken on purpose"


@on_every_stack
async def test_a_child_whose_id_is_taken_is_refused(server: Server) -> None:
    run = Run(server)
    await run.child.begin("waiting")
    await run.begin("parent", "echo")
    error = await run.error()
    assert error["type"] == "SubOrchestrationFailed"
    assert f"{run.id}-child" in error["message"]
    assert (await run.child.status())["status"] == "RUNNING"


@on_every_stack
async def test_a_detached_child_lives_on(server: Server) -> None:
    run = await Run(server).begin("starter", "waiting")
    assert await run.output() == run.child.id
    child = run.child
    await eventually(child.is_found)
    assert "parent" not in await child.status()
    delivered(await child.raise_event("go", 1))
    assert await child.output() == 1


@pytest.mark.parametrize("data", [*JSON_VALUES[:6], ["list"], {"a": 1}], ids=repr)
@on_every_stack
async def test_an_event_carries_any_json(server: Server, data: Any) -> None:
    run = await Run(server).begin("waiting")
    delivered(await run.raise_event("go", data))
    assert await run.output() == data


@on_every_stack
async def test_an_event_that_nothing_waits_for_is_dropped(server: Server) -> None:
    run = await Run(server).begin("waiting")
    before = await run.stored()
    delivered(await run.raise_event("stop", 1), is_so=False)
    assert await run.stored() == before
    delivered(await run.raise_event("go", 2))
    assert await run.output() == 2
    assert [event["data"] for event in await run.history() if event["type"] == "EventRaised"] == [2]


@on_every_stack
async def test_an_event_of_the_wrong_type_is_refused_and_the_right_one_taken(server: Server) -> None:
    run = await Run(server).begin("approval")
    for wrong in (None, 1, "text", [], {}, {"number": "x"}):
        body = (await run.raise_event("approved", wrong)).refused(400, "INVALID_REQUEST")
        assert "approved" in body["message"]
    assert (await run.status())["status"] == "RUNNING"
    delivered(await run.raise_event("approved", {"number": 1}))
    assert await run.output() == {"number": 1, "lines": []}


@on_every_stack
async def test_a_typed_mailbox_takes_what_fits_also_while_it_is_suspended(server: Server) -> None:
    run = await Run(server).begin("numbered", 2)
    for suspended in (False, True):
        if suspended:
            accepted(await run.tell("suspend"))
        for wrong in (None, "text", [], {"number": "x"}):
            body = (await run.raise_event("orders", wrong)).refused(400, "INVALID_REQUEST")
            assert "the mailbox orders" in body["message"]
        delivered(await run.raise_event("orders", {"number": 1}))
    assert (await run.types()).count("EventRaised") == 2
    accepted(await run.tell("resume"))
    assert await run.output() == [1, 1]


@on_every_stack
async def test_an_event_with_an_id_counts_once(server: Server) -> None:
    run = await Run(server).begin("reading", 2)
    for _ in range(3):
        delivered(await run.raise_event("letters", "a", event_id="first"))
    delivered(await run.raise_event("letters", "a", event_id="second"))
    delivered(await run.raise_event("go"))
    assert await run.output() == ["a", "a"]
    assert [event.get("event_id") for event in await run.history() if event["type"] == "EventRaised"] == [
        "first",
        "second",
        None,
    ]


@on_every_stack
async def test_a_mailbox_keeps_all_in_order(server: Server) -> None:
    run = await Run(server).begin("reading", 20)
    for letter in range(10):
        delivered(await run.raise_event("letters", letter))
    delivered(await run.raise_event("go"))
    await run.waits_for("EventRaised")
    for letter in range(10, 20):
        delivered(await run.raise_event("letters", letter))
    assert await run.output() == list(range(20))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
