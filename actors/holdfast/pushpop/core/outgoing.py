"""Transfers of items to other queues, delivered to each of them in the order in which they were made.

Transfers are numbered in that order. A receiver remembers the highest number it accepted from a queue, so a transfer
must not be sent before all earlier ones for the same receiver have arrived. Transfers to different receivers do not
wait for each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.core.items import Delivered
from holdfast.pushpop.core.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Transfer:
    """Items on their way to another queue."""

    number: int
    taken: list[Delivered]
    #: Fixed when the transfer is made: after a change of the configuration, a second target would duplicate the items.
    target: str
    #: Why they are dead letters; None for redriven items, which return to their original queue.
    reason: str | None
    at: float

    def to_json(self) -> dict[str, Any]:
        taken = [entry.to_json() for entry in self.taken]
        return {"number": self.number, "delivered": taken, "target": self.target, "reason": self.reason, "at": self.at}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Transfer:
        taken = [Delivered.from_json(entry) for entry in value["delivered"]]
        return cls(value["number"], taken, value["target"], value["reason"], value["at"])


class OutgoingTransfers:
    """The transfers of one queue that have not arrived.

    Each is saved in a slot and not under its number: otherwise one that waits for long while many others pass would
    extend the range of keys that a restart reads.
    """

    def __init__(self) -> None:
        self._transfers: dict[int, Transfer] = {}
        self._by_target: dict[str, deque[int]] = {}
        self._slots = Slots()
        self._slot_of: dict[int, int] = {}
        self._next = 0
        self._changed: dict[str, Any] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._transfers

    def __iter__(self) -> Iterator[Transfer]:
        return iter(self._transfers.values())

    def __len__(self) -> int:
        return len(self._transfers)

    def __getitem__(self, number: int) -> Transfer:
        return self._transfers[number]

    def first_of_each_target(self) -> Iterator[Transfer]:
        """Returns the transfer that has to be sent first, for each target."""
        return (self._transfers[numbers[0]] for numbers in self._by_target.values())

    def add(self, taken: Sequence[Delivered], target: str, reason: str | None, at: float) -> Transfer:
        transfer = Transfer(self._next, list(taken), target, reason, at)
        self._next += 1
        slot = self._slots.acquire()
        self._put(transfer, slot)
        self._changed[transfer_key(slot)] = transfer.to_json()
        return transfer

    def remove(self, number: int) -> Transfer:
        transfer = self._transfers.pop(number)
        numbers = self._by_target[transfer.target]
        numbers.remove(number)
        if not numbers:
            del self._by_target[transfer.target]
        slot = self._slot_of.pop(number)
        self._slots.release(slot)
        self._changed[transfer_key(slot)] = None
        return transfer

    # Saved state

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def to_json(self) -> list[int]:
        """Returns its part of the metadata: the number of slots to read, and the next transfer number."""
        return [self._slots.extent, self._next]

    def restore(self, saved: list[int], values: Iterable[Any]) -> Iterator[Transfer]:
        """Restores and yields the transfers from the values of all slots."""
        self._next = saved[1]
        found = [(Transfer.from_json(value), slot) for slot, value in enumerate(values) if value is not None]
        for transfer, slot in sorted(found, key=lambda entry: entry[0].number):
            self._slots.occupy(slot)
            self._put(transfer, slot)
            yield transfer

    def _put(self, transfer: Transfer, slot: int) -> None:
        self._transfers[transfer.number] = transfer
        self._slot_of[transfer.number] = slot
        self._by_target.setdefault(transfer.target, deque()).append(transfer.number)


def transfer_keys(saved: list[int]) -> list[str]:
    """Returns the keys that may have transfers, from the metadata."""
    return [transfer_key(slot) for slot in range(saved[0])]


def transfer_key(slot: int) -> str:
    return f"transfer-{slot}"
