"""Storage in memory that outlives a simulated process, and takes as long as it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.runtime.contract import ActorAddress
    from holdfast.runtime.storage import Reminder, Write


class MemoryStorage:
    """What one simulated disk holds. ``before`` and ``after`` a change is where time passes and faults strike."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.rows: dict[str, tuple[bytes, float | None]] = {}
        self.reminders: dict[tuple[ActorAddress, str], Reminder] = {}
        self.before: Callable[[str], Awaitable[None]] = _nothing
        self.after: Callable[[str], Awaitable[None]] = _nothing
        #: Is shown every transaction at the moment it is done.
        self.committed: Callable[[Sequence[Write]], None] = _unseen

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def load(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        await self.before("load")
        now = self._now()
        rows = ((key, self.rows[key]) for key in keys if key in self.rows)
        return {key: value for key, (value, expires_at) in rows if expires_at is None or expires_at > now}

    async def save(self, writes: Sequence[Write]) -> None:
        await self.before("save")
        for write in writes:
            if write.value is None:
                self.rows.pop(write.key, None)
            else:
                expires_at = None if write.ttl_seconds is None else self._now() + write.ttl_seconds
                self.rows[write.key] = (write.value, expires_at)
        self.committed(writes)
        await self.after("save")

    async def put_reminder(self, reminder: Reminder) -> None:
        await self.before("remind")
        self.reminders[reminder.address, reminder.name] = reminder
        await self.after("remind")

    async def move_reminder(self, reminder: Reminder) -> None:
        await self.before("settle")
        found = self.reminders.get((reminder.address, reminder.name))
        if found and found.version == reminder.version:
            self.reminders[reminder.address, reminder.name] = reminder

    async def delete_reminder(self, address: ActorAddress, name: str, version: str | None = None) -> None:
        await self.before("settle")
        found = self.reminders.get((address, name))
        if found and version in (None, found.version):
            del self.reminders[address, name]

    async def get_reminder(self, address: ActorAddress, name: str) -> Reminder | None:
        return self.reminders.get((address, name))

    async def earliest_reminders(self, limit: int) -> Sequence[Reminder]:
        return sorted(self.reminders.values(), key=lambda reminder: reminder.due_at)[:limit]


async def _nothing(_what: str) -> None:
    pass


def _unseen(_writes: Sequence[Write]) -> None:
    pass
