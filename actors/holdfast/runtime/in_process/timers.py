"""Timers: like reminders, but in memory only, and dropped when their actor is deactivated."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, Any

from holdfast.runtime.actor_api.durations import parse_due, parse_period
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.actor_api.durations import Period
    from holdfast.runtime.contract import ActorAddress

log = logging.getLogger(__name__)


class Timers:
    """The timers of the active actors."""

    def __init__(
        self, *, fire: Callable[[ActorAddress, str, bytes], Awaitable[None]], now: Callable[[], float]
    ) -> None:
        self._fire = fire
        self._now = now
        self._running: dict[ActorAddress, dict[str, asyncio.Task[None]]] = {}

    def register(self, address: ActorAddress, name: str, body: dict[str, Any]) -> None:
        """Registers a timer from the body of Dapr's call. Raises ValueError for an invalid time."""
        now = self._now()
        due_at, every, expires_at = _times(address, name, body, now)
        self.unregister(address, name)
        callback = dump({key: body.get(key) for key in ("callback", "data", "dueTime", "period")})
        # A separate context: a firing is not a part of the turn that registered the timer, which may still run.
        task = asyncio.get_running_loop().create_task(
            self._run(address, name, callback, due_at - now, every, expires_at), context=contextvars.Context()
        )
        self._running.setdefault(address, {})[name] = task

    def unregister(self, address: ActorAddress, name: str) -> None:
        if task := self._running.get(address, {}).pop(name, None):
            task.cancel()

    def any_of(self, address: ActorAddress) -> bool:
        """Returns whether the actor has timers, which its deactivation would lose."""
        return bool(self._running.get(address))

    def forget(self, address: ActorAddress) -> None:
        """Cancels the timers of a deactivated actor."""
        for task in self._running.pop(address, {}).values():
            task.cancel()

    def stop(self) -> None:
        for address in list(self._running):
            self.forget(address)

    async def _run(
        self,
        address: ActorAddress,
        name: str,
        callback: bytes,
        wait: float,
        every: Period | None,
        expires_at: float | None,
    ) -> None:
        left = every.repeats if every else 1
        try:
            while left is None or left > 0:
                await asyncio.sleep(max(0.0, wait))
                if expires_at is not None and self._now() > expires_at:
                    return
                # Shielded: a timer may cancel itself in its own callback, whose turn goes on.
                await asyncio.shield(self._fire_and_log(address, name, callback))
                left = None if left is None else left - 1
                wait = every.seconds if every else 0.0
        finally:
            mine = self._running.get(address)
            if mine is not None and mine.get(name) is asyncio.current_task():
                del mine[name]
                if not mine:
                    del self._running[address]

    async def _fire_and_log(self, address: ActorAddress, name: str, callback: bytes) -> None:
        """Fires once. Errors are logged here, as the timer may have been cancelled meanwhile."""
        try:
            await self._fire(address, name, callback)
        except Exception:
            # A timer has no caller to report to; it fires again at its next time.
            log.exception("timer %s of %s %s failed", name, *address)


def _times(
    address: ActorAddress, name: str, body: dict[str, Any], now: float
) -> tuple[float, Period | None, float | None]:
    """Returns due time, period and expiry. Raises ValueError with daprd's messages."""
    due_time, period, ttl = (body.get(key) or "" for key in ("dueTime", "period", "ttl"))
    try:
        due_at = parse_due(due_time, now)
    except ValueError as error:
        raise ValueError(f"error parsing timer due time: {error}") from error
    try:
        every = parse_period(period) if period else None
    except ValueError as error:
        parsing = "" if "repetitions" in str(error) else "parse error: "
        raise ValueError(f"invalid timer period: {parsing}{error}") from error
    try:
        expires_at = parse_due(ttl, due_at) if ttl else None
    except ValueError as error:
        raise ValueError(f"error parsing timer TTL: {error}") from error
    if expires_at is not None and expires_at < max(now, due_at):
        key = f"{address.type}||{address.id}||{name}"
        raise ValueError(f"timer {key} has already expired: dueTime: {due_time} TTL: {ttl}")
    return due_at, every, expires_at
