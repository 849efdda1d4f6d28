"""``GET /metrics`` on every stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.behaviour.stacks import on_every_stack
from tests.support.rest import Queue
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


@on_every_stack
async def test_queues_and_the_process_are_shown(server: Server) -> None:
    # There are many queues on a stack, and the first by name are shown.
    name = f"0-{server.name}"
    queue = Queue(server, name)
    (await queue.push_many(*range(5))).ok()
    lock = await queue.lock(count=2)
    (await queue.acknowledge(lock["lock_id"])).ok()
    seen: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    def value(metric: str, **labels: str) -> float | None:
        return seen.get((metric, frozenset(labels.items())))

    async def shown() -> bool:
        answer = await server.request("GET", "/metrics")
        assert answer.status == 200
        families = text_string_to_metric_families(answer.text.decode())
        samples = [sample for family in families for sample in family.samples]
        seen.update({(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples})
        return value("holdfast_queue_acknowledged_items_total", queue=name) == 2

    await eventually(shown, what="what was acknowledged is counted")
    assert value("holdfast_queue_pushed_items_total", queue=name) == 5
    assert value("holdfast_queue_depth_items", queue=name, state="waiting") == 3
    assert (value("holdfast_turn_duration_seconds_count", actor_type="PushPopActor") or 0) >= 3
    assert (value("holdfast_processing_seconds_count") or 0) >= 1
    assert (value("holdfast_http_requests_total", route="/queue/{queue}/push", method="POST", status="200") or 0) >= 1
