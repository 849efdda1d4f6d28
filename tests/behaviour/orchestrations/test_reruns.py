"""Reruns: a new instance goes on from a part of the history of another one, which does not change."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.orchestrations.test_lists import listed
from tests.behaviour.stacks import on_every_stack
from tests.support.runs import STATUS_FIELDS, Run, accepted
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

WRONG_BODIES: list[Any] = [
    [],
    {"from_seq": 0},
    {"from_seq": -1},
    {"from_seq": "2"},
    {"from_seq": True},
    {"from_seq": 4},
    {"from_seq": 2, "from": "failure"},
    {"from": "start"},
    {"from": 2},
    {"from_": "failure"},
    {"instance_id": "a/b"},
    {"instance_id": "bulk"},
    {"instance_id": ""},
    {"version": 1},
    {"execution_id": 0},
    {"colour": "blue"},
]


async def _rerun(run: Run, **body: Any) -> Answer:
    path = f"/orchestrations/{run.id}/rerun"
    return await run.server.request("POST", path, json.dumps(body).encode() if body else None)


async def _reran(run: Run, suffix: str, **body: Any) -> Run:
    again = Run(run.server, suffix)
    answer = await _rerun(run, instance_id=again.id, **body)
    assert (answer.status, answer.body) == (202, {"instance_id": again.id, "created": True}), answer.text
    return again


def _mend(run: Run) -> None:
    (run.server.stack.folder / f"mended-{run.id}").touch()


async def _failed(server: Server) -> Run:
    """Returns an instance whose second activity has failed."""
    run = Run(server)
    await run.start("packing", run.id, tags={"customer": "acme"})
    await run.error()
    return run


@on_every_stack
async def test_the_step_that_failed_is_tried_again_and_nothing_before_it(server: Server) -> None:
    run = await _failed(server)
    history, status, stored = await run.history(), await run.status(), await run.stored()
    _mend(run)
    again = await _reran(run, "again", **{"from": "failure"})
    assert await again.output() == [8, f"{run.id} packed", again.id]
    assert (run.effects(), again.effects()) == ([4, "packs"], ["packs"])
    # The history up to the failure is copied, with its times.
    assert [event["type"] for event in history[4:]] == ["ActivityScheduled", "ActivityFailed", "OrchestrationFailed"]
    copied = await again.history()
    assert copied[:5] == history[:5]
    assert [event["type"] for event in copied[5:]] == ["ActivityCompleted", "OrchestrationCompleted"]
    new = await again.status()
    assert set(new) == STATUS_FIELDS | {"rerun_of"}
    assert new["rerun_of"] == {"instance_id": run.id, "execution_id": 1, "from_seq": 6}
    assert new["tags"] == {"customer": "acme", "stage": "packing"}
    assert datetime.fromisoformat(new["created_at"]) >= datetime.fromisoformat(status["ended_at"])
    # The source has not changed, except that it lists the rerun.
    assert await run.history() == history
    assert await run.status() == status | {"reruns": [again.id]}
    changed = await run.stored()
    assert changed["instance"].pop("reruns") == [again.id]
    for head in (changed["instance"], stored["instance"]):
        for own in ("outbox", "outbox_entries"):
            head.pop(own)
    assert changed == stored
    # A rerun can be rerun, from events that it copied too.
    third = await _reran(again, "third", from_seq=3)
    assert await third.output() == [8, f"{run.id} packed", third.id]
    assert (await third.status())["rerun_of"] == {"instance_id": again.id, "execution_id": 1, "from_seq": 3}


@on_every_stack
async def test_the_same_rerun_again_changes_nothing_and_the_id_is_taken_for_any_other(server: Server) -> None:
    run = await _failed(server)
    other = await Run(server, "other").begin("echo", 1)
    again = await _reran(run, "again", from_seq=4)
    answer = await _rerun(run, instance_id=again.id, from_seq=4)
    assert (answer.status, answer.body) == (200, {"instance_id": again.id, "created": False})
    await again.error()
    assert again.effects() == [4, "packs"]
    for fields in ({}, {"from_seq": 3}, {"from": "failure"}):
        (await _rerun(run, instance_id=again.id, **fields)).refused(409, "CONFLICT")
    for taken in (run.id, other.id):
        (await _rerun(run, instance_id=taken, from_seq=4)).refused(409, "CONFLICT")
    (await _rerun(other, **{"from": "failure"})).refused(409, "CONFLICT")
    assert (await run.status())["reruns"] == [again.id]


@pytest.mark.parametrize("body", WRONG_BODIES, ids=json.dumps)
@on_every_stack
async def test_wrong_bodies_are_refused(server: Server, body: Any) -> None:
    run = Run(server)
    run.id = "rerun-refused"
    await run.start("echo", 1)
    await run.ended()
    sent = json.dumps(body).encode()
    answer = await server.request("POST", f"/orchestrations/{run.id}/rerun", sent)
    answer.refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_what_is_not_there_is_not_rerun(server: Server) -> None:
    (await _rerun(Run(server, "unknown"))).refused(404, "NOT_FOUND")
    run = await Run(server).begin("greeting")
    (await _rerun(run, version="3")).refused(404, "NOT_FOUND")
    (await _rerun(run, execution_id=2)).refused(404, "NOT_FOUND")


@on_every_stack
async def test_from_the_start_with_the_same_input_in_any_version(server: Server) -> None:
    run = Run(server)
    await run.start("greeting", version="1")
    assert await run.output() == "hello"
    made = (await _rerun(run)).body["instance_id"]
    again = Run(server)
    again.id = made
    assert await again.output() == "hello"
    later = await _reran(run, "later", version="2")
    assert await later.output() == "ahoy"
    assert ((await again.status())["version"], (await later.status())["version"]) == ("1", "2")
    assert (await run.status())["reruns"] == [again.id, later.id]


@on_every_stack
async def test_a_child_without_an_answer_is_started_again_under_a_new_id(server: Server) -> None:
    run = Run(server)
    await run.start("parent", "waiting")
    await run.child.waits_for("EventSubscribed")
    accepted(await run.tell("suspend"))
    again = await _reran(run, "again", from_seq=3)
    accepted(await run.tell("resume"))
    late = await _reran(run, "late", from_seq=1)
    child, other = Run(server), late.child
    [*_, scheduled] = await again.history()
    child.id = scheduled["instance_id"]
    assert child.id != run.child.id
    # A child of an own name that the code gives it is another one if its parent is.
    for waiting, data in ((run.child, 1), (child, 2), (other, 3)):
        await eventually(waiting.is_found)
        await waiting.waits_for("EventSubscribed")
        accepted(await waiting.raise_event("go", data))
    assert [await one.output() for one in (run, again, late)] == [1, 2, 3]
    assert (await child.status())["parent"]["instance_id"] == again.id
    # A rerun of a child has no parent.
    orphan = await _reran(run.child, "orphan", from_seq=3)
    accepted(await orphan.raise_event("go", 4))
    assert "parent" not in await orphan.ended()
    assert await run.output() == 1


@on_every_stack
async def test_executions_after_the_first_and_the_mail_that_waits_for_them(server: Server) -> None:
    run = await Run(server).begin("collecting", [])
    accepted(await run.tell("suspend"))
    for letter in ("a", "b", "c"):
        accepted(await run.raise_event("letters", letter))
    accepted(await run.tell("resume"))
    await eventually(lambda: _is_in_execution(run, 4))
    latest = await _reran(run, "latest")
    second = await _reran(run, "second", execution_id=2)
    for rerun in (run, latest, second):
        accepted(await rerun.raise_event("letters", "end"))
    assert [await one.output() for one in (run, latest, second)] == [["a", "b", "c", "end"]] * 3
    # Unread mail of its start is copied; the numbers of executions go on.
    assert (await second.status())["execution_id"] == 4
    assert (await second.status())["rerun_of"] == {"instance_id": run.id, "execution_id": 2, "from_seq": 1}
    assert [event["execution_id"] for event in await second.history(execution_id=2)] == [2, 2]


async def _is_in_execution(run: Run, execution_id: int) -> bool:
    return bool((await run.status())["execution_id"] == execution_id)


@on_every_stack
async def test_all_that_failed_are_rerun_in_bulk_and_each_failure_once(server: Server) -> None:
    runs = [Run(server, suffix) for suffix in ("a", "b")]
    for run in runs:
        await run.start("packing", run.id)
        await run.error()
    await Run(server, "c").start("broken")
    await listed(server, 3, status="FAILED")
    _mend(runs[0])
    body = {"action": "rerun", "filter": {"id_prefix": server.name, "status": "FAILED"}}
    sent = json.dumps(body).encode()
    answer = (await server.request("POST", "/orchestrations/bulk", sent)).ok()
    assert answer == {"matched": 3, "done": 2, "failed": [f"{server.name}-c"]}
    mended, failed = await _only_rerun(runs[0]), await _only_rerun(runs[1])
    assert (await mended.output())[1] == f"{runs[0].id} packed"
    await failed.error()
    # Once more: the failure of the rerun is rerun, those of before are not.
    _mend(runs[1])
    await listed(server, 4, status="FAILED")
    answer = (await server.request("POST", "/orchestrations/bulk", sent)).ok()
    assert answer == {"matched": 4, "done": 3, "failed": [f"{server.name}-c"]}
    assert (await (await _only_rerun(failed)).output())[1] == f"{runs[1].id} packed"
    assert [len(run.effects()) for run in (*runs, mended, failed)] == [2, 2, 1, 1]


async def _only_rerun(run: Run) -> Run:
    [instance_id] = (await run.status())["reruns"]
    again = Run(run.server)
    again.id = instance_id
    return again
