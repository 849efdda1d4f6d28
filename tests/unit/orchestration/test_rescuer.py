"""The rescuer recovers instances whose process crashed, and calls no other instance."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import TYPE_CHECKING

import pytest

from holdfast import App, Context
from holdfast.errors import SaveFailed
from holdfast.kinds import INSTANCE_INDEX_TYPE, ORCHESTRATION_TYPE, QUEUE_TYPE, RESCUER_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.recovery.rescuer import PAGE, SCAN_SECONDS, RescueList
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults
from holdfast.server import OWN_ACTORS
from tests.support.simulated import InstanceStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dapr.actor import Actor

app = App()


@app.activity
async def never_run() -> None: ...


@app.orchestration
async def calls(ctx: Context) -> None:
    await ctx.call(never_run)


@app.orchestration
async def quick(ctx: Context) -> str:
    return "done"


class Stage(InstanceStage):
    def __init__(self, idle_timeout: float = 3600) -> None:
        super().__init__(idle_timeout=idle_timeout)
        self.woken: list[str] = []

    def actors(self) -> Iterable[type[Actor]]:
        return (*OWN_ACTORS, orchestration_actor(app.registry))

    async def start(self) -> None:
        await super().start()
        self.listen()

    def listen(self) -> None:
        """Notes who is asked what it owes."""
        invoke = self.host.client.invoke_method

        async def heard(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
            if actor_type == ORCHESTRATION_TYPE and method == "Batch":
                self.woken += [actor_id for call in load(data)["calls"] if call["method"] == "Rescue"]
            return await invoke(actor_type, actor_id, method, data)

        self.host.client.invoke_method = heard  # type: ignore[method-assign]

    async def crash(self) -> None:
        await self.restart()
        self.listen()

    async def pushed(self) -> int:
        answer = load(await self.host.client.invoke_method(QUEUE_TYPE, "activities", "Stats", b""))
        count: int = answer["counters"].get("pushed", 0)
        return count

    def written(self) -> set[str]:
        """Returns the addresses of the registered instances, as stored."""
        rows = self.host.storage.rows.items()
        pages = [load(row[0]) for key, row in rows if f"||{RESCUER_TYPE}||" in key and "||page-" in key]
        return {address for page in pages for address in page}

    def kept(self) -> list[str]:
        return [key for key in self.host.storage.rows if f"||{RESCUER_TYPE}||" in key]


on_stage = on_simulated_host(Stage)


@on_stage
async def test_one_that_has_told_everybody_is_crossed_off_without_being_asked(stage: Stage) -> None:
    await asyncio.gather(*(stage.ask(f"i-{number}", "Start", name="quick") for number in range(2 * PAGE + 1)))
    assert len(stage.written()) == 2 * PAGE + 1
    await asyncio.sleep(20)
    assert (stage.woken, stage.kept()) == ([], [])
    memory = RescueList.of(stage.host.client)
    assert not any((memory._registered, memory._local, memory._evicted))


@on_stage
async def test_what_a_process_that_died_had_not_sent_is_sent_by_the_next(stage: Stage) -> None:
    stage.host.faults = Faults(crash_after_save=1.0)
    asked = asyncio.ensure_future(stage.ask("i", "Start", name="calls"))
    # The first save registers the instance with the rescuer, the second is its own.
    await stage.host.crashed.wait()
    await asyncio.gather(asked, return_exceptions=True)
    assert stage.written() == {"i"}
    stage.host.faults = Faults()
    await stage.crash()
    await asyncio.sleep(20)
    # The crashed start had saved nothing: the rescuer called it once, and removed it.
    assert (stage.woken, stage.kept(), await stage.pushed()) == (["i"], [], 0)
    await stage.ask("i", "Start", name="calls")
    stage.host.faults = Faults(save_fails=1.0)
    await asyncio.sleep(0.05)
    stage.host.crash()
    stage.host.faults = Faults()
    await stage.crash()
    assert await stage.pushed() == 0
    await asyncio.sleep(30)
    assert (await stage.pushed(), stage.written()) == (1, set())


@on_stage
async def test_one_whose_save_seemed_to_fail_is_asked(stage: Stage) -> None:
    await stage.ask("other", "Start", name="quick")
    stage.host.faults = Faults(reply_lost=1.0)
    with pytest.raises(SaveFailed):
        await stage.ask("i", "Start", name="calls")
    stage.host.faults = Faults()
    for _ in range(3):
        with pytest.raises(SaveFailed):
            # Now it is written down, and its own save is what seems to fail.
            await _fail_after_the_first(stage)
        if "i" in stage.written():
            break
    await asyncio.sleep(30)
    assert "i" in stage.woken
    assert (await stage.pushed(), stage.written()) == (1, set())


def test_one_that_does_not_answer_in_time_is_logged_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def body(stage: Stage) -> None:
        stage.host.faults = Faults(crash_after_save=1.0)
        asked = asyncio.ensure_future(stage.ask("i", "Start", name="calls"))
        await stage.host.crashed.wait()
        await asyncio.gather(asked, return_exceptions=True)
        stage.host.faults = Faults()
        stage.host = await stage.host.restarted()
        invoke = stage.host.client.invoke_method

        async def silent(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
            if actor_type == ORCHESTRATION_TYPE:
                await asyncio.Event().wait()
            return await invoke(actor_type, actor_id, method, data)

        stage.host.client.invoke_method = silent  # type: ignore[method-assign]
        await asyncio.sleep(20)

    with caplog.at_level(logging.INFO, logger="holdfast.orchestration.recovery.rescuer"):
        on_stage(body)()
    lines = {
        record.getMessage() for record in caplog.records if record.name == "holdfast.orchestration.recovery.rescuer"
    }
    assert lines == {"orchestration i: recovery failed, retrying at the next scan: timed out"}


async def _fail_after_the_first(stage: Stage) -> None:
    after = stage.host.storage.after
    saves = 0

    async def lost(what: str) -> None:
        nonlocal saves
        await after(what)
        saves += what == "save"
        if what == "save" and saves == 2:
            raise SaveFailed("The reply was lost.")

    stage.host.storage.after = lost
    try:
        await stage.ask("i", "Start", name="calls")
    finally:
        stage.host.storage.after = after


@on_stage
async def test_one_that_waits_for_long_is_seen_to_once(stage: Stage) -> None:
    await stage.ask("i", "Start", name="calls")
    await asyncio.sleep(60)
    # What was sent is crossed off in the store then, and so is this.
    assert (stage.woken, stage.kept()) == (["i"], [])
    stage.woken.clear()
    await asyncio.sleep(60)
    assert stage.woken == []


@on_stage
async def test_one_that_tells_others_just_now_is_not_asked(stage: Stage) -> None:
    # Index updates are batched, so that some instances always wait for theirs.
    for number in range(100):
        await stage.ask(f"i-{number}", "Start", name="quick")
        await asyncio.sleep(0.1)
    assert stage.written()
    await asyncio.sleep(20)
    assert (stage.woken, stage.kept()) == ([], [])


@on_stage
async def test_one_that_is_busy_with_what_never_ends_is_asked(stage: Stage) -> None:
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "SetConfig", dump({"capacity": 1}))
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "Push", dump({"item": "in the way"}))
    invoke = stage.host.client.invoke_method

    async def hanging(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        if actor_type == INSTANCE_INDEX_TYPE:
            await asyncio.sleep(3600)
        return await invoke(actor_type, actor_id, method, data)

    stage.host.client.invoke_method = hanging  # type: ignore[method-assign]
    await stage.ask("i", "Start", name="calls")
    await asyncio.sleep(10)
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "Pop", b"")
    await asyncio.sleep(30)
    assert await stage.pushed() == 2


@on_stage
async def test_one_that_cannot_send_is_asked_until_it_could(stage: Stage) -> None:
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "SetConfig", dump({"capacity": 1}))
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "Push", dump({"item": "in the way"}))
    await stage.ask("i", "Start", name="calls")
    await asyncio.sleep(120)
    # As often as it tries again, and not at each look.
    assert 3 < len(stage.woken) < 15
    assert stage.written() == {"i"}
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "Pop", b"")
    await asyncio.sleep(70)
    assert (await stage.pushed(), stage.kept()) == (2, [])


@on_stage
async def test_one_that_left_memory_is_not_brought_back_for_it(stage: Stage) -> None:
    await stage.ask("i", "Start", name="quick")
    await asyncio.sleep(SCAN_SECONDS / 2)
    [actor] = stage.host._runtime._actor_managers[ORCHESTRATION_TYPE]._active_actors.values()
    assert actor.evict()  # type: ignore[attr-defined]
    assert stage.written() == {"i"}
    await asyncio.sleep(20)
    assert (stage.woken, stage.kept()) == ([], [])


class _Debtor:
    address = "i"

    def is_settled(self) -> bool:
        return False

    def rests_until(self) -> float:
        return 0.0

    def has_unsaved_arrivals(self) -> bool:
        return False

    def is_busy(self) -> bool:
        return False


@on_stage
async def test_what_was_said_before_it_came_to_owe_something_does_not_count(stage: Stage) -> None:
    rescue_list, debtor = RescueList.of(stage.host.client), _Debtor()
    await rescue_list.watch(debtor)
    by, number = rescue_list._registered["i"], rescue_list._number("i")
    await rescue_list.watch(debtor)
    assert not rescue_list.mark_settled(by, "i", number)
    assert rescue_list.mark_settled(by, "i", rescue_list._number("i"))
    # What it comes to owe from now on is written down anew.
    assert "i" not in rescue_list._registered
    await rescue_list.watch(debtor)
    assert "i" in rescue_list._registered


@on_stage
async def test_what_an_instance_of_another_process_comes_to_owe_is_not_crossed_off(stage: Stage) -> None:
    """A vigil was moved here, and its process still tells it of an instance that was asked just now."""
    await stage.ask("warm", "Start", name="quick")
    rescue_list = RescueList.of(stage.host.client)._actor_id
    assert rescue_list is not None
    body = dump({"calls": [{"method": "Watch", "data": {"instance": "i"}}]})
    await stage.host.client.invoke_method(RESCUER_TYPE, rescue_list, "Batch", body)
    invoke = stage.host.client.invoke_method

    async def meanwhile(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        if actor_type == RESCUER_TYPE and b'"Settled"' in data:
            await invoke(RESCUER_TYPE, rescue_list, "Batch", body)
            stage.host.client.invoke_method = invoke  # type: ignore[method-assign]
        return await invoke(actor_type, actor_id, method, data)

    stage.host.client.invoke_method = meanwhile  # type: ignore[method-assign]
    await asyncio.sleep(SCAN_SECONDS + 0.5)
    assert stage.host.client.invoke_method is invoke
    assert (stage.woken, stage.written()) == (["i"], {"i"})
    await asyncio.sleep(60)
    assert (stage.woken, stage.kept()) == (["i", "i"], [])


@on_stage
async def test_one_that_does_not_answer_keeps_nobody_from_the_others(stage: Stage) -> None:
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "SetConfig", dump({"capacity": 1}))
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "Push", dump({"item": "in the way"}))
    await stage.ask("hangs", "Start", name="calls")
    invoke = stage.host.client.invoke_method

    async def hanging(actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        if actor_id == "hangs":
            await asyncio.sleep(3600)
        return await invoke(actor_type, actor_id, method, data)

    stage.host.client.invoke_method = hanging  # type: ignore[method-assign]
    await asyncio.sleep(20)
    await stage.ask("late", "Start", name="calls")
    await stage.host.client.invoke_method(QUEUE_TYPE, "activities", "Pop", b"")
    await asyncio.sleep(60)
    assert await stage.pushed() == 2
    assert stage.written() == {"hangs"}


def test_those_that_leave_memory_at_once_are_crossed_off_all_the_same() -> None:
    async def body(stage: Stage) -> None:
        for number in range(PAGE + 20):
            await stage.ask(f"i-{number}", "Start", name="calls")
        await asyncio.sleep(120)
        # Some are sent twice: their instances left memory before the dispatch was confirmed.
        assert await stage.pushed() >= PAGE + 20
        assert stage.kept() == []

    on_simulated_host(lambda: Stage(idle_timeout=0.05))(body)()


def test_what_is_known_goes_with_its_host() -> None:
    known: list[weakref.ref[RescueList]] = []

    async def body(stage: Stage) -> None:
        await stage.ask("i", "Start", name="quick")
        known.append(weakref.ref(RescueList.of(stage.host.client)))

    on_stage(body)()
    gc.collect()
    assert [rescue_list() for rescue_list in known] == [None]


@on_stage
async def test_a_turn_that_runs_when_its_host_stops_is_finished(stage: Stage) -> None:
    stage.host.faults = Faults(slowest=0.05)
    asked = asyncio.ensure_future(stage.ask("i", "Start", name="calls"))
    while not any(address.type == ORCHESTRATION_TYPE for address in stage.host._turns.active()):
        await asyncio.sleep(0)
    await stage.host.stop()
    assert (await asked)["created"]
    assert stage.written() == {"i"}
