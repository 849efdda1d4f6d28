"""How much goes together: what one answer may hold, and what one turn may do by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pushpop.items import Delivery

# A pop stops before its answer grows past what daprd hands from one sidecar to another when nobody told it more.
MAX_POP_BYTES = 3 * 1024 * 1024


class Basket:
    """As many items as were asked for, as long as they are not too large together."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._size = 0
        self.found: list[Delivery] = []
        #: Whether something had to be left out.
        self.closed = False

    @property
    def full(self) -> bool:
        self.closed = self.closed or len(self.found) >= self._count
        return self.closed

    def add(self, delivery: Delivery) -> bool:
        if self.full or (self.found and self._size + delivery.item.size > MAX_POP_BYTES):
            self.closed = True
            return False
        self._size += delivery.item.size
        self.found.append(delivery)
        return True


class Bounds:
    """What one turn may do by itself: so many things, and so many bytes of the state values they touch."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._room = size
        self._touched: set[str] = set()

    def add(self, sizes: dict[str, int]) -> bool:
        """Whether there was room for one more, which touches these; for the first one there always is."""
        size = sum(size for key, size in sizes.items() if key not in self._touched)
        if self._count <= 0 or (self._touched and size > self._room):
            return False
        self._count -= 1
        self._room -= size
        self._touched.update(sizes)
        return True
