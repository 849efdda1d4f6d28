"""In-memory storage that survives a simulated process, with configurable delays and faults."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import SaveUnanswered, Unavailable
from holdfast.runtime.in_process.storage import Reminder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.runtime.contract import ActorAddress
    from holdfast.runtime.in_process.storage import ReminderChange, Write


class MemoryStorage:
    """One simulated storage. ``before`` and ``after`` a change, time passes and faults occur."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.rows: dict[str, tuple[bytes, float | None]] = {}
        self.reminders: dict[tuple[ActorAddress, str], Reminder] = {}
        self.before: Callable[[str], Awaitable[None]] = _nothing
        self.after: Callable[[str], Awaitable[None]] = _nothing
        #: Called with every transaction that changes state when it is committed.
        self.committed: Callable[[Sequence[Write]], None] = _ignore
        #: Called with an unanswered save that was overwritten before it could be read.
        self.overwritten: Callable[[Sequence[Write]], None] = _ignore
        #: Returns the seconds after which an unanswered save is committed; None for an ordinary save.
        self.commit_delay: Callable[[], float | None] = _at_once
        #: Commits in progress. As in a database, writers of the same rows wait for them, and readers do not see them.
        self._late: list[_LateCommit] = []
        #: False while the scheduler is down: it accepts, changes and fires no reminders, while the state store works.
        self.scheduler_up = True

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def load(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        await self.before("load")
        now = self._now()
        rows = ((key, self.rows[key]) for key in keys if key in self.rows)
        return {key: value for key, (value, expires_at) in rows if expires_at is None or expires_at > now}

    async def save(self, writes: Sequence[Write], reminders: Sequence[ReminderChange] = ()) -> None:
        changed = {write.key for write in writes if write.value is not None or write.key in self.rows}
        overwritten = [late for late in self._late if late.keys and late.keys <= changed]
        for late in overwritten:
            late.overwriting += 1
        try:
            await self.before("save")
            effective = await self._locked(writes)
        finally:
            for late in overwritten:
                late.overwriting -= 1
        if (seconds := self.commit_delay()) is not None:
            late = _LateCommit(writes, reminders)
            self._late.append(late)
            asyncio.get_running_loop().call_later(seconds, self._finish, late)
            raise SaveUnanswered
        self._apply(writes, effective, reminders)
        await self.after("save")

    async def _locked(self, writes: Sequence[Write]) -> Sequence[Write]:
        """Waits for the locks of the rows, one write after the other. Returns the writes that change something.

        As in PostgreSQL, a delete that finds no row does not wait for a transaction that is about to commit that row,
        and then does not delete it.
        """
        effective = []
        written = set()
        for write in writes:
            if write.value is None and write.key not in self.rows and write.key not in written:
                continue
            while under_way := [late for late in self._late if write.key in late.keys]:
                await under_way[0].ended.wait()
            effective.append(write)
            written.add(write.key)
        return effective

    def finish_commits(self) -> None:
        """Commits everything in progress."""
        for late in list(self._late):
            self._finish(late)

    def is_under_way(self, writes: Sequence[Write]) -> bool:
        """Returns whether these writes may still be committed, though their client got no reply."""
        return any(late.writes is writes for late in self._late)

    def _finish(self, late: _LateCommit) -> None:
        if late in self._late:
            self._late.remove(late)
            # A save that has begun overwrites it, so it must never be visible.
            if late.overwriting == 0:
                self._apply(late.writes, late.writes, late.reminders)
            else:
                self.overwritten(late.writes)
            late.ended.set()

    def _apply(self, writes: Sequence[Write], effective: Sequence[Write], reminders: Sequence[ReminderChange]) -> None:
        for write in effective:
            if write.value is None:
                self.rows.pop(write.key, None)
            else:
                expires_at = None if write.ttl_seconds is None else self._now() + write.ttl_seconds
                self.rows[write.key] = (write.value, expires_at)
        for change in reminders:
            self._change_reminder(change)
        if writes:
            self.committed(writes)

    def _change_reminder(self, change: ReminderChange) -> None:
        key = (change.address, change.name)
        if isinstance(change, Reminder):
            self.reminders[key] = change
        elif (found := self.reminders.get(key)) is not None and found.due_at == change.armed:
            if change.due_at is None:
                del self.reminders[key]
            else:
                self.reminders[key] = replace(found, due_at=change.due_at)

    async def put_reminder(self, reminder: Reminder) -> None:
        await self.before("remind")
        self._need_scheduler()
        self.reminders[reminder.address, reminder.name] = reminder
        await self.after("remind")

    async def move_reminder(self, reminder: Reminder) -> None:
        await self.before("settle")
        self._need_scheduler()
        found = self.reminders.get((reminder.address, reminder.name))
        if found and found.version == reminder.version:
            self.reminders[reminder.address, reminder.name] = reminder

    async def delete_reminder(self, address: ActorAddress, name: str, version: str | None = None) -> None:
        await self.before("settle")
        self._need_scheduler()
        found = self.reminders.get((address, name))
        if found and version in (None, found.version):
            del self.reminders[address, name]

    async def get_reminder(self, address: ActorAddress, name: str) -> Reminder | None:
        self._need_scheduler()
        return self.reminders.get((address, name))

    async def earliest_reminders(self, limit: int) -> Sequence[Reminder]:
        if not self.scheduler_up:
            return []
        return sorted(self.reminders.values(), key=lambda reminder: reminder.due_at)[:limit]

    def _need_scheduler(self) -> None:
        if not self.scheduler_up:
            raise Unavailable("The scheduler is down. Try again.")


class _LateCommit:
    def __init__(self, writes: Sequence[Write], reminders: Sequence[ReminderChange]) -> None:
        self.writes = writes
        self.reminders = reminders
        self.keys = {write.key for write in writes}
        self.ended = asyncio.Event()
        #: The number of saves in progress that lock and write all of these rows.
        self.overwriting = 0


def _at_once() -> float | None:
    return None


async def _nothing(_what: str) -> None:
    pass


def _ignore(_writes: Sequence[Write]) -> None:
    pass
