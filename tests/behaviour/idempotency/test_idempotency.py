"""Effects that must happen once, over REST: who may run them, and what the others get."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.client import Client
from tests.behaviour.clock import past
from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server


class Record:
    def __init__(self, server: Server, key: str | None = None, tenant: str = "acme") -> None:
        self._server = server
        self._path = f"/idempotency/{tenant}/{quote(server.name if key is None else key, safe='')}"

    async def __call__(self, what: str, **body: Any) -> Answer:
        return await self._server.request("POST", f"{self._path}/{what}", json.dumps(body).encode())

    async def get(self) -> Answer:
        return await self._server.request("GET", self._path)


@on_every_stack
async def test_one_of_a_hundred_runs(server: Server) -> None:
    record = Record(server)
    answers = await asyncio.gather(*(record("begin", owner=f"w-{number}") for number in range(100)))
    [winner] = [answer.body for answer in answers if answer.status == 200]
    assert (winner["outcome"], winner["attempt"]) == ("run", 1)
    for answer in answers:
        if answer.status != 200:
            assert answer.refused(409, "IN_PROGRESS")["lease_expires_at"] == winner["lease_expires_at"]
    (await record("commit", owner=winner["owner"], result={"invoice": 17})).ok()
    assert (await record("begin")).ok() == {"outcome": "done", "result": {"invoice": 17}}
    assert (await record.get()).ok()["status"] == "SUCCESS"


@on_every_stack
async def test_a_lease_passes_on_and_the_late_one_is_refused(server: Server) -> None:
    record = Record(server)
    (await record("begin", owner="a", lease_seconds=1)).ok()
    async with asyncio.timeout(30):
        while (answer := await record("begin", owner="b")).status == 409:
            await asyncio.sleep(0.1)
    assert answer.ok()["attempt"] == 2
    for what, body in (("commit", {"result": 1}), ("fail", {"error": "x"}), ("renew", {})):
        (await record(what, owner="a", **body)).refused(409, "LEASE_LOST")
    (await record("renew", owner="b", lease_seconds=60)).ok()
    (await record("fail", owner="b", error="no connection")).ok()
    shown = (await record.get()).ok()
    assert (shown["status"], shown["last_error"], shown["attempts"]) == ("FAILURE", "no connection", 2)
    assert (await record("begin", owner="c")).ok()["attempt"] == 3


@on_every_stack
async def test_late_is_not_too_late_while_nobody_else_has_begun(server: Server) -> None:
    record = Record(server)
    begun = (await record("begin", owner="a", lease_seconds=1)).ok()
    await past(datetime.fromisoformat(begun["lease_expires_at"]).timestamp())
    (await record("commit", owner="a", result="late")).ok()
    assert (await record("begin", owner="b")).ok() == {"outcome": "done", "result": "late"}


@on_every_stack
async def test_an_owner_that_says_the_same_twice_is_heard_once(server: Server) -> None:
    record = Record(server)
    first = (await record("begin", owner="a", lease_seconds=30)).ok()
    second = (await record("begin", owner="a", lease_seconds=60)).ok()
    assert (second["outcome"], second["attempt"]) == ("run", 1)
    assert second["lease_expires_at"] > first["lease_expires_at"]
    for result in (1, 2):
        assert (await record("commit", owner="a", result=result)).ok() == {"success": True}
    (await record("fail", owner="a", error="after all")).refused(409, "LEASE_LOST")
    (await record("renew", owner="a")).refused(409, "LEASE_LOST")
    shown = (await record.get()).ok()
    assert (shown["status"], shown["result"], shown["attempts"]) == ("SUCCESS", 1, 1)


@on_every_stack
async def test_a_record_is_forgotten_when_its_retention_is_over(server: Server) -> None:
    record = Record(server)
    (await record("begin", owner="a")).ok()
    (await record("commit", owner="a", result=1, retention_seconds=1)).ok()

    async def forgotten() -> bool:
        return (await record.get()).status == 404

    await eventually(forgotten)
    again = (await record("begin", owner="b")).ok()
    assert (again["outcome"], again["attempt"]) == ("run", 1)


@on_every_stack
async def test_the_effects_of_a_deleted_instance_are_not_those_of_the_next_one(server: Server) -> None:
    run = Run(server)
    for lives in (1, 2):
        await run.begin("calling", "charge")
        assert await run.output() == "charged"
        assert run.effects() == ["charged"] * lives
        (await run.delete()).ok()


@on_every_stack
async def test_keys_of_all_kinds_and_tenants_are_apart(server: Server) -> None:
    keys = ["a||b", "a/b", "../x", "...", "%2e%2e", "ключ", "İ", "i\u0307", " ", "x" * 1024, server.name]
    for number, key in enumerate(keys):
        record = Record(server, key, tenant=server.name)
        (await record.get()).refused(404, "NOT_FOUND")
        owner = (await record("begin")).ok()["owner"]
        (await record("commit", owner=owner, result=number)).ok()
    for number, key in enumerate(keys):
        assert (await Record(server, key, tenant=server.name).get()).ok()["result"] == number
        (await Record(server, key, tenant=f"{server.name}-2").get()).refused(404, "NOT_FOUND")


@on_every_stack
async def test_a_later_delivery_takes_over_at_once_and_the_earlier_one_is_refused(server: Server) -> None:
    record = Record(server)
    (await record("begin", owner="message", fence=1, lease_seconds=600)).ok()
    begun = (await record("begin", owner="message", fence=2, lease_seconds=600)).ok()
    assert (begun["outcome"], begun["attempt"]) == ("run", 2)
    for what, body in (("begin", {}), ("commit", {"result": 1}), ("fail", {"error": "x"}), ("renew", {})):
        (await record(what, owner="message", fence=1, **body)).refused(409, "LEASE_LOST")
    (await record("begin", owner="other", fence=3)).refused(409, "IN_PROGRESS")
    (await record("commit", owner="message", fence=2, result=2)).ok()
    assert (await record("begin", owner="message", fence=1)).ok() == {"outcome": "done", "result": 2}


@on_every_stack
async def test_what_is_wrong_is_refused(server: Server) -> None:
    record = Record(server)
    for what, body in (
        ("begin", {"lease_seconds": 0}),
        ("begin", {"lease_seconds": "30"}),
        ("begin", {"owner": ""}),
        ("begin", {"owner": "a", "fence": -1}),
        ("commit", {"owner": "a", "fence": "2"}),
        ("begin", {"tenant": "other"}),
        ("begin", {"unheard_of": 1}),
        ("commit", {}),
        ("commit", {"owner": "a", "retention_seconds": -1}),
        ("fail", {"owner": 7}),
        ("renew", {"owner": "a", "lease_seconds": 1e9}),
    ):
        (await record(what, **body)).refused(400, "INVALID_REQUEST")
    (await record.get()).refused(404, "NOT_FOUND")
    (await record("commit", owner="nobody")).refused(409, "LEASE_LOST")
    (await Record(server, "x" * 1025)("begin")).refused(400, "INVALID_REQUEST")
    (await Record(server, "k", tenant="not%2Fa%2Ftenant")("begin")).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_the_client_runs_an_effect_once(server: Server) -> None:
    ran = []

    async def effect() -> dict[str, int]:
        ran.append(1)
        await asyncio.sleep(0.3)
        return {"number": 7}

    async with Client(server.url) as client:
        outcomes = await asyncio.gather(
            *(client.idempotent(key=server.name, run=effect, wait_seconds=20) for _ in range(5))
        )
    assert len(ran) == 1
    assert [outcome.result for outcome in outcomes] == [{"number": 7}] * 5
    assert sorted(outcome.ran for outcome in outcomes) == [False] * 4 + [True]
