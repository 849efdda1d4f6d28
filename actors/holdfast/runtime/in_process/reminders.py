"""Durable reminders: late if the process was down, retried until they succeed.

Only reminders that are firing are in memory; the others are in the storage, ordered by due time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import re
import secrets
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, ReminderExists
from holdfast.runtime.actor_api.durations import parse_due, parse_period
from holdfast.runtime.actor_api.shapes import Malformed, object_in
from holdfast.runtime.in_process.storage import Postponement, Reminder
from holdfast.runtime.late_reminders import WAKE
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.runtime.actor_api.durations import Period
    from holdfast.runtime.contract import ActorAddress
    from holdfast.runtime.in_process.storage import ReminderChange, Storage, Write

log = logging.getLogger(__name__)

FIRING_AT_ONCE = 256
FIRST_RETRY = 1.0
LONGEST_RETRY = 60.0
# The wake-up of an actor of Holdfast's is retried at this interval until it succeeds.
WAKE_RETRY_SECONDS = 1.0
# Checks regularly: the wall clock may be set forward, or the machine may have slept.
LONGEST_WAIT = 5.0
# Dapr has 32 bits for the number of retries.
_MOST_RETRIES = 2**32 - 1


class Reminders:
    """Registers reminders, and fires them when they are due."""

    def __init__(
        self,
        storage: Storage,
        *,
        fire: Callable[[ActorAddress, str, bytes], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._fire = fire
        self._now = now
        self._firing: set[tuple[ActorAddress, str]] = set()
        #: Postponements that the next transaction makes, and those that a transaction in progress makes. They apply
        #: here at once.
        self._postponed: dict[ActorAddress, Postponement] = {}
        self._postponing: dict[ActorAddress, Postponement] = {}
        # Versions only have to differ, also from those of other processes.
        self._epoch = secrets.token_hex(4)
        self._versions = itertools.count()
        #: Reminders that changed since the last query for due ones, whose result may be out of date for them.
        self._changed_since_asked: set[tuple[ActorAddress, str]] = set()
        # A dictionary, to keep the order of their start: a simulated crash ends them in that order.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._registering = asyncio.Lock()
        self._changed = asyncio.Event()
        self._next_due = float("inf")
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._next_due = 0.0
        self._loop = asyncio.create_task(self._run(), name="reminders")

    async def stop(self) -> None:
        """Fires no more reminders, and waits for those that are firing."""
        if self._loop:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def flush(self) -> None:
        """Stores all postponements, if possible: otherwise reminders fire in vain after the next start."""
        if self._postponed:
            # A task, so that ``abort`` ends it.
            task = asyncio.create_task(self._save([], []))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
            await asyncio.gather(task, return_exceptions=True)

    def abort(self) -> None:
        for task in (self._loop, *self._tasks):
            if task:
                task.cancel()

    async def register(self, address: ActorAddress, name: str, body: dict[str, Any]) -> None:
        """Registers a reminder from the body of Dapr's call.

        Raises Malformed or ValueError for an invalid body, and ReminderExists if it must not replace a reminder but
        would.
        """
        reminder = _from_request(address, name, body, self._now())
        if name == WAKE:
            self._forget_postponement(address)
        if body.get("overwrite") is False:
            async with self._registering:
                if await self._storage.get_reminder(address, name):
                    raise ReminderExists
                await self._storage.put_reminder(reminder)
        else:
            await self._storage.put_reminder(reminder)
        self._changed_since_asked.add((address, name))
        self._wake(reminder.due_at)

    async def unregister(self, address: ActorAddress, name: str) -> None:
        await self._storage.delete_reminder(address, name)
        self._changed_since_asked.add((address, name))

    async def save(self, writes: Sequence[Write], address: ActorAddress, wake_at: float | None) -> None:
        """Saves state and, unless it is None, the wake-up of this actor, in one transaction with all postponements."""
        if wake_at is None:
            await self._save(writes, [])
            return
        self._forget_postponement(address)
        try:
            await self._save(writes, [self._wake_up(address, wake_at)])
        finally:
            # Also after a failure, as the save may have been made all the same.
            self._changed_since_asked.add((address, WAKE))
            self._wake(wake_at)

    def postpone(self, address: ActorAddress, armed: float, wake_at: float | None) -> None:
        """Moves a wake-up to a later time, or removes it. It is stored with the next save of any actor."""
        self._postponed[address] = Postponement(address, WAKE, armed, wake_at)
        if wake_at is not None:
            self._wake(wake_at)

    def _forget_postponement(self, address: ActorAddress) -> None:
        # It is of the registered wake-up, and must not apply to the next one.
        self._postponed.pop(address, None)
        self._postponing.pop(address, None)

    async def _save(self, writes: Sequence[Write], changes: Sequence[ReminderChange]) -> None:
        postponed, self._postponed = self._postponed, {}
        self._postponing |= postponed
        saved = False
        try:
            await self._storage.save(writes, [*changes, *postponed.values()])
            saved = True
        finally:
            for address, postponement in postponed.items():
                if self._postponing.get(address) is postponement:
                    del self._postponing[address]
                    if not saved:
                        self._postponed.setdefault(address, postponement)

    async def get(self, address: ActorAddress, name: str) -> Reminder | None:
        return await self._storage.get_reminder(address, name)

    def _wake(self, due_at: float) -> None:
        if due_at < self._next_due:
            self._next_due = due_at
            self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            wait = min(self._next_due - self._now(), LONGEST_WAIT)
            if wait > 0:
                try:
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
                    continue
                except TimeoutError:
                    pass
            try:
                await self._fire_due()
            except HoldfastError as error:
                log.error("reminders cannot be read, retrying: %s", error)
                self._next_due = self._now() + FIRST_RETRY

    async def _fire_due(self) -> None:
        now = self._now()
        self._next_due = float("inf")
        self._changed_since_asked.clear()
        if len(self._postponed) > FIRING_AT_ONCE:
            # No save came to take them along, and each query would read them.
            await self._save([], [])
        # Firing and postponed reminders are still in the storage, and are skipped.
        skipped = len(self._firing) + len(self._postponed) + len(self._postponing)
        for reminder in await self._storage.earliest_reminders(FIRING_AT_ONCE + skipped + 1):
            due_at = self._due_at(reminder)
            if due_at is None:
                continue
            if due_at > now and due_at != reminder.due_at:
                self._next_due = min(self._next_due, due_at)
                continue
            if reminder.due_at > now:
                self._next_due = min(self._next_due, reminder.due_at)
                break
            if len(self._firing) >= FIRING_AT_ONCE:
                break  # the rest is queried again as soon as one of these has ended
            key = (reminder.address, reminder.name)
            if key in self._changed_since_asked:
                # It fired, or was replaced or deleted, during the query: it may not be due any more.
                self._next_due = now
            elif key not in self._firing:
                self._firing.add(key)
                task = asyncio.create_task(self._fire_one(reminder))
                self._tasks[task] = None
                task.add_done_callback(self._tasks.pop)

    def _due_at(self, reminder: Reminder) -> float | None:
        """Returns when a stored reminder is due, with its postponement; None if it is removed."""
        if reminder.name == WAKE:
            for postponed in (self._postponed, self._postponing):
                found = postponed.get(reminder.address)
                if found is not None and found.armed == reminder.due_at:
                    return found.due_at
        return reminder.due_at

    def _wake_up(self, address: ActorAddress, wake_at: float) -> Reminder:
        return Reminder(
            address=address,
            name=WAKE,
            version=f"{self._epoch}-{next(self._versions):x}",
            due_at=wake_at,
            due_time="0s",
            period="",
            ttl="",
            data="",
            repeats_left=1,
            expires_at=None,
            retry_interval=WAKE_RETRY_SECONDS,
            max_retries=None,
        )

    async def _fire_one(self, reminder: Reminder) -> None:
        pause = 0.0
        try:
            following = await self._try(reminder)
            if following is None:
                await self._storage.delete_reminder(reminder.address, reminder.name, reminder.version)
            else:
                await self._storage.move_reminder(following)
        except HoldfastError as error:
            # The storage failed: the reminder is still stored, and will be found again.
            log.error("reminder %s of %s %s cannot be updated, retrying: %s", reminder.name, *reminder.address, error)
            pause = FIRST_RETRY
        finally:
            key = (reminder.address, reminder.name)
            self._firing.discard(key)
            self._changed_since_asked.add(key)
            # The reminder may have been registered again while it fired, or others may have waited for its place.
            self._wake(self._now() + pause)

    async def _try(self, reminder: Reminder) -> Reminder | None:
        """Fires the reminder. Returns it as it is to be stored, or None to delete it."""
        if reminder.expires_at is not None and reminder.expires_at <= self._now():
            return None
        try:
            await self._fire(reminder.address, reminder.name, _to_callback(reminder))
        except Exception as error:
            # After any error of the actor, the reminder has to fire again.
            log.warning(
                "reminder %s of %s %s failed, attempt %d: %r",
                reminder.name,
                *reminder.address,
                reminder.failures + 1,
                error,
            )
            return _after_failure(reminder, self._now())
        return _after_success(reminder, self._now())


def _from_request(address: ActorAddress, name: str, body: dict[str, Any], now: float) -> Reminder:
    due_time, period, ttl = (body.get(key) or "" for key in ("dueTime", "period", "ttl"))
    every = _every(period) if period else None
    if due_time:
        due_at = parse_due(due_time, now)
    elif every:
        due_at = now + every.seconds
    else:
        raise ValueError("a reminder has a due time or a period")
    if ttl and not every:
        raise ValueError("only a reminder with a period has a time to live")
    expires_at = parse_due(ttl, due_at) if ttl else None
    if expires_at is not None and expires_at < max(now, due_at):
        raise ValueError("the time to live ends before the due time")
    retry_interval, max_retries = _policy(object_in(body, "failurePolicy"))
    return Reminder(
        address=address,
        name=name,
        version=secrets.token_hex(8),
        due_at=due_at,
        due_time=due_time,
        period=period,
        ttl=ttl,
        data=dump(body["data"]).decode() if "data" in body else "",
        repeats_left=every.repeats if every else 1,
        expires_at=expires_at,
        retry_interval=retry_interval,
        max_retries=max_retries,
    )


def _policy(policy: dict[str, Any]) -> tuple[float | None, int | None]:
    """Returns the retry interval and the number of retries; None means our own interval, and no limit."""
    constant = object_in(policy, "constant")
    interval, retries = constant.get("interval"), constant.get("maxRetries")
    if not isinstance(interval, str | None):
        raise Malformed("interval is not a string")
    if retries is not None and (type(retries) is not int or not 0 <= retries <= _MOST_RETRIES):
        raise Malformed(f"maxRetries is not an integer from 0 to {_MOST_RETRIES}")
    seconds = parse_period(interval).seconds if interval else None
    if seconds is not None and seconds < 0:
        raise ValueError(f"the interval is below zero: {interval}")
    return seconds, 0 if "drop" in policy else retries


def _every(period: str) -> Period:
    try:
        every = parse_period(period)
    except ValueError as error:
        raise ValueError(f"unsupported period format: {period}") from error
    if re.search("[WD]", period):
        # daprd's scheduler supports hours as the largest unit.
        raise ValueError(f"unsupported period format: {period}")
    return every


def _to_callback(reminder: Reminder) -> bytes:
    body = {"dueTime": reminder.due_time, "period": reminder.period}
    return dump(body | {"data": load(reminder.data)} if reminder.data else body)


def _after_success(reminder: Reminder, now: float) -> Reminder | None:
    left = None if reminder.repeats_left is None else reminder.repeats_left - 1
    if left == 0:
        return None
    every = parse_period(reminder.period).seconds
    due_at = reminder.due_at + every
    if every and due_at < now:
        # Firings missed while the process was down become one late firing, not a burst.
        due_at = now + every - (now - due_at) % every
    if reminder.expires_at is not None and due_at > reminder.expires_at:
        return None
    return dataclasses.replace(reminder, due_at=due_at, repeats_left=left, failures=0)


def _after_failure(reminder: Reminder, now: float) -> Reminder | None:
    failures = reminder.failures + 1
    if reminder.max_retries is not None and failures > reminder.max_retries:
        return _after_success(reminder, now)
    wait = reminder.retry_interval
    if wait is None:
        wait = min(FIRST_RETRY * 2 ** (failures - 1), LONGEST_RETRY)
    return dataclasses.replace(reminder, due_at=now + wait, failures=failures)
