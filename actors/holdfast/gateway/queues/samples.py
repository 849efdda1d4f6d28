"""Samples of queues over time: recorded by the server every ten seconds, for the last hour, in bounded memory."""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import HoldfastError
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.openapi import inspection as documents
from holdfast.gateway.routing import Endpoint
from holdfast.names import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.metrics.queue_stats import Counted

log = logging.getLogger(__name__)

Answer = dict[str, Any]

INTERVAL_SECONDS = 10.0
#: An hour of samples.
SAMPLES_KEPT = 360
#: The most series of single queues in memory, those of all tenants together. When it is reached, a tenant gets room
#: from the one that has the most series.
MOST_SERIES = 400
#: The most tenants that are sampled: the default tenant, and the others that asked last.
MOST_TENANTS = 20
MOST_ASKED = 100
# A tenant without a request for its samples in this time is no longer sampled.
_FORGOTTEN_SECONDS = 24 * 3600.0
# At most one part in this many of the time is spent sampling.
_SHARE = 50

#: What a sample has, in this order. ``pushed`` and ``left`` are items in the time since the sample before.
COLUMNS = ("at", "waiting", "delayed", "locked", "dead_letters", "oldest_age_seconds", "pushed", "left")


class SamplesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    repeatable: ClassVar[frozenset[str]] = frozenset({"queue"})

    queue: Annotated[
        list[str],
        Field(max_length=MOST_ASKED, description="A queue whose own samples to add; may be repeated."),
    ] = []


class Series:
    """The last samples of one queue, or of all queues of a tenant, and the figures that the next one is compared to."""

    def __init__(self) -> None:
        #: When the last sample was added, in Unix seconds.
        self.last = 0.0
        self._numbers = array("d")
        self._before: tuple[int, int] | None = None

    def add(self, now: float, figures: Mapping[str, float], pushed: int) -> None:
        """Adds a sample. ``pushed`` is a counter, which starts again where a queue was deleted."""
        self.last = now
        stored = int(figures["waiting"] + figures["delayed"] + figures["locked"])
        came = left = 0
        if self._before is not None and pushed >= self._before[0]:
            came = pushed - self._before[0]
            left = max(0, self._before[1] + came - stored)
        self._before = (pushed, stored)
        row = {"at": now, "pushed": came, "left": left, **figures}
        self._numbers.extend(row[name] for name in COLUMNS)
        del self._numbers[: -SAMPLES_KEPT * len(COLUMNS)]

    def shown(self) -> Answer:
        width = len(COLUMNS)
        columns = {name: self._numbers[place::width].tolist() for place, name in enumerate(COLUMNS)}
        return {name: [_number(value) for value in values] for name, values in columns.items()}


_EMPTY = Series()


class QueueSamples:
    """Samples the queues of the default tenant, and of tenants that have asked for samples in the last day."""

    def __init__(self, take: Callable[[str], Awaitable[Counted]]) -> None:
        self._take = take
        #: The series of single queues by tenant; the ones sampled last come last.
        self._series: defaultdict[str, OrderedDict[str, Series]] = defaultdict(OrderedDict)
        self._totals: defaultdict[str, Series] = defaultdict(Series)
        #: When each tenant asked last.
        self._tenants: OrderedDict[str, float] = OrderedDict({DEFAULT_TENANT: float("inf")})

    def endpoints(self) -> Sequence[Endpoint]:
        return [Endpoint("GET", "/samples", self.show, documents.samples(SamplesQuery), Role.READER, bulky=True)]

    async def run(self) -> None:
        """Samples until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            for tenant in list(self._tenants):
                if self._tenants.get(tenant, began) < began - _FORGOTTEN_SECONDS:
                    self._forget(tenant)
                else:
                    await self.sample(tenant)
            await asyncio.sleep(max(INTERVAL_SECONDS, _SHARE * (clock() - began)))

    async def show(self, call: HttpRequest) -> Answer:
        query, tenant = call.query(SamplesQuery), call.caller.tenant
        await self.follow(tenant)
        answer: Answer = {"interval_seconds": INTERVAL_SECONDS, "total": self.shown(tenant), "queues": {}}
        for name in query.queue:
            if name in self._series.get(tenant, ()):
                # An hour of a hundred queues has 288,000 numbers.
                await call.pause()
                answer["queues"][name] = self.shown(tenant, name)
        return answer

    def shown(self, tenant: str, queue: str | None = None) -> Answer:
        """Returns the samples of a queue, or of all together; empty lists where there are none."""
        found = self._totals.get(tenant) if queue is None else self._series.get(tenant, OrderedDict()).get(queue)
        return (found or _EMPTY).shown()

    async def follow(self, tenant: str) -> None:
        """Begins to sample a tenant at its first question."""
        if tenant == DEFAULT_TENANT:
            return
        known = tenant in self._tenants
        self._tenants[tenant] = asyncio.get_running_loop().time()
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > MOST_TENANTS:
            self._forget(next(name for name in self._tenants if name != DEFAULT_TENANT))
        if not known:
            await self.sample(tenant)

    async def sample(self, tenant: str) -> None:
        """Adds a sample of each queue of the tenant that answers."""
        try:
            counted = await self._take(tenant)
        except HoldfastError as error:
            log.info("queues of tenant %s are not sampled this time: %s", tenant, error)
            return
        if tenant not in self._tenants:
            # It was forgotten meanwhile.
            return
        now = time.time()
        rows, total, pushed = _rows(counted)
        known = self._series[tenant]
        # Queues that have samples come first: they keep their room.
        for name, (figures, came) in sorted(rows.items(), key=lambda row: row[0] not in known):
            if name in known or self._make_room(tenant, now):
                known.setdefault(name, Series()).add(now, figures, came)
                known.move_to_end(name)
        if not (counted.unreachable_queues or counted.unreachable_shards):
            self._totals[tenant].add(now, total, pushed)

    def _make_room(self, tenant: str, now: float) -> bool:
        """Drops a series for a new one of this tenant, if it has to. Returns False when none may be dropped."""
        if sum(map(len, self._series.values())) < MOST_SERIES:
            return True
        largest = max(self._series.values(), key=len)
        own = self._series[tenant]
        if len(own) >= len(largest) - 1:
            largest = own
        oldest = next(iter(largest))
        if largest is own and own[oldest].last == now:
            return False
        del largest[oldest]
        return True

    def _forget(self, tenant: str) -> None:
        states: tuple[MutableMapping[str, Any], ...] = (self._tenants, self._series, self._totals)
        for state in states:
            state.pop(tenant, None)


def _rows(counted: Counted) -> tuple[dict[str, tuple[dict[str, float], int]], dict[str, float], int]:
    """Returns the figures and the counter of pushes of each queue, and the sums of those that hold no dead letters."""
    rows: dict[str, tuple[dict[str, float], int]] = {}
    total: dict[str, float] = dict.fromkeys(COLUMNS[1:6], 0)
    all_pushed = 0
    targets: dict[str, int] = {}
    holders = {stats["dead_letter_queue"] for stats in counted.queues.values()}
    for name, stats in counted.queues.items():
        letters = counted.dead_letters.get(name, 0)
        figures: dict[str, float] = {
            "waiting": stats["count"] - stats["delayed"],
            "delayed": stats["delayed"],
            "locked": stats["locked"],
            "dead_letters": letters,
            "oldest_age_seconds": stats["oldest_age_seconds"] or 0.0,
        }
        pushed = int(stats["counters"].get("pushed", 0))
        rows[name] = figures, pushed
        if name in holders:
            continue
        all_pushed += pushed
        targets[stats["dead_letter_queue"]] = letters
        for key in ("waiting", "delayed", "locked"):
            total[key] += figures[key]
        total["oldest_age_seconds"] = max(total["oldest_age_seconds"], figures["oldest_age_seconds"])
    # Queues may share a dead-letter queue.
    return rows, total | {"dead_letters": sum(targets.values())}, all_pushed


def _number(value: float) -> float:
    return int(value) if value.is_integer() else round(value, 3)
