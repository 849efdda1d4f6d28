"""Dead letters of one queue, and its transfers to and from other queues.

An outgoing transfer is kept in flight until the other queue has it. Every command here that changes anything changes a
state value, so the metadata is saved with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.names import partition_id
from holdfast.pushpop.core.items import Delivered
from holdfast.pushpop.core.transfer_dedup import ReceivedTransfers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from holdfast.pushpop.core.item_store import ItemStore
    from holdfast.pushpop.core.items import Delivery, Item, Place
    from holdfast.pushpop.core.outgoing import Transfer
    from holdfast.runtime.reads import Reads

# A transfer that may have been lost with the process is sent again after this.
RESEND_SECONDS = 5.0
# The longest pause between two attempts to send to a queue that does not accept its transfers.
LONGEST_PAUSE = 40.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Suspends transfers to a queue that did not accept the last one."""

    seconds: float
    until: float

    def lasts(self, now: float) -> bool:
        # If the clock was set back, the pause would last longer than intended: then it has ended.
        return 0 < self.until - now <= self.seconds

    def longer(self, now: float) -> Pause:
        seconds = min(2 * self.seconds, LONGEST_PAUSE)
        return Pause(seconds, now + seconds)


class Transfers:
    """The dead letters and transfers of one queue. Counts in the queue's own counters."""

    def __init__(self, queue: str, partition: int, tenant: str, store: ItemStore, counters: dict[str, int]) -> None:
        self._queue = queue
        self._partition = partition
        self._tenant = tenant
        self._store = store
        self._counters = counters
        self._received = ReceivedTransfers()
        #: Pauses by target. Not saved: after a restart each target gets one attempt at once.
        self._pauses: dict[str, Pause] = {}
        #: Whether other queues send their dead letters here.
        self.is_dead_letter_queue = False

    @property
    def source(self) -> str:
        """The sender id that receivers deduplicate by."""
        return f"{self._queue}@{self._partition}"

    @property
    def waits(self) -> bool:
        """Whether there are transfers to send."""
        return len(self._store.in_flight.outgoing) > 0

    def targets_ready(self, now: float) -> set[str]:
        """Returns the queues to which a transfer can be sent now."""
        return {transfer.target for transfer in self._next_transfers(now)}

    def next_attempt(self, now: float) -> float | None:
        """Returns when to check again whether the transfers have arrived; None if there are none."""
        if not self.waits:
            return None
        if any(True for _ in self._next_transfers(now)):
            return now + RESEND_SECONDS
        return min(
            self._pauses[transfer.target].until for transfer in self._store.in_flight.outgoing.first_of_each_target()
        )

    def changes(self) -> dict[str, Any]:
        return self._received.changes()

    # Dead letters

    def dead_letter(self, taken: Sequence[Delivered], target: str, reason: str, now: float) -> None:
        """Sends the items to ``target`` as dead letters."""
        self._store.in_flight.send(taken, target, reason, now)
        self._counters["dead_lettered"] += len(taken)

    def send_back(self, letters: Iterable[Delivery], now: float) -> Reads[None]:
        """Sends dead letters back to their original queues."""
        targets: dict[str, list[Delivered]] = defaultdict(list)
        for delivery in letters:
            origin = delivery.item.origin or {}
            targets[partition_id(origin["original_queue"], origin["original_partition"])].append(delivery.taken)
        for target, taken in targets.items():
            for entry in taken:
                yield from self._store.withdraw(entry, keep=True)
            self._store.in_flight.send(taken, target, None, now)
            self._counters["redriven"] += len(taken)

    # Transfers

    def transfer(self, now: float, busy: Collection[str] = ()) -> Reads[dict[str, Any] | None]:
        """Returns the next transfer to a queue that is not busy, or None. It is kept until :meth:`transferred`.

        Transfers to one queue are sent in the order of their numbers, each after the one before has arrived. A queue
        that does not accept its transfers does not hold up others.
        """
        ready = (transfer for transfer in self._next_transfers(now) if transfer.target not in busy)
        transfer = min(ready, key=lambda transfer: transfer.number, default=None)
        if transfer is None:
            return None
        items = []
        for taken in transfer.taken:
            item = (yield from self._store.deliver(taken)).item
            # Due time and expiry do not apply at the target.
            item = replace(item, origin=None, due_at=None, expires_at=None)
            if transfer.reason is not None:
                item = replace(item, origin=self._origin(taken, item, transfer.reason, transfer.at))
            items.append({"priority": taken.place.priority, "stored": item.to_json()})
        return {
            "source": self.source,
            "target": transfer.target,
            "number": transfer.number,
            "items": items,
        }

    def transferred(self, number: int) -> Reads[None]:
        """Removes a transfer that the other queue has accepted."""
        if number in self._store.in_flight.outgoing:  # else it was reported twice
            transfer = self._store.in_flight.clear_transfer(number)
            self._pauses.pop(transfer.target, None)
            yield from self._store.forget(transfer.taken)

    def not_transferred(self, number: int, now: float) -> None:
        """Records that the other queue did not accept a transfer, or did not reply; retried after a pause."""
        if number in self._store.in_flight.outgoing:  # else another attempt has succeeded
            target = self._store.in_flight.outgoing[number].target
            before = self._pauses.get(target)
            self._pauses[target] = Pause(RESEND_SECONDS, now + RESEND_SECONDS) if before is None else before.longer(now)

    def receive(
        self, source: str, number: int, items: Sequence[tuple[int, Item]], now: float, *, forward: bool
    ) -> Reads[bool]:
        """Accepts a transfer of another queue; returns False if it was accepted before.

        ``forward`` sends the items on to the first partition, from a partition that is no part of the queue.
        """
        if not (yield from self._received.is_new(source, number)):
            return False
        # Never refused, as the other queue would keep them for ever.
        places = yield from self._store.append(items)
        self._counters["pushed"] += len(items)
        if forward:
            yield from self._forward(zip(places, items, strict=True), now)
        self.is_dead_letter_queue = self.is_dead_letter_queue or any(item.origin is not None for _, item in items)
        yield from self._received.remember(source, number)
        return True

    def erase(self) -> None:
        """Begins a new generation. Transfers stay, as they belong to other queues, and so does what was received."""
        self.is_dead_letter_queue = False

    # Private

    def _forward(self, received: Iterable[tuple[Place, tuple[int, Item]]], now: float) -> Reads[None]:
        taken = [Delivered(place, 0, size=item.size) for place, (_, item) in received]
        for entry in taken:
            yield from self._store.withdraw(entry, keep=True)
        self._store.in_flight.send(taken, self._queue, None, now)

    def _next_transfers(self, now: float) -> Iterable[Transfer]:
        """Yields the first transfer for each queue that is not paused."""
        for transfer in self._store.in_flight.outgoing.first_of_each_target():
            pause = self._pauses.get(transfer.target)
            if pause is None or not pause.lasts(now):
                yield transfer

    def _origin(self, taken: Delivered, item: Item, reason: str, at: float) -> dict[str, Any]:
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
