"""How much mail an instance has not dealt with, and the limits for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import Capacity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.orchestration.core.history import Json
    from holdfast.orchestration.core.limits import Limits

#: When a sender should try again whose event or request found no room.
ROOM_SECONDS = 1


@dataclass(slots=True)
class Unread:
    """The number of events that were not received and of requests that were not answered, and the bytes of their data.

    Mail counts from its arrival on: also while the instance is suspended, and a request after the code has taken it.
    """

    count: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, data: Iterable[Json]) -> Unread:
        unread = cls()
        for one in data:
            unread.add(one)
        return unread

    def add(self, data: Json) -> None:
        self.count += 1
        self.bytes += len(data)

    def remove(self, data: Json) -> None:
        self.count -= 1
        self.bytes -= len(data)

    def check_room(self, instance_id: str, data: Json, limits: Limits) -> None:
        """Raises Capacity when there is no room for one more event or request with this data."""
        if self.count >= limits.unread_mail or self.bytes + len(data) > limits.unread_bytes:
            raise Capacity(
                f"The orchestration {instance_id} has {self.count} unread events and requests of {self.bytes} bytes. "
                f"It may have {limits.unread_mail} of {limits.unread_bytes} bytes. Try again when it has read some.",
                retry_after=ROOM_SECONDS,
            )
