"""Schedules over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.runtime.serialization import dump
from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server


class Schedule:
    def __init__(self, server: Server) -> None:
        self._server = server
        #: As unique as the id of an instance.
        self.name = f"{Run(server).id}-s"[-200:]

    async def put(self, **given: Any) -> Answer:
        body = {"orchestration": "echo", "every_seconds": 1, "input": 7} | given
        return await self._server.request("PUT", f"/schedules/{self.name}", dump(body))

    async def get(self) -> Any:
        return (await self._server.request("GET", f"/schedules/{self.name}")).ok()

    async def tell(self, what: str, **body: Any) -> Answer:
        return await self._server.request("POST", f"/schedules/{self.name}/{what}", dump(body) if body else None)

    async def delete(self) -> Answer:
        return await self._server.request("DELETE", f"/schedules/{self.name}")


@on_every_stack
async def test_a_schedule_runs_pauses_and_goes(server: Server) -> None:
    schedule = Schedule(server)
    made = (await schedule.put()).ok()
    assert (made["name"], made["missed"], len(made["next_at"])) == (schedule.name, 0, 5)

    async def has_run_twice() -> bool:
        last = (await schedule.get())["last"]
        return sum(tick.get("status") == "COMPLETED" for tick in last) >= 2

    await eventually(has_run_twice)
    assert (await schedule.tell("pause")).status == 202
    paused = await schedule.get()
    assert (paused["paused"], paused["next_at"]) == (True, [])
    triggered = await schedule.tell("trigger")
    assert triggered.status == 202
    # A manual start comes after no tick of the pause.
    status = await server.request(
        "GET", f"/orchestrations/{triggered.body['instance_id']}/wait", query={"timeout_seconds": 30}
    )
    assert (status.ok()["status"], status.ok()["output"]) == ("COMPLETED", 7)
    assert (await schedule.get())["last"] == paused["last"]

    async def is_listed() -> bool:
        page = (await server.request("GET", "/schedules", query={"limit": 100})).ok()
        return schedule.name in [found["name"] for found in page["schedules"]]

    await eventually(is_listed)
    assert (await schedule.delete()).status == 202
    (await schedule.delete()).refused(404, "NOT_FOUND")
    (await schedule.tell("trigger")).refused(404, "NOT_FOUND")

    async def is_gone() -> bool:
        return not await is_listed()

    await eventually(is_gone)


@on_every_stack
async def test_a_backfill_runs_past_ticks_once(server: Server) -> None:
    schedule = Schedule(server)
    (await schedule.put(every_seconds=None, cron="0 6 * * *", timezone="Europe/Berlin", paused=True)).ok()
    span = {"from": "2026-03-28T00:00:00Z", "to": "2026-03-31T00:00:00Z"}
    for _ in range(2):
        assert (await schedule.tell("backfill", **span)).body == {"success": True, "ticks": 3}
    # The clocks change on the 29th.
    ids = [f"{schedule.name}-{at}Z" for at in ("20260328T050000", "20260329T040000", "20260330T040000")]

    async def all_ran() -> bool:
        found = [await server.request("GET", f"/orchestrations/{instance_id}") for instance_id in ids]
        return all(answer.status == 200 and answer.body["status"] == "COMPLETED" for answer in found)

    await eventually(all_ran)
    (await schedule.tell("backfill", **{"from": "1990-01-01", "to": "2026-01-01"})).refused(400, "INVALID_REQUEST")
    (await schedule.tell("backfill", **{"from": "2026-01-02", "to": "2026-01-01"})).refused(400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"cron": "0 6 * * *"}, 400, "INVALID_REQUEST"),
        ({"every_seconds": True}, 400, "INVALID_REQUEST"),
        ({"every_seconds": "1"}, 400, "INVALID_REQUEST"),
        ({"every_seconds": None, "cron": "0 0 31 2 *"}, 400, "INVALID_REQUEST"),
        ({"timezone": "../../etc/passwd"}, 400, "INVALID_REQUEST"),
        ({"tags": {"a b": "c"}}, 400, "INVALID_REQUEST"),
        ({"orchestration": "there-is-none"}, 404, "NOT_FOUND"),
    ],
)
@on_every_stack
async def test_a_wrong_definition_is_refused(server: Server, given: dict[str, Any], status: int, code: str) -> None:
    schedule = Schedule(server)
    (await schedule.put(**given)).refused(status, code)
    (await server.request("GET", f"/schedules/{schedule.name}")).refused(404, "NOT_FOUND")


#: Calls to one schedule, and a body for those that need one.
CALLS: dict[tuple[str, str], Any] = {
    ("GET", ""): None,
    ("DELETE", ""): None,
    ("POST", "/pause"): None,
    ("POST", "/resume"): None,
    ("POST", "/trigger"): None,
    ("POST", "/backfill"): {"from": "2026-01-01", "to": "2026-01-02"},
}


@on_every_stack
async def test_calls_to_a_schedule_that_does_not_exist_or_cannot_are_refused(server: Server) -> None:
    name = Schedule(server).name
    for (verb, path), body in CALLS.items():
        sent = None if body is None else dump(body)
        (await server.request(verb, f"/schedules/{name}{path}", sent)).refused(404, "NOT_FOUND")
        for wrong in (".hidden", "a%20b", "x" * 201):
            (await server.request(verb, f"/schedules/{wrong}{path}", sent)).refused(400, "INVALID_REQUEST")
    for query in ("limit=0", "limit=101", "limit=many", "colour=blue", f"cursor={'x' * 201}"):
        (await server.request("GET", f"/schedules?{query}")).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_wrong_backfills_are_refused_and_start_nothing(server: Server) -> None:
    schedule = Schedule(server)
    (await schedule.put(paused=True, starts_at="2026-01-01T00:00:00Z")).ok()
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:16:41Z"}
    for wrong in ({}, {"from": "2026-01-01"}, {"to": "2026-01-01"}, span | {"from": 1}, span | {"from": "soon"}):
        (await schedule.tell("backfill", **wrong)).refused(400, "INVALID_REQUEST")
    assert "1000" in (await schedule.tell("backfill", **span)).refused(400, "INVALID_REQUEST")["message"]
    (await schedule.tell("backfill", **span, colour="blue")).refused(400, "INVALID_REQUEST")
    first = f"{schedule.name}-20260101T000000Z"
    (await server.request("GET", f"/orchestrations/{first}")).refused(404, "NOT_FOUND")


@on_every_stack
async def test_a_tick_is_skipped_while_the_last_one_runs_or_cancels_it(server: Server) -> None:
    schedule = Schedule(server)
    (await schedule.put(orchestration="waiting", input=None)).ok()

    async def outcomes() -> set[str]:
        return {tick.get("status") or "skipped" for tick in (await schedule.get())["last"]}

    async def has_skipped() -> bool:
        return await outcomes() == {"RUNNING", "skipped"}

    async def has_cancelled() -> bool:
        return "CANCELLED" in await outcomes()

    await eventually(has_skipped)
    (await schedule.put(orchestration="waiting", input=None, overlap="cancel_previous")).ok()
    await eventually(has_cancelled)
    assert (await schedule.tell("pause")).status == 202


@on_every_stack
async def test_a_tenant_has_its_own_schedules(server: Server) -> None:
    ours, theirs = (Schedule(server.of(f"{who}-{server.name}")) for who in ("us", "them"))
    theirs.name = ours.name
    (await ours.put(paused=True)).ok()
    (await theirs.tell("trigger")).refused(404, "NOT_FOUND")
    (await theirs.put(paused=True, input=8)).ok()
    assert ((await ours.get())["input"], (await theirs.get())["input"]) == (7, 8)
    assert (await theirs.delete()).status == 202
    assert (await ours.get())["paused"] is True
    triggered = (await ours.tell("trigger")).body["instance_id"]
    (await server.request("GET", f"/orchestrations/{triggered}")).refused(404, "NOT_FOUND")
