"""Sends the heartbeats of a running activity to its instance, at most one a second, of several only the last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.logs import RepeatFilter, message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.worker.work_source import Job

log = logging.getLogger(__name__)

_APART_SECONDS = 1.0
_SEND_SECONDS = 10.0
_FLUSH_SECONDS = 1.0
_QUIET_SECONDS = 60.0


class Heartbeats:
    """The heartbeats of one job."""

    def __init__(
        self, job: Job, send: Callable[[Job, str | None], Awaitable[bool]], unawaited: Callable[[], None]
    ) -> None:
        """Creates it on the worker's event loop.

        ``send`` saves the details and returns whether the job is still awaited; ``unawaited`` is called if it is not.
        """
        self._job = job
        self._send = send
        self._unawaited = unawaited
        self._loop = asyncio.get_running_loop()
        self._warnings = RepeatFilter(_QUIET_SECONDS)
        #: The details that the next run of the call is to find, as JSON text.
        self.details = job.heartbeat_details
        self._saved = self.details
        self._noted = False
        self._closed = False
        self._sending: asyncio.Task[None] | None = None

    def beat(self, details: str | None) -> None:
        """Takes a heartbeat, in any thread."""
        if self._closed:
            return  # the thread of an activity that timed out
        if details is not None:
            self.details = details
        # Not for every heartbeat of a tight loop. The sender clears it before it reads the details.
        if not self._noted:
            self._noted = True
            with contextlib.suppress(RuntimeError):  # the loop has ended before the thread
                self._loop.call_soon_threadsafe(self._begin)

    def found(self, details: str | None) -> None:
        """Takes the details that an earlier worker saved."""
        if details is not None:
            self.details = self._saved = details

    async def flush(self) -> None:
        """Saves the last details of an activity that the stop of the worker has ended, if there is time."""
        if self.details != self._saved:
            with contextlib.suppress(HoldfastError, TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._send(self._job, self.details)

    def close(self) -> None:
        """Ends the sending, because the activity has ended. What was not saved yet goes with its outcome."""
        self._closed = True
        if self._sending is not None:
            self._sending.cancel()

    def add_to(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Returns the outcome of the job, if it failed with the details that its next attempt finds."""
        if "error" not in outcome or self.details is None:
            return outcome
        return outcome | {"heartbeat_details": self.details}

    def _begin(self) -> None:
        if not self._closed and (self._sending is None or self._sending.done()):
            self._sending = self._loop.create_task(self._run(), name=f"heartbeats of {self._job}")

    async def _run(self) -> None:
        while self._noted:
            self._noted = False
            try:
                details = self.details
                async with asyncio.timeout(_SEND_SECONDS):
                    awaited = await self._send(self._job, details)
            except (HoldfastError, TimeoutError) as error:
                self._noted = True
                if self._warnings.passes(message_of(error), self._loop.time()):
                    log.warning("%s: a heartbeat was not saved, retrying: %s", self._job, message_of(error))
            except Exception:
                # An error here must not reach the activity.
                log.exception("%s: a heartbeat was not saved", self._job)
            else:
                self._saved = details
                if not awaited:
                    self._unawaited()
                    return
            await asyncio.sleep(_APART_SECONDS)
