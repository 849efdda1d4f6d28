"""What this process has heard of queues with several partitions: how many there are, and how much each holds.

All of it may be old: other processes push and pop too. It decides where to go first, never what is true.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.identity import is_first_partition, split_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Bounds memory, whatever the number of queues; one that was forgotten is asked again.
MOST_QUEUES = 4096
# What was heard longer ago than this may well have changed.
FRESH_SECONDS = 1.0
# With very many partitions, asking all of them that often would be work of its own.
_REFRESHED_A_SECOND = 16
# A partition that could not be reached gets no pushes for a while, however little it holds.
AVOIDED_SECONDS = 5.0
# One that owes an answer for longer than this is asked last, in case it hangs.
OVERDUE_SECONDS = 2.0

_NEVER = float("-inf")


@dataclass(slots=True)
class _Partition:
    load: int = 0
    heard_at: float = _NEVER
    #: Pushed, and not answered yet.
    underway: int = 0
    avoided_until: float = _NEVER
    #: When each of the calls was made that are not answered yet.
    asked_at: deque[float] = field(default_factory=deque)

    def in_trouble(self, now: float) -> bool:
        overdue = bool(self.asked_at) and self.asked_at[0] < now - OVERDUE_SECONDS
        return overdue or self.avoided_until >= now


class Spread:
    """One queue of several partitions."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._partitions: list[_Partition] = []
        # Two turns: one for both would skip partitions whenever pushes and pops alternate.
        self._push_turn = self._pop_turn = 0
        #: Whether its configuration is known to have a capacity, for which what the others hold must be exact.
        self.bounded = False

    @property
    def count(self) -> int:
        return len(self._partitions)

    def grow(self, count: int) -> None:
        """To that many; never to fewer."""
        self._partitions += [_Partition() for _ in range(count - len(self._partitions))]

    def heard(self, number: int, load: int) -> None:
        partition = self._partitions[number]
        partition.load = load
        partition.heard_at = self._clock()
        partition.avoided_until = _NEVER

    def avoid(self, number: int) -> None:
        self._partitions[number].avoided_until = self._clock() + AVOIDED_SECONDS

    def stale(self) -> list[int]:
        """Those not heard of lately, except where that was tried in vain just now."""
        return self._not_heard_since(self._clock() - max(FRESH_SECONDS, self.count / _REFRESHED_A_SECOND))

    def unknown(self) -> list[int]:
        """Those not heard of at all, with the same exception."""
        return self._not_heard_since(_NEVER)

    def to_push(self) -> list[int]:
        """The least loaded first; equals take turns."""
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
        """All of them: in turn, those that held nothing a moment ago later, and those in trouble last.

        A pop cannot be given up once it is asked for: what it took would be lost.
        """
        now = self._clock()
        self._pop_turn = (self._pop_turn + 1) % self.count

        def later(number: int) -> tuple[bool, bool]:
            partition = self._partitions[number]
            return partition.in_trouble(now), partition.load == 0 and partition.heard_at >= now - FRESH_SECONDS

        return sorted(self._from(self._pop_turn), key=later)

    def elsewhere(self, number: int) -> int:
        """How much all the others hold."""
        return sum(
            partition.load + partition.underway for other, partition in enumerate(self._partitions) if other != number
        )

    @contextmanager
    def asking(self, number: int) -> Iterator[None]:
        """Notes since when a partition owes an answer."""
        partition = self._partitions[number]
        asked_at = self._clock()
        partition.asked_at.append(asked_at)
        try:
            yield
        finally:
            partition.asked_at.remove(asked_at)

    @contextmanager
    def pushing(self, number: int, items: int) -> Iterator[None]:
        """Counts them until the answer is there, so that pushes at the same time do not all go to the same."""
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
    """All such queues that were heard of lately. A queue it does not know may have one partition or many."""

    def __init__(self, clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()) -> None:
        self._clock = clock
        self._queues: OrderedDict[str, Spread] = OrderedDict()

    def get(self, queue: str) -> Spread | None:
        spread = self._queues.get(queue)
        if spread is not None:
            self._queues.move_to_end(queue)
        return spread

    def heard(self, actor_id: str, load: int, partitions: int) -> None:
        """A reply of one partition, which may not know yet of how many it is one."""
        if partitions == 1 and is_first_partition(actor_id):
            return
        queue, number = split_partition(actor_id)
        spread = self._queues.get(queue)
        if spread is None:
            spread = self._queues[queue] = Spread(self._clock)
            if len(self._queues) > MOST_QUEUES:
                self._queues.popitem(last=False)
        spread.grow(max(partitions, number + 1))
        spread.heard(number, load)
