"""What the queues themselves have counted, asked of them when somebody wants to see it.

They keep it with their items, so it is right after a restart, and whichever process is asked. A census is of one
tenant, and costs one call to each partition it shows; so it is bounded, and one is enough for all who ask within some
seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from holdfast.errors import HoldfastError
from holdfast.gateway import views
from holdfast.identity import DEFAULT_TENANT, partition_id, qualify
from holdfast.pushpop.index import SHARDS, list_shard, shards_of
from holdfast.pushpop.interface import ACTOR_TYPE
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from holdfast.gateway.partitions import Answer
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

#: How many queues are shown, the first by name: the deepest would be others each time, and all had to be asked.
MOST_QUEUES = 200
#: How many tenants' last census is kept.
MOST_TENANTS = 100
FRESH_SECONDS = 5.0
AT_ONCE = 16
# What does not answer in this time is left out, and so is all that was not asked when the census has to end: whoever
# scrapes waits 10 s as a rule.
CALL_SECONDS = 2.0
CENSUS_SECONDS = 6.0

COUNTERS = {
    "pushed": ("pushed", "Items stored, those that came from other queues included."),
    "popped": ("popped", "Items handed out, each time they were."),
    "acknowledged": ("acknowledged", "Items acknowledged or completed."),
    "abandoned": ("abandoned", "Items given back by those who held them, or by an operator."),
    "expired": ("lock_expired", "Items given back because their lock expired."),
    "redelivered": ("redelivered", "Items handed out again, after they had been before."),
    "dead_lettered": ("dead_lettered", "Items that became dead letters."),
    "ttl_expired": ("ttl_expired", "Items that nobody took in their time to live."),
    "purged": ("purged", "Items removed by a purge."),
    "revoked": ("revoked", "Items removed one by one."),
    "redriven": ("redriven", "Dead letters sent from here back to where they came from."),
    "deduplicated": ("deduplicated", "Pushed items that were not stored: their dedup id was known."),
}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Counted:
    """What one census found."""

    queues: Mapping[str, Answer] = field(default_factory=dict)
    #: How many each of them has, as far as its dead-letter queue could say so.
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    not_shown: int = 0
    silent_queues: int = 0
    silent_shards: int = 0

    def collect(self) -> Iterator[Metric]:
        """As Prometheus wants it."""
        for counter, (name, meaning) in COUNTERS.items():
            counts = CounterMetricFamily(f"holdfast_queue_{name}_items", meaning, labels=["queue"])
            for queue, stats in self.queues.items():
                counts.add_metric([queue], stats["counters"].get(counter, 0))
            yield counts
        depth = GaugeMetricFamily(
            "holdfast_queue_depth_items",
            "Items in the queue that wait, are delayed, or locked.",
            labels=["queue", "state"],
        )
        age = GaugeMetricFamily(
            "holdfast_queue_oldest_age_seconds",
            "Age of the oldest item that waits; 0 when none does.",
            labels=["queue"],
        )
        letters = GaugeMetricFamily(
            "holdfast_queue_dead_letter_items",
            "Items in the dead-letter queue of this queue; queues that share one show the same.",
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
        yield GaugeMetricFamily("holdfast_queues", "Queues there are.", value=self.total)
        yield GaugeMetricFamily(
            "holdfast_queues_not_shown",
            "Queues without figures of their own here: only the first by name have them.",
            value=self.not_shown,
        )
        silent = GaugeMetricFamily(
            "holdfast_scrape_unreachable",
            "Queues, and parts of their index, that did not answer in time and are missing here.",
            labels=["what"],
        )
        silent.add_metric(["queue"], self.silent_queues)
        silent.add_metric(["index"], self.silent_shards)
        yield silent


@dataclass(slots=True)
class _Latest:
    """Of one tenant."""

    counted: Counted = field(default_factory=Counted)
    stale_at: float = float("-inf")
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Census:
    """Asks queues for what they have counted."""

    def __init__(self, client: HostClient, *, most_queues: int = MOST_QUEUES) -> None:
        self._client = client
        self._most_queues = most_queues
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._latest: OrderedDict[str, _Latest] = OrderedDict()

    async def take(self, tenant: str = DEFAULT_TENANT) -> Counted:
        """What was found a moment ago, or is found now."""
        clock = asyncio.get_running_loop().time
        latest = self._latest.setdefault(tenant, _Latest())
        self._latest.move_to_end(tenant)
        if len(self._latest) > MOST_TENANTS:
            self._latest.popitem(last=False)
        async with latest.taking:
            if clock() >= latest.stale_at:
                latest.counted = await self._take(tenant, clock() + CENSUS_SECONDS)
                latest.stale_at = clock() + FRESH_SECONDS
            return latest.counted

    async def _take(self, tenant: str, until: float) -> Counted:
        ask_queue = partial(self._ask_queue, tenant)
        shards = await self._each({shard: partial(self._list, shard) for shard in shards_of(tenant)}, until)
        names = {name for shard in shards.values() for name in shard}
        shown = sorted(names)[: self._most_queues]
        found = await self._each({name: partial(ask_queue, name) for name in shown}, until)
        targets = {name: stats["dead_letter_queue"] for name, stats in found.items()}
        others = set(targets.values()) & names - set(shown)
        letters = found | await self._each({name: partial(ask_queue, name) for name in others}, until)
        # A dead-letter queue that nobody wrote down has never had one.
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
            silent_queues=len(shown) + len(others) - len(letters),
            silent_shards=SHARDS - len(shards),
        )
        if counted.silent_queues or counted.silent_shards:
            log.warning(
                "%d queues and %d parts of their index are missing in the metrics: they did not answer",
                counted.silent_queues,
                counted.silent_shards,
            )
        return counted

    async def _each(self, asks: Mapping[Any, Callable[[], Awaitable[Result]]], until: float) -> dict[Any, Result]:
        """The answers of those that gave one."""
        answers: dict[Any, Result] = {}

        async def ask(key: Any) -> None:
            try:
                async with asyncio.timeout_at(until), self._at_once:
                    answers[key] = await asks[key]()
            except (HoldfastError, TimeoutError):
                pass  # it is counted as silent, and the others are shown

        async with asyncio.TaskGroup() as group:
            for key in asks:
                group.create_task(ask(key))
        return answers

    async def _list(self, shard: str) -> list[str]:
        async with asyncio.timeout(CALL_SECONDS):
            return await list_shard(self._client, shard)

    async def _ask_queue(self, tenant: str, name: str) -> Answer:
        """Of all its partitions, or of none: what is counted would seem to go back otherwise."""
        queue = qualify(tenant, name)
        first = accepted(await self._ask(queue))
        answers = [first]
        for partition in range(1, first["config"]["partitions"]):
            answers.append(accepted(await self._ask(partition_id(queue, partition))))
        return views.stats(answers) | {"dead_letter_queue": first["dead_letter_queue"]}

    async def _ask(self, actor_id: str) -> Any:
        async with asyncio.timeout(CALL_SECONDS):
            return load(await self._client.invoke_method(ACTOR_TYPE, actor_id, "Stats"))
