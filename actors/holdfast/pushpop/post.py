"""The post of one queue: dead letters, what it sends to other queues, and what it takes from them.

What is sent waits among the holdings until the other queue has it. Every command here that changes anything changes a
state value, and with that the metadata is saved.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.identity import partition_id
from holdfast.pushpop.arrivals import Arrivals
from holdfast.pushpop.bounds import Basket
from holdfast.pushpop.holdings import Group

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.pushpop.holdings import Lock
    from holdfast.pushpop.items import Delivery, Item, Place, Taken
    from holdfast.pushpop.steps import Steps
    from holdfast.pushpop.stock import Stock


class Post:
    """Counts what it does in the queue's own counters."""

    def __init__(self, queue: str, partition: int, tenant: str, stock: Stock, counters: dict[str, int]) -> None:
        self._queue = queue
        self._partition = partition
        self._tenant = tenant
        self._stock = stock
        self._counters = counters
        self._arrivals = Arrivals()
        #: Whether others send their dead letters here.
        self.takes_dead_letters = False

    @property
    def source(self) -> str:
        """What those it sends something to know the queue by."""
        return f"{self._queue}@{self._partition}"

    @property
    def waits(self) -> bool:
        """Whether there is something to send."""
        return bool(self._stock.holdings.outbox)

    def changes(self) -> dict[str, Any]:
        return self._arrivals.changes()

    # Dead letters

    def dead_letter(self, taken: Sequence[Taken], target: str, reason: str, now: float) -> None:
        """These become dead letters, there."""
        self._stock.holdings.send(taken, target, reason, now)
        self._counters["dead_lettered"] += len(taken)

    def dead_letters(
        self, cursor: Place | None, limit: int, original_queue: str | None
    ) -> Steps[tuple[list[Delivery], Place | None]]:
        """Those that wait here; and where to go on, if there may be more."""
        page, after = yield from self._stock.browse(cursor, limit)
        return [delivery for delivery in page if _came_from(delivery, original_queue)], after

    def redrive(
        self, now: float, ids: Sequence[str], limit: int, original_queue: str | None
    ) -> Steps[tuple[int, bool]]:
        """Sends these dead letters back to where they came from, as far as they go together.

        Answers how many, and whether some were left out. Those not found, or locked, are not among them.
        """
        basket = Basket(limit)
        chosen: set[Place] = set()
        for item_id in ids:
            found = yield from self._stock.find(item_id, self._partition)
            if found is None or found.taken is None or found.taken.place in chosen or not _is_free(found.holder):
                continue
            delivery = yield from self._stock.deliver(found.taken)
            if _came_from(delivery, original_queue):
                if not basket.add(delivery):
                    break
                chosen.add(found.taken.place)
        yield from self._send_back(basket.found, now)
        return len(basket.found), basket.closed

    def redrive_next(
        self, now: float, cursor: Place | None, limit: int, original_queue: str | None
    ) -> Steps[tuple[int, Place | None]]:
        """The same for the next ones; and where to go on, if there may be more."""
        chosen, after = yield from self.dead_letters(cursor, limit, original_queue)
        yield from self._send_back(chosen, now)
        return len(chosen), after

    # Transfers

    def transfer(self) -> Steps[dict[str, Any] | None]:
        """The next message for another queue, or None. It stays until :meth:`transferred`."""
        if not self.waits:
            return None
        number = self._stock.holdings.first_parcel
        parcel = self._stock.holdings.outbox[number]
        items = []
        for taken in parcel.taken:
            item = (yield from self._stock.deliver(taken)).item
            # Nobody waits for its due time, or for its end, where it goes.
            item = replace(item, origin=None, due_at=None, expires_at=None)
            if parcel.reason is not None:
                item = replace(item, origin=self._origin(taken, item, parcel.reason, parcel.at))
            items.append({"priority": taken.place.priority, "stored": item.to_json()})
        return {
            "source": self.source,
            "target": parcel.target,
            "number": number,
            "items": items,
        }

    def transferred(self, number: int) -> Steps[None]:
        """The other queue has it."""
        if number in self._stock.holdings.outbox:  # or it was told twice
            parcel = self._stock.holdings.clear_parcel(number)
            yield from self._stock.forget(parcel.taken)

    def receive(self, source: str, number: int, items: Sequence[tuple[int, Item]]) -> Steps[bool]:
        """Takes what another queue transfers; False when it was taken before."""
        if not (yield from self._arrivals.is_new(source, number)):
            return False
        yield from self._stock.append(items)  # refused for no reason: the other queue would have them for ever
        self._counters["pushed"] += len(items)
        self.takes_dead_letters = self.takes_dead_letters or any(item.origin is not None for _, item in items)
        yield from self._arrivals.remember(source, number)
        return True

    # Inside

    def _send_back(self, letters: Iterable[Delivery], now: float) -> Steps[None]:
        targets: dict[str, list[Taken]] = defaultdict(list)
        for delivery in letters:
            origin = delivery.item.origin or {}
            targets[partition_id(origin["original_queue"], origin["original_partition"])].append(delivery.taken)
        for target, taken in targets.items():
            for entry in taken:
                yield from self._stock.withdraw(entry, keep=True)
            self._stock.holdings.send(taken, target, None, now)
            self._counters["redriven"] += len(taken)

    def _origin(self, taken: Taken, item: Item, reason: str, at: float) -> dict[str, Any]:
        return {
            "reason": reason,
            "attempts": taken.deliveries,
            "last_error": taken.error,
            "original_queue": self._queue,
            "original_partition": self._partition,
            "original_id": taken.item_id(self._partition),
            "tenant_id": item.tenant_id or self._tenant,
            "idempotency_key": item.idempotency_key,
            "dead_lettered_at": at,
        }


def _is_free(holder: Lock | Group | None) -> bool:
    """Whether a pop could have taken what this holds."""
    return holder is None or (isinstance(holder, Group) and holder.due is None)


def _came_from(delivery: Delivery, queue: str | None) -> bool:
    """Whether it is a dead letter, of this queue if one is named."""
    origin = delivery.item.origin
    return origin is not None and queue in (None, origin["original_queue"])
