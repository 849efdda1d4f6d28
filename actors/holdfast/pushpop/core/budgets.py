"""Size limits of one reply and of the work that one turn does on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pushpop.core.items import Delivery

# Keeps a reply below the size that daprd passes between sidecars by default.
MAX_POP_BYTES = 3 * 1024 * 1024
# Stats show the locks that expire first, and the number of the others.
MAX_LOCKS_SHOWN = 1000


class ResponseBudget:
    """Collects up to ``count`` deliveries while their total size fits."""

    def __init__(self, count: int, size: int = MAX_POP_BYTES) -> None:
        self._count = count
        self._size = 0
        self._most = size
        self.found: list[Delivery] = []
        #: Whether a delivery was left out.
        self.closed = False

    @property
    def full(self) -> bool:
        self.closed = self.closed or len(self.found) >= self._count
        return self.closed

    def add(self, delivery: Delivery) -> bool:
        if self.full or (self.found and self._size + delivery.item.size > self._most):
            self.closed = True
            return False
        self._size += delivery.item.size
        self.found.append(delivery)
        return True


class TurnBudget:
    """Limits the work of one turn by a number of entries and by the bytes of the state values they touch."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._room = size
        self._touched: set[str] = set()

    def add(self, sizes: dict[str, int]) -> bool:
        """Returns whether one more entry fits that touches these values; the first one always fits."""
        size = sum(size for key, size in sizes.items() if key not in self._touched)
        if self._count <= 0 or (self._touched and size > self._room):
            return False
        self._count -= 1
        self._room -= size
        self._touched.update(sizes)
        return True
