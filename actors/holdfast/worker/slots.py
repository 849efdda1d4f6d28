"""Slots limit how many activities of one queue run at once, and how many outcomes wait to be delivered."""

from __future__ import annotations

import asyncio

# The largest batch of one pop.
_MOST_AT_ONCE = 100
# How long a finished activity keeps its slot while its outcome is delivered, which usually takes milliseconds.
_DELIVERY_SECONDS = 1.0
# Undelivered outcomes per slot that may wait without a slot; bounded because each may be as large as a result.
_UNDELIVERED_PER_SLOT = 2


class Slots:
    """The slots of one queue of one tenant, reserved by one loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._some_free = asyncio.Event()
        self._some_free.set()
        self._room_for_undelivered = _UNDELIVERED_PER_SLOT * count

    async def reserve(self) -> int:
        """Waits for a free slot, reserves all free slots up to a batch, and returns their number."""
        await self._some_free.wait()
        reserved = min(self._free, _MOST_AT_ONCE)
        self._free -= reserved
        if not self._free:
            self._some_free.clear()
        return reserved

    def release(self, count: int) -> None:
        if count:
            self._free += count
            self._some_free.set()

    def release_undelivered(self) -> bool:
        """Frees the slot of an activity whose outcome is undelivered, unless too many outcomes wait already."""
        if not self._room_for_undelivered:
            return False
        self._room_for_undelivered -= 1
        self.release(1)
        return True

    def delivered(self) -> None:
        self._room_for_undelivered += 1


class Seat:
    """The slot of one job.

    It is released while a slow outcome is delivered. Otherwise an instance that cannot be reached for minutes would
    occupy the slots of all its finished activities, and starve the other instances.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._left = False
        self._timer: asyncio.TimerHandle | None = None

    def deliver(self) -> None:
        """Marks the job as finished, with only its outcome left to deliver."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELIVERY_SECONDS, self._leave)

    @property
    def delivers(self) -> bool:
        return self._timer is not None

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._left:
            self._slots.delivered()
        else:
            self._slots.release(1)

    def _leave(self) -> None:
        self._left = self._slots.release_undelivered()
