"""``kill -9`` at every step of what must happen once: of the server that keeps the record, and of who runs the effect.

Records are as they were when the process is back. An effect happens a second time in one case only: its process died
between the effect and the record of it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.idempotency.interface import record_id
from holdfast.kinds import IDEMPOTENCY_TYPE
from holdfast.local import ChildProcess
from tests.behaviour import crash_points
from tests.behaviour.idempotency.test_idempotency import Record
from tests.behaviour.queues.test_acks import (
    AFTER,
    BEFORE,
    around_the_save,
    crash_and_restart,
    is_empty,
    is_not_answered,
)
from tests.behaviour.stacks import ALL, KILLED, on_stacks
from tests.support.runs import Run
from tests.support.stacks.base import CallFailed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.rest import Answer, Server

TENANT = "acme"
BEGUN, DONE = '"IN_PROGRESS"', '"SUCCESS"'


def crash_at(server: Server, key: str, saved: str, when: str, tenant: str = TENANT) -> None:
    crash_points.arm(server.stack.folder, IDEMPOTENCY_TYPE, record_id(tenant, key), when, holding=saved)


# The server dies


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_begin(server: Server, when: str) -> None:
    record = Record(server)
    crash_at(server, server.name, BEGUN, when)
    await is_not_answered(record("begin", owner="a", lease_seconds=600))
    await crash_and_restart(server)
    if when == BEFORE:
        (await record.get()).refused(404, "NOT_FOUND")
    else:
        (await record("begin", owner="b")).refused(409, "IN_PROGRESS")
        assert (await record.get()).ok()["owner"] == "a"
    # The caller got no answer and repeats the call: it is the same attempt.
    again = (await record("begin", owner="a")).ok()
    assert (again["outcome"], again["attempt"]) == ("run", 1)


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_commit(server: Server, when: str) -> None:
    record = Record(server)
    (await record("begin", owner="a", lease_seconds=600)).ok()
    crash_at(server, server.name, DONE, when)
    await is_not_answered(record("commit", owner="a", result={"invoice": 17}))
    await crash_and_restart(server)
    if when == BEFORE:
        (await record("begin", owner="b")).refused(409, "IN_PROGRESS")
    else:
        assert (await record("begin", owner="b")).ok() == {"outcome": "done", "result": {"invoice": 17}}
    (await record("commit", owner="a", result={"invoice": 17})).ok()
    assert (await record("begin", owner="c")).ok() == {"outcome": "done", "result": {"invoice": 17}}
    assert (await record.get()).ok()["attempts"] == 1


@around_the_save
@on_stacks(*ALL, part=KILLED)
async def test_takeover(server: Server, when: str) -> None:
    record = Record(server)
    (await record("begin", owner="a", lease_seconds=1)).ok()
    crash_at(server, server.name, '"b"', when)

    await is_not_answered(_taking_over(record))
    await crash_and_restart(server)
    late = await record("commit", owner="a", result="late")
    if when == BEFORE:
        # No other owner has taken over, so the late commit is accepted.
        late.ok()
        assert (await record("begin", owner="b")).ok() == {"outcome": "done", "result": "late"}
    else:
        late.refused(409, "LEASE_LOST")
        assert (await record("begin", owner="b")).ok()["attempt"] == 2


async def _taking_over(record: Record) -> Answer:
    async with asyncio.timeout(30):
        while (answer := await record("begin", owner="b", lease_seconds=600)).status == 409:
            await asyncio.sleep(0.1)
    return answer


@pytest.mark.parametrize(
    ("saved", "when", "effects"), [(BEGUN, BEFORE, 1), (BEGUN, AFTER, 1), (DONE, BEFORE, 2), (DONE, AFTER, 1)]
)
@on_stacks(*ALL, part=KILLED)
async def test_an_activity_that_must_happen_once(server: Server, saved: str, when: str, effects: int) -> None:
    run = Run(server)
    key = f"{run.id}:1:2"
    crash_at(server, f"activity/{key}", saved, when, tenant="default")
    # It may die before the answer is sent.
    with suppress(CallFailed):
        await run.start("calling", "charge")
    await crash_and_restart(server)
    assert await run.output() == "charged"
    assert (await run.types()).count("ActivityCompleted") == 1
    await eventually(lambda: is_empty(server, "once"))
    # What happened before its record was saved happens again: that is why an effect should take the key itself.
    assert run.effects() == ["charged"] * effects
    assert run.effect_keys() == {key: effects}
    shown = (await Record(server, f"activity/{key}", tenant="default").get()).ok()
    assert (shown["status"], shown["result"]) == ("SUCCESS", {"result": "charged"})


# Who runs the effect dies


@asynccontextmanager
async def worker(server: Server, *steps: str) -> AsyncIterator[ChildProcess]:
    name = f"worker-{server.name}-{'-'.join(steps)}"
    command = [sys.executable, str(Path(__file__).with_name("effect_worker.py")), server.url, server.name]
    command += [str(_effects(server)), *steps]
    process = ChildProcess(name, command, log=server.stack.folder / f"{name}.log", folder=server.stack.folder)
    await process.start()
    try:
        yield process
    finally:
        await process.kill()


def _effects(server: Server) -> Path:
    return Path(server.stack.folder) / f"effects-{server.name}"


@pytest.mark.parametrize(("step", "effects"), [("begin", 1), ("begun", 1), ("done", 2), ("recorded", 1)])
@on_stacks(*ALL, part=KILLED)
async def test_a_consumer(server: Server, step: str, effects: int) -> None:
    queue, record = server.queue(), Record(server)
    entry = {"item": "invoice", "idempotency_key": server.name, "tenant_id": TENANT}
    (await queue.send("push", entry)).ok()
    async with worker(server, step) as dying, asyncio.timeout(60):
        await dying.wait()
    if step == "begin":
        (await record.get()).refused(404, "NOT_FOUND")
    else:
        assert (await record.get()).ok()["status"] == ("SUCCESS" if step == "recorded" else "IN_PROGRESS")
    async with worker(server):
        await eventually(lambda: is_empty(server, queue.name), within=60)
    assert _effects(server).read_text().splitlines() == ["invoice"] * effects
    shown = (await record.get()).ok()
    assert (shown["status"], shown["result"]) == ("SUCCESS", {"handled": "invoice"})
    assert shown["attempts"] == (1 if step in ("begin", "recorded") else 2)
    assert (await queue.stats())["counters"]["acknowledged"] == 1
