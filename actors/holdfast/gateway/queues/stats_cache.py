"""Caches the statistics of queues that have not changed, so that their partitions need not be asked again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.gateway.queues import merge as views
from holdfast.pushpop.stats_cache import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.pushpop.stats_cache import Asking
    from holdfast.runtime.contract import HostClient

# With all queues in this process, every change is noticed, except one made directly in the database.
ALONE_SECONDS = 60.0
# With several processes, others change queues too, so only expensive statistics are cached, and briefly.
SHARED_SECONDS = 5.0
MANY_PARTITIONS = 16

_LEFT_OUT = ("locks", "locks_not_shown", "priorities", "config")

Answer = dict[str, Any]


class StatsCache:
    """Caches statistics of queues at rest. Queues with locks or delayed items change by themselves: not cached."""

    def __init__(self, client: HostClient, *, alone: bool) -> None:
        self._figures = Figures.of(client)
        self._alone = alone

    def get(self, queue: str) -> Answer | None:
        """Returns the cached :func:`summary` of the queue, or None if it changed or is too old."""
        kept = self._figures.get(queue)
        if kept is None:
            return None
        age = _now() - kept["at"]
        if age > (ALONE_SECONDS if self._alone else SHARED_SECONDS):
            return None
        figures: Answer = kept["figures"]
        oldest = figures["oldest_age_seconds"]
        return figures | {"oldest_age_seconds": None if oldest is None else oldest + age}

    def asking(self, queue: str) -> Asking:
        """Notes that the queue is about to be asked. Call it before its first partition is."""
        return self._figures.asking(queue)

    def keep(self, queue: str, asking: Asking, figures: Answer) -> None:
        """Caches the sums over all partitions."""
        at_rest = not (figures["locked"] or figures["delayed"])
        if at_rest and (self._alone or figures["partitions"] >= MANY_PARTITIONS):
            self._figures.keep(queue, asking, {"at": _now(), "figures": figures})


def summary(answers: Sequence[Answer]) -> Answer:
    """Returns the statistics of a queue from the replies of all its partitions."""
    merged = {key: value for key, value in views.stats(answers).items() if key not in _LEFT_OUT}
    return merged | {"partitions": len(answers), "dead_letter_queue": answers[0]["dead_letter_queue"]}


def _now() -> float:
    return asyncio.get_running_loop().time()
