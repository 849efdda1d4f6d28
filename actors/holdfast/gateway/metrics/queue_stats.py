"""Collects the statistics of queues for a scrape, by asking their partitions.

Queues store their counters with their items, so the figures are right after a restart and from any process. A
collection covers one tenant and costs one call to each partition shown, so it is bounded, and its result is reused for
some seconds.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from holdfast.errors import HoldfastError
from holdfast.gateway.bulkhead import Bulkhead
from holdfast.gateway.metrics.recent import Recent
from holdfast.gateway.queues.stats_cache import StatsCache, summary
from holdfast.kinds import QUEUE_TYPE
from holdfast.logs import counted as in_words
from holdfast.names import DEFAULT_TENANT, partition_id, qualify
from holdfast.pushpop.index import SHARDS, list_shard, shards_of
from holdfast.runtime.serialization import load
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from holdfast.gateway.queues.partitions import Answer
    from holdfast.pushpop.stats_cache import Asking
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

#: How many queues are shown, the first by name: the deepest would change each time, and all would have to be asked.
MOST_QUEUES = 200
#: How many partitions are asked in total: queues that do not fit are not shown.
MOST_PARTITIONS = 1024
AT_ONCE = 16
# A partition that does not answer in this time is left out, and so is every one that was not asked before the
# collection must end: Prometheus waits 10 s by default.
CALL_SECONDS = 2.0
TOTAL_SECONDS = 6.0

COUNTERS = {
    "pushed": ("pushed", "Items stored, including items from other queues."),
    "popped": ("popped", "Items delivered, counted at each delivery."),
    "acknowledged": ("acknowledged", "Items acknowledged or completed."),
    "abandoned": ("abandoned", "Items abandoned by their consumers or by an operator."),
    "expired": ("lock_expired", "Items returned to the queue because their lock expired."),
    "redelivered": ("redelivered", "Items delivered again after an earlier delivery."),
    "dead_lettered": ("dead_lettered", "Items moved to the dead-letter queue."),
    "ttl_expired": ("ttl_expired", "Items whose time to live ended before they were popped."),
    "purged": ("purged", "Items removed by a purge."),
    "revoked": ("revoked", "Items removed one by one."),
    "redriven": ("redriven", "Dead letters returned from here to their original queues."),
    "deduplicated": ("deduplicated", "Pushed items that were not stored because their dedup id was known."),
}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Counted:
    """The result of one collection."""

    queues: Mapping[str, Answer] = field(default_factory=dict)
    #: The number of dead letters of each queue, where its dead-letter queue answered.
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    not_shown: int = 0
    unreachable_queues: int = 0
    unreachable_shards: int = 0

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics for Prometheus."""
        for counter, (name, meaning) in COUNTERS.items():
            counts = CounterMetricFamily(f"holdfast_queue_{name}_items", meaning, labels=["queue"])
            for queue, stats in self.queues.items():
                counts.add_metric([queue], stats["counters"].get(counter, 0))
            yield counts
        depth = GaugeMetricFamily(
            "holdfast_queue_depth_items",
            "Items in the queue that are waiting, delayed, or locked.",
            labels=["queue", "state"],
        )
        age = GaugeMetricFamily(
            "holdfast_queue_oldest_age_seconds",
            "Age of the oldest waiting item; 0 without one.",
            labels=["queue"],
        )
        letters = GaugeMetricFamily(
            "holdfast_queue_dead_letter_items",
            "Items in the dead-letter queue of this queue; queues that share one show the same number.",
            labels=["queue"],
        )
        for queue, stats in self.queues.items():
            depth.add_metric([queue, "waiting"], stats["count"] - stats["delayed"])
            depth.add_metric([queue, "delayed"], stats["delayed"])
            depth.add_metric([queue, "locked"], stats["locked"])
            age.add_metric([queue], stats["oldest_age_seconds"] or 0.0)
            if queue in self.dead_letters:
                letters.add_metric([queue], self.dead_letters[queue])
        yield from (depth, age, letters)
        yield GaugeMetricFamily("holdfast_queues", "Number of queues.", value=self.total)
        yield GaugeMetricFamily(
            "holdfast_queues_not_shown",
            "Queues without metrics of their own: only the first by name have them.",
            value=self.not_shown,
        )
        unreachable = GaugeMetricFamily(
            "holdfast_scrape_unreachable",
            "Queues, and shards of their index, that did not answer in time and are missing here.",
            labels=["what"],
        )
        unreachable.add_metric(["queue"], self.unreachable_queues)
        unreachable.add_metric(["index"], self.unreachable_shards)
        yield unreachable


@dataclass(slots=True)
class _Look:
    """The first answer about a queue: its cached statistics, or those of its first partition."""

    queue: str
    answer: Answer
    asking: Asking | None = None

    @property
    def partitions(self) -> int:
        return int(self.answer["config"]["partitions"])


class QueueStats:
    """Collects the statistics of a tenant's queues."""

    def __init__(self, client: HostClient, *, most_queues: int = MOST_QUEUES, alone: bool = False) -> None:
        self._client = client
        self._most_queues = most_queues
        self._bulkhead = Bulkhead(AT_ONCE)
        self._cache = StatsCache(client, alone=alone)
        self._recent = Recent(self._take)

    async def take(self, tenant: str = DEFAULT_TENANT) -> Counted:
        """Returns the last result if it is recent, else collects anew."""
        return await self._recent.take(tenant)

    async def _take(self, tenant: str) -> Counted:
        until = asyncio.get_running_loop().time() + TOTAL_SECONDS
        asks = {shard: partial(self._list, shard) for shard in shards_of(tenant)}
        shards = await self._each(tenant, until, asks)
        names = {name for shard in shards.values() for name in shard}
        shown, found = await self._figures(tenant, until, sorted(names)[: self._most_queues])
        targets = {name: stats["dead_letter_queue"] for name, stats in found.items()}
        others, of_others = await self._figures(tenant, until, sorted(set(targets.values()) & names - set(shown)))
        letters = found | of_others
        # A dead-letter queue that is not in the index never had an item.
        empty = {target for target in targets.values() if target not in names}
        counted = Counted(
            queues={name: found[name] for name in shown if name in found},
            dead_letters={
                name: 0 if target in empty else letters[target]["count"]
                for name, target in targets.items()
                if target in empty or target in letters
            },
            total=len(names),
            not_shown=len(names) - len(shown),
            unreachable_queues=len(shown) + len(others) - len(letters),
            unreachable_shards=SHARDS - len(shards),
        )
        if counted.unreachable_queues or counted.unreachable_shards:
            log.warning(
                "metrics of tenant %s: %s and %s of the index did not answer and are missing; the next scrape retries",
                *(tenant, in_words(counted.unreachable_queues, "queue"), in_words(counted.unreachable_shards, "shard")),
            )
        return counted

    async def _figures(
        self, tenant: str, until: float, names: Sequence[str]
    ) -> tuple[Sequence[str], dict[str, Answer]]:
        """Returns the names of the queues that are shown, and the statistics of each that answered."""
        looks = await self._each(tenant, until, {name: partial(self._look, tenant, name) for name in names})
        shown = _affordable(names, looks)
        asks = {name: partial(self._ask_rest, looks[name]) for name in shown if name in looks}
        return shown, await self._each(tenant, until, asks)

    async def _each(
        self, tenant: str, until: float, asks: Mapping[Any, Callable[[], Awaitable[Result]]]
    ) -> dict[Any, Result]:
        """Runs the calls with bounded concurrency. Returns the results of the ones that succeeded."""
        answers: dict[Any, Result] = {}

        async def ask(key: Any) -> None:
            try:
                async with asyncio.timeout_at(until), self._bulkhead.enter(tenant):
                    answers[key] = await asks[key]()
            except (HoldfastError, TimeoutError):
                pass  # counted as silent; the others are shown

        async with asyncio.TaskGroup() as group:
            for key in asks:
                group.create_task(ask(key))
        return answers

    async def _list(self, shard: str) -> list[str]:
        async with asyncio.timeout(CALL_SECONDS):
            return await list_shard(self._client, shard)

    async def _look(self, tenant: str, name: str) -> _Look:
        """Returns the queue's cached statistics or those of its first partition, which include the partition count."""
        queue = qualify(tenant, name)
        if (known := self._cache.get(queue)) is not None:
            return _Look(queue, known)
        asking = self._cache.asking(queue)
        return _Look(queue, raise_for_refusal(await self._ask(queue)), asking)

    async def _ask_rest(self, look: _Look) -> Answer:
        """Returns the sums over all partitions. Fails when one does not answer, as counters would seem to decrease."""
        if look.asking is None:
            return look.answer
        answers = [look.answer]
        for partition in range(1, look.partitions):
            answers.append(raise_for_refusal(await self._ask(partition_id(look.queue, partition))))
        figures = summary(answers)
        self._cache.keep(look.queue, look.asking, figures)
        return figures

    async def _ask(self, actor_id: str) -> Any:
        async with asyncio.timeout(CALL_SECONDS):
            return load(await self._client.invoke_method(QUEUE_TYPE, actor_id, "Stats"))


def _affordable(names: Sequence[str], looks: Mapping[str, _Look]) -> list[str]:
    """Returns the first names whose partitions fit in the limit. A queue that did not answer costs nothing."""
    room = MOST_PARTITIONS
    for number, name in enumerate(names):
        look = looks.get(name)
        room -= 0 if look is None or look.asking is None else look.partitions
        if number and room < 0:
            return list(names[:number])
    return list(names)
