"""The numbers of instances in a scrape."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import Unavailable
from holdfast.gateway.metrics.instance_stats import MOST_NAMES, OTHER, InstanceStats

if TYPE_CHECKING:
    from holdfast.gateway.metrics.instance_stats import Counted
    from holdfast.runtime.contract import HostClient


class Index:
    """Answers for all shards of the index."""

    def __init__(self, answer: dict[str, Any] | None) -> None:
        self.answer = answer
        self.calls = 0

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        self.calls += 1
        if self.answer is None:
            raise Unavailable
        return json.dumps(self.answer if actor_id.endswith("0") else {}).encode()


def samples(counted: Counted) -> dict[tuple[str, str], float]:
    [family] = counted.collect()
    return {(sample.labels["orchestration"], sample.labels["status"]): sample.value for sample in family.samples}


async def test_the_first_orchestrations_by_name_are_shown_and_the_others_together() -> None:
    numbers = {f"o-{number:03}": {"RUNNING": 1, "FAILED": 2} for number in range(MOST_NAMES + 3)}
    shown = samples(await InstanceStats(cast("HostClient", Index(numbers))).take())
    assert len(shown) == 2 * (MOST_NAMES + 1)
    assert shown["o-000", "FAILED"] == 2
    assert shown[OTHER, "FAILED"] == 6
    assert (f"o-{MOST_NAMES}", "RUNNING") not in shown


async def test_scrapes_that_come_together_count_once() -> None:
    index = Index({"checkout": {"RUNNING": 1}})
    stats = InstanceStats(cast("HostClient", index))
    await asyncio.gather(*(stats.take() for _ in range(5)))
    calls = index.calls
    await stats.take()
    assert index.calls == calls
    await stats.take("acme")
    assert index.calls == 2 * calls


async def test_without_an_answer_of_the_index_the_numbers_are_left_out() -> None:
    assert samples(await InstanceStats(cast("HostClient", Index(None))).take()) == {}
