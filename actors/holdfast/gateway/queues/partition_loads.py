"""The loads of partitions, as far as this process knows: for queues with several, their number and size.

All of it may be outdated, as other processes push and pop too. It only decides which partition is tried first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.names import is_first_partition, split_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Bounds memory, whatever the number of queues; an evicted queue is asked again.
MOST_QUEUES = 4096
# Loads older than this count as stale.
FRESH_SECONDS = 1.0
# Limits the refreshes of queues with very many partitions, in partitions per second.
_REFRESHED_A_SECOND = 16
# How long an unavailable partition gets no pushes, whatever its load.
AVOIDED_SECONDS = 5.0
# A partition with a call unanswered for longer than this is tried last, in case it hangs.
OVERDUE_SECONDS = 2.0

_NEVER = float("-inf")


@dataclass(slots=True)
class _Partition:
    load: int = 0
    heard_at: float = _NEVER
    #: Items pushed, but not answered yet.
    underway: int = 0
    avoided_until: float = _NEVER
    #: The start times of unanswered calls.
    asked_at: deque[float] = field(default_factory=deque)

    def in_trouble(self, now: float) -> bool:
        overdue = bool(self.asked_at) and self.asked_at[0] < now - OVERDUE_SECONDS
        return overdue or self.avoided_until >= now


class PartitionLoads:
    """The loads of one queue with several partitions."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._partitions: list[_Partition] = []
        # Separate round robins: a common one would skip partitions whenever pushes and pops alternate.
        self._push_turn = self._pop_turn = 0
        #: Whether the queue is known to have a capacity, for which the loads of the other partitions must be exact.
        self.bounded = False

    @property
    def count(self) -> int:
        return len(self._partitions)

    def resize(self, count: int) -> None:
        """Sets the number of partitions. It decreases only when the queue is deleted."""
        del self._partitions[count:]
        self._partitions += [_Partition() for _ in range(count - len(self._partitions))]

    def observe(self, number: int, load: int) -> None:
        """Records the load in a partition's reply."""
        partition = self._partitions[number]
        partition.load = load
        partition.heard_at = self._clock()
        partition.avoided_until = _NEVER

    def avoid(self, number: int) -> None:
        """Sends no pushes to an unavailable partition for a while."""
        if number < self.count:
            self._partitions[number].avoided_until = self._clock() + AVOIDED_SECONDS

    def stale(self) -> list[int]:
        """Returns the partitions with stale loads, except avoided ones."""
        return self._not_heard_since(self._clock() - max(FRESH_SECONDS, self.count / _REFRESHED_A_SECOND))

    def unknown(self) -> list[int]:
        """Returns the partitions with unknown loads, except avoided ones."""
        return self._not_heard_since(_NEVER)

    def to_push(self) -> list[int]:
        """Returns all partitions in the order for a push: least loaded first, equals round robin."""
        now = self._clock()
        self._push_turn = (self._push_turn + 1) % self.count
        return sorted(
            self._from(self._push_turn),
            key=lambda number: (
                self._partitions[number].in_trouble(now),
                self._partitions[number].load + self._partitions[number].underway,
            ),
        )

    def to_pop(self) -> list[int]:
        """Returns all partitions in the order for a pop: round robin, recently empty ones later, ones in trouble last.

        A pop that was sent cannot be cancelled: its items would be lost.
        """
        now = self._clock()
        self._pop_turn = (self._pop_turn + 1) % self.count

        def later(number: int) -> tuple[bool, bool]:
            partition = self._partitions[number]
            return partition.in_trouble(now), partition.load == 0 and partition.heard_at >= now - FRESH_SECONDS

        return sorted(self._from(self._pop_turn), key=later)

    def elsewhere(self, number: int) -> int:
        """Returns the load of all other partitions together."""
        return sum(
            partition.load + partition.underway for other, partition in enumerate(self._partitions) if other != number
        )

    @contextmanager
    def asking(self, number: int) -> Iterator[None]:
        """Records an unanswered call to the partition for the duration of the block."""
        partition = self._partitions[number]
        asked_at = self._clock()
        partition.asked_at.append(asked_at)
        try:
            yield
        finally:
            partition.asked_at.remove(asked_at)

    @contextmanager
    def pushing(self, number: int, items: int) -> Iterator[None]:
        """Counts items in flight to the partition, so that concurrent pushes do not all choose the same one."""
        partition = self._partitions[number]
        partition.underway += items
        try:
            yield
        finally:
            partition.underway -= items

    def _not_heard_since(self, moment: float) -> list[int]:
        now = self._clock()
        return [
            number
            for number, partition in enumerate(self._partitions)
            if partition.heard_at <= moment and partition.avoided_until < now
        ]

    def _from(self, first: int) -> list[int]:
        return [*range(first, self.count), *range(first)]


class Loads:
    """The loads of recently used queues with several partitions. An unknown queue may have one partition or many."""

    def __init__(self, clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()) -> None:
        self._clock = clock
        self._queues: OrderedDict[str, PartitionLoads] = OrderedDict()

    def get(self, queue: str) -> PartitionLoads | None:
        spread = self._queues.get(queue)
        if spread is not None:
            self._queues.move_to_end(queue)
        return spread

    def forget(self, queue: str) -> None:
        self._queues.pop(queue, None)

    def observe(self, actor_id: str, load: int, partitions: int) -> None:
        """Records the load in a partition's reply. Only the first partition knows how many there are."""
        if partitions == 1 and is_first_partition(actor_id):
            self._queues.pop(actor_id, None)  # it was deleted, if it had several
            return
        queue, number = split_partition(actor_id)
        if number >= partitions:
            return  # it has not heard that it is a part of the queue, or is none any more
        spread = self._queues.get(queue)
        if spread is None:
            spread = self._queues[queue] = PartitionLoads(self._clock)
            if len(self._queues) > MOST_QUEUES:
                self._queues.popitem(last=False)
        spread.resize(partitions if number == 0 else max(partitions, spread.count))
        spread.observe(number, load)
