"""``GET /metrics`` on every stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.behaviour.orchestrations.test_schedules import Schedule
from tests.behaviour.stacks import on_every_stack
from tests.support.rest import Queue
from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


class Scrape:
    """The metrics of a server, as they were read last."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    async def again(self) -> None:
        answer = await self._server.request("GET", "/metrics")
        assert answer.status == 200
        families = text_string_to_metric_families(answer.text.decode())
        samples = [sample for family in families for sample in family.samples]
        self._samples = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}

    def value(self, metric: str, **labels: str) -> float | None:
        return self._samples.get((metric, frozenset(labels.items())))


@on_every_stack
async def test_queues_and_the_process_are_shown(server: Server) -> None:
    # There are many queues on a stack, and the first by name are shown.
    name = f"0-{server.name}"
    queue = Queue(server, name)
    (await queue.push_many(*range(5))).ok()
    lock = await queue.lock(count=2)
    (await queue.acknowledge(lock["lock_id"])).ok()
    seen = Scrape(server)

    async def shown() -> bool:
        await seen.again()
        return seen.value("holdfast_queue_acknowledged_items_total", queue=name) == 2

    await eventually(shown, what="what was acknowledged is counted")
    value = seen.value
    assert value("holdfast_queue_pushed_items_total", queue=name) == 5
    assert value("holdfast_queue_depth_items", queue=name, state="waiting") == 3
    assert (value("holdfast_turn_duration_seconds_count", actor_type="PushPopActor") or 0) >= 3
    assert (value("holdfast_processing_seconds_count") or 0) >= 1
    assert (value("holdfast_http_requests_total", route="/queue/{queue}/push", method="POST", status="200") or 0) >= 1


@on_every_stack
async def test_instances_are_counted_by_orchestration(server: Server) -> None:
    seen = Scrape(server)

    def numbers() -> list[float]:
        started = seen.value("holdfast_orchestrations_started_total", orchestration="tagging") or 0
        cancelled = seen.value("holdfast_orchestrations_ended_total", orchestration="tagging", outcome="cancelled") or 0
        states = [
            seen.value("holdfast_orchestration_instances", orchestration="tagging", status=status) or 0
            for status in ("RUNNING", "CANCELLED")
        ]
        return [started, cancelled, *states]

    await seen.again()
    before = numbers()
    for name in "abc":
        await Run(server, name).start("tagging")
    await Run(server, "c").tell("cancel")
    await Run(server, "c").ended()

    async def counted() -> bool:
        await seen.again()
        return [now - then for now, then in zip(numbers(), before, strict=True)] == [3, 1, 2, 1]

    await eventually(counted, what="three were started, and one was cancelled")


@on_every_stack
async def test_activities_by_outcome_and_ticks_of_schedules_are_counted(server: Server) -> None:
    seen = Scrape(server)
    schedule = Schedule(server)

    def numbers() -> list[float]:
        outcomes = [
            seen.value("holdfast_activity_outcomes_total", activity=activity, outcome=outcome) or 0
            for activity, outcome in (("double", "completed"), ("refuse", "failed"))
        ]
        ticks = [
            seen.value("holdfast_schedule_ticks_total", outcome=outcome) or 0 for outcome in ("started", "skipped")
        ]
        return [*outcomes, *ticks]

    await seen.again()
    before = numbers()
    (await schedule.put(orchestration="waiting", input=None)).ok()
    await Run(server).begin("everything")

    async def counted() -> bool:
        await seen.again()
        return all(now > then for now, then in zip(numbers(), before, strict=True))

    await eventually(counted, what="two activities, a tick and a skipped tick are counted")
    assert (await schedule.delete()).status == 202
