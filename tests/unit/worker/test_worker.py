"""The worker at a bench in memory: what one activity, or an instance that does not answer, costs the others."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from typing import Any

import pytest

from holdfast import App
from holdfast.errors import LockExpired, Unavailable
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.simulated import VirtualTimeLoop
from tests.unit.worker.desk import Desk, working

SECONDS = 20
LOCK_SECONDS = 6

app = App()
began = threading.Semaphore(0)
released = threading.Event()


@app.activity
def block() -> None:
    began.release()
    released.wait(SECONDS)


@app.activity
def quick() -> str:
    return "done"


@app.activity(queue="long", lock_seconds=LOCK_SECONDS)
async def linger() -> None:
    await asyncio.sleep(3600)


@app.activity
async def prompt() -> str:
    return "done"


async def test_threads_of_one_tenant_are_not_those_of_another() -> None:
    desk = Desk("busy", "idle")
    # All slots of all its queues: more it cannot have.
    for queue in ("activities", "long"):
        desk.push(queue, f"{queue}-1", f"{queue}-2", activity="block", tenant="busy")
    async with working(desk, app.registry, slots=2):
        try:
            for _ in range(4):
                assert await asyncio.to_thread(began.acquire, timeout=SECONDS)
            desk.push("activities", "quick", activity="quick", tenant="idle")
            async with asyncio.timeout(SECONDS / 2):
                assert await desk.told["quick"] == {"result": '"done"'}
        finally:
            released.set()


def test_an_instance_that_does_not_answer_costs_its_batch_nothing() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.mute.add("mute")
        desk.unwanted.add("unwanted")
        desk.push("long", "mute", "unwanted", "wanted", activity="linger")
        async with working(desk, app.registry):
            await asyncio.sleep(10 * LOCK_SECONDS)
        assert desk.off == {"unwanted"}
        assert_never_without_a_lock(desk)

    VirtualTimeLoop.run(run())


def test_an_extension_that_hangs_is_tried_again() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.mute.add("extend")
        desk.push("long", "wanted", activity="linger")
        async with working(desk, app.registry):
            await asyncio.sleep(LOCK_SECONDS / 2)
            assert len(desk.extended) == 1
            desk.mute.clear()
            await asyncio.sleep(10 * LOCK_SECONDS)
        assert_never_without_a_lock(desk)

    VirtualTimeLoop.run(run())


def test_an_orderly_stop_uses_up_no_delivery() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("long", "first", "second", activity="linger")
        async with working(desk, app.registry):
            await asyncio.sleep(1)
        assert [(job.name, job.counted) for job in desk.returned] == [("first", False), ("second", False)]

    VirtualTimeLoop.run(run())


def test_a_stop_lets_outcomes_arrive_that_are_on_their_way() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.unreachable.add("finished")
        desk.push("activities", "finished", activity="prompt")
        async with working(desk, app.registry):
            await asyncio.sleep(0.1)
            # Before the third try, which comes within the second that a stop waits for outcomes.
            asyncio.get_running_loop().call_later(0.1, desk.unreachable.clear)
        assert desk.told["finished"].done()
        assert desk.off == {"finished"}
        assert desk.returned == []

    VirtualTimeLoop.run(run())


def test_a_server_that_is_away_is_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """At each attempt it would be two warnings in three seconds, for every queue and every outcome."""

    async def run() -> None:
        desk = Desk("default")
        desk.unreachable.add("finished")
        desk.push("activities", "finished", activity="prompt")
        async with working(desk, app.registry):
            await asyncio.sleep(1)
            desk.failures["take"] = [Unavailable("It is away.") for _ in range(1000)]
            desk.push("activities", "more", activity="prompt")
            desk.push("long", "more", activity="linger")
            await asyncio.sleep(150)
            assert len(desk.failures["take"]) < 900

    VirtualTimeLoop.run(run())
    warnings = Counter(record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert warnings["queue activities: cannot take activities, retrying: It is away."] == 3
    assert warnings["queue long: cannot take activities, retrying: It is away."] == 3
    [outcome] = [count for line, count in warnings.items() if line.startswith("reporting the outcome of ")]
    assert outcome == 3


def test_an_activity_that_is_not_known_here_waits_and_is_never_poison(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.push("activities", "first", activity="elsewhere")
        desk.push("activities", "second", activity="elsewhere", deliveries=1000)
        desk.push("activities", "third", activity="elsewhere", was_abandoned=True)
        async with working(desk, app.registry):
            await asyncio.sleep(10)
        assert [(job.name, job.counted) for job in desk.returned] == [(name, False) for name in NAMES]
        assert not desk.told

    NAMES = ("first", "second", "third")
    VirtualTimeLoop.run(run())
    warnings = [record.getMessage() for record in caplog.records if record.name == "holdfast.worker.worker"]
    assert warnings == ["elsewhere of first: abandoned to queue activities: this worker has no activity elsewhere"]


def test_activities_that_are_not_known_here_come_again_few_at_a_time() -> None:
    """Thousands that were redelivered at once would leave the worker no time for the activities that it has."""

    async def run() -> None:
        desk = Desk("default")
        for number in range(4000):
            desk.push("activities", f"job-{number}", activity="elsewhere")
        async with working(desk, app.registry):
            await asyncio.sleep(10)
        moments = sorted(job.comes_at for job in desk.returned)
        assert len(moments) == 4000
        assert max(sum(start <= moment < start + 1 for moment in moments) for start in range(400)) <= 51
        assert moments[-1] < 100

    VirtualTimeLoop.run(run())


def test_one_that_nobody_waits_for_does_not_come_again_after_it_was_given_back() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.unwanted.update({"known", "unknown"})
        desk.push("activities", "known", activity="prompt", was_abandoned=True)
        desk.push("activities", "unknown", activity="elsewhere", was_abandoned=True)
        async with working(desk, app.registry):
            await asyncio.sleep(1)
        assert desk.off == {"known", "unknown"}
        assert not desk.told

    VirtualTimeLoop.run(run())


@pytest.mark.parametrize("failure", [RuntimeError("a bug"), LockExpired()])
def test_a_job_that_failed_inside_the_worker_is_given_back_while_the_rest_of_its_batch_runs(failure: Exception) -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.unwanted.add("failed")
        desk.failures["complete"] = [failure]
        desk.failures["abandon"] = [Unavailable(), Unavailable()]
        desk.push("long", "failed", "runs", activity="linger", was_abandoned=True)
        async with working(desk, app.registry):
            await asyncio.sleep(LOCK_SECONDS / 2)
            assert [(job.name, job.counted) for job in desk.returned] == [("failed", True)]

    VirtualTimeLoop.run(run())


def test_a_poisonous_activity_becomes_a_dead_letter_although_its_instance_has_the_outcome() -> None:
    """From then on the instance no longer awaits it, which stops activities that still run."""

    async def run() -> None:
        desk = Desk("default")
        desk.failures["dead_letter"] = [Unavailable() for _ in range(6)]
        desk.push("long", "poison", activity="linger", deliveries=1000)
        async with working(desk, app.registry):
            assert (await desk.told["poison"])["error"]["kind"] == "poison"
            desk.unwanted.add("poison")
            await asyncio.sleep(10 * LOCK_SECONDS)
        assert (desk.dead_letters, desk.off) == ({"poison"}, set())

    VirtualTimeLoop.run(run())


def test_outcomes_of_unreachable_instances_hold_no_slots() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.unreachable.update({"lost-1", "lost-2"})
        desk.push("activities", "lost-1", "lost-2", activity="prompt")
        desk.push("activities", "healthy-1", "healthy-2", activity="prompt")
        async with working(desk, app.registry, slots=2):
            await asyncio.sleep(5)
            assert desk.off == {"healthy-1", "healthy-2"}
            desk.unreachable.clear()
            await asyncio.sleep(30)
            assert desk.off == {"healthy-1", "healthy-2", "lost-1", "lost-2"}
        assert desk.returned == []

    VirtualTimeLoop.run(run())


def test_there_is_a_limit_to_the_outcomes_that_wait() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.unreachable.update(f"lost-{number}" for number in range(10))
        for number in range(10):
            desk.push("activities", f"lost-{number}", activity="prompt")
        async with working(desk, app.registry, slots=1):
            await asyncio.sleep(100)
            # One with its slot, and two without.
            assert desk._pushed["default", "activities"].qsize() == 7
            desk.unreachable.clear()
            await asyncio.sleep(100)
            assert len(desk.off) == 10

    VirtualTimeLoop.run(run())


def test_an_instance_that_does_not_say_whether_it_waits_holds_no_slots() -> None:
    async def run() -> None:
        desk = Desk("default")
        desk.mute.update({"mute-1", "mute-2"})
        desk.push("activities", "mute-1", "mute-2", activity="prompt", was_abandoned=True)
        desk.push("activities", "healthy", activity="prompt")
        async with working(desk, app.registry, slots=2):
            await asyncio.sleep(10)
            assert desk.off == {"healthy"}
            assert [(job.name, job.counted) for job in desk.returned] == [("mute-1", False), ("mute-2", False)]

    VirtualTimeLoop.run(run())


async def test_threads_of_timed_out_activities_are_counted_and_starve_no_others() -> None:
    own, stuck = App(), threading.Event()

    @own.activity(timeout=0.01)
    def hang() -> None:
        stuck.wait(SECONDS)

    @own.activity(timeout=SECONDS)
    def sync() -> str:
        return "done"

    @own.activity
    async def other() -> str:
        return "done"

    desk, metrics = Desk("default"), Metrics()

    def abandoned() -> float | None:
        return metrics.registry.get_sample_value("holdfast_abandoned_threads")

    async def outcome(name: str, activity: str) -> dict[str, Any]:
        desk.push("activities", name, activity=activity)
        async with asyncio.timeout(SECONDS / 2):
            return await desk.told[name]

    async def abandon_thread(number: int) -> None:
        # On a busy machine the time-out can come before the thread has started: then no thread is abandoned.
        for attempt in itertools.count():
            assert (await outcome(f"hang-{number}-{attempt}", "hang"))["error"]["kind"] == "timeout"
            if abandoned() == number:
                return
            assert abandoned() == number - 1

    try:
        async with working(desk, own.registry, slots=2, abandoned_threads=3, metrics=metrics.worker):
            await abandon_thread(1)
            await abandon_thread(2)
            assert await outcome("sync-1", "sync") == {"result": '"done"'}
            await abandon_thread(3)
            # No room for another thread: a sync activity waits, others run.
            desk.push("activities", "sync-2", activity="sync")
            assert await outcome("other", "other") == {"result": '"done"'}
            assert [(job.name, job.counted) for job in desk.returned] == [("sync-2", False)]
            stuck.set()
            async with asyncio.timeout(SECONDS):
                while abandoned():
                    await asyncio.sleep(0.01)
            assert await outcome("sync-3", "sync") == {"result": '"done"'}
    finally:
        stuck.set()


def assert_never_without_a_lock(desk: Desk) -> None:
    gaps = [later - earlier for earlier, later in zip(desk.extended, desk.extended[1:], strict=False)]
    assert len(gaps) > 10
    assert desk.extended[0] < LOCK_SECONDS
    assert max(gaps) < LOCK_SECONDS * 2 / 3
