"""``GET /queues``: the queues of a tenant with statistics. A page is limited in partitions, not only in queues."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import StorageBroken
from holdfast.gateway.queues.stats_cache import summary
from holdfast.names import in_same_tenant, qualify
from holdfast.pushpop.index import list_queues
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from holdfast.gateway.queues.partitions import Answer, Partitions
    from holdfast.gateway.queues.stats_cache import StatsCache
    from holdfast.pushpop.stats_cache import Asking
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

#: A page ends when this many partitions were asked. The first queue of a page is shown even if it has more.
MAX_PARTITIONS = 1024
# How many queues are asked concurrently.
AT_ONCE = 16


@dataclass(slots=True)
class _Look:
    """The first answer about a queue, which says how many more calls its statistics cost."""

    name: str
    queue: str
    asking: Asking | None = None
    first: Answer | None = None
    broken: StorageBroken | None = None
    cost: int = 0


class QueueListing:
    """Lists the queues of a tenant, page by page."""

    def __init__(self, client: HostClient, partitions: Partitions, cache: StatsCache) -> None:
        self._client = client
        self._partitions = partitions
        self._cache = cache

    async def page(self, tenant: str, limit: int, cursor: str | None) -> Answer:
        """Returns up to ``limit`` queues after the cursor; fewer when they have many partitions."""
        names = sorted(await list_queues(self._client, tenant))
        names = names if cursor is None else names[bisect_right(names, cursor) :]
        shown: list[Answer] = []
        room = MAX_PARTITIONS
        while len(shown) < min(limit, len(names)) and room > 0:
            chunk = names[len(shown) : min(limit, len(shown) + AT_ONCE)]
            looks = await asyncio.gather(*(self._look(tenant, name) for name in chunk))
            wanted: list[_Look] = []
            for look in looks:
                room -= look.cost
                if room < 0 and (shown or wanted):
                    break
                wanted.append(look)
            shown += await asyncio.gather(*(self._shown(look) for look in wanted))
        answer: Answer = {"queues": shown}
        if len(shown) < len(names):
            answer["next_cursor"] = names[len(shown) - 1]
        return answer

    async def _look(self, tenant: str, name: str) -> _Look:
        look = _Look(name, qualify(tenant, name))
        figures = self._cache.get(look.queue)
        if figures is None:
            look.asking = self._cache.asking(look.queue)
            try:
                figures = look.first = raise_for_refusal(await self._partitions.call(look.queue, "Stats"))
            except StorageBroken as error:
                look.broken = error
                return look
            look.cost = self._partitions.count(look.queue)
        if figures["dead_letter_queue"] is not None:
            letters = in_same_tenant(look.queue, figures["dead_letter_queue"])
            look.cost += 0 if self._cache.get(letters) else self._partitions.count(letters)
        return look

    async def _shown(self, look: _Look) -> Answer:
        """Returns one entry of the list. A damaged queue is listed with an error; the others are unaffected."""
        try:
            if look.broken is not None:
                raise look.broken
            own = await self._figures(look.queue, look.asking, look.first)
        except StorageBroken as error:
            log.warning("queue %s is listed without statistics, as its state cannot be read: %s", look.queue, error)
            return {"queue": look.name, "error": error.code}
        letters: int | None = 0
        if own["dead_letter_queue"] is not None:
            try:
                letters = (await self._figures(in_same_tenant(look.queue, own["dead_letter_queue"])))["count"]
            except StorageBroken as error:
                log.warning("queue %s is listed without its dead letters, which cannot be read: %s", look.queue, error)
                letters = None
        return {key: own[key] for key in ("queue", "count", "locked")} | {"dead_letters": letters}

    async def _figures(self, queue: str, asking: Asking | None = None, first: Answer | None = None) -> Answer:
        if first is None and (known := self._cache.get(queue)) is not None:
            return known
        if asking is None:
            asking = self._cache.asking(queue)
        answers = await self._partitions.call_all(queue, "Stats", first=first)
        figures = summary([raise_for_refusal(answer) for answer in answers])
        self._cache.keep(queue, asking, figures)
        return figures
