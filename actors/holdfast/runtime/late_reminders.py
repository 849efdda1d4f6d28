"""Registers reminders again in the background that the scheduler did not accept."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING

from holdfast.logs import message_of
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from holdfast.runtime.contract import ActorAddress, HostClient

log = logging.getLogger(__name__)

#: The name of the only reminder that Holdfast's own actors have.
WAKE = "wake"

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
# A scheduler that accepts connections but does not reply counts as down.
ANSWER_SECONDS = 5.0
_AT_ONCE = dump({"dueTime": "0s", "period": "", "data": "", "failurePolicy": {"constant": {"interval": "1s"}}})


class LateReminders:
    """The actors of this process whose reminder the scheduler did not accept, retried until it does.

    They are registered to be due at once, whatever their deadline: the actor then registers its next deadline itself.
    So a reminder that is registered twice, or for an actor that has another deadline or another process by now, only
    costs one turn.
    """

    def __init__(self, client: HostClient) -> None:
        self._client = client
        # A dictionary, to keep the order of arrival.
        self._waiting: dict[ActorAddress, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        #: Whether the last attempt failed: turns that do not need their reminder skip their own attempt then.
        self.failing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, address: ActorAddress, error: BaseException | None = None) -> None:
        """Adds an actor whose reminder was not registered."""
        if self._closed:
            return
        if not self._waiting:
            log.warning(
                "the scheduler does not accept reminders, retrying; deadlines may be late: %s",
                "no reply" if error is None else message_of(error),
            )
        self._waiting[address] = None
        self.failing = True
        if self._task is None:
            # A separate context: the task is not a part of the turn that started it.
            self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    def abort(self) -> None:
        """Stops at once; missing reminders are registered by the next turn of their actors."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Stops, and waits until the task has ended."""
        task = self._task
        self.abort()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._waiting:
                if self.failing:
                    await asyncio.sleep(pause)
                address = next(iter(self._waiting))
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await self._client.register_reminder(*address, WAKE, _AT_ONCE)
                except Exception as error:
                    # After any error the reminder is still missing. The others are tried first next time.
                    log.debug("%s %s: the reminder is not registered yet, retrying: %r", *address, error)
                    self._waiting[address] = self._waiting.pop(address)
                    self.failing = True
                    pause = min(2 * pause, LONGEST_PAUSE)
                else:
                    self._waiting.pop(address, None)
                    self.failing = False
                    pause = FIRST_PAUSE
            log.info("the scheduler accepts reminders again; all missing ones are registered")
        finally:
            self._task = None
