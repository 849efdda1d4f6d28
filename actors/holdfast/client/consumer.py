"""A loop that takes messages and gives each to a handler, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from holdfast.client.batch import described
from holdfast.client.connection import PASSING, pauses_between_attempts
from holdfast.client.endings import surely
from holdfast.errors import AlreadyInProgress, HoldfastError, LockExpired, QueueLocked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.client.answers import Message
    from holdfast.client.batch import Batch

log = logging.getLogger(__name__)

Handler: TypeAlias = "Callable[[Message], Awaitable[object]]"
#: Takes one message under a lock; waits that long for it, or not at all.
Take: TypeAlias = "Callable[[float], Awaitable[Batch]]"

LONGEST_PAUSE = 30.0
SHORTEST_DELAY = 1.0


class Consumer:
    """Workers that each take one message, handle it, answer for it, and take the next.

    One lock for one message: a handler that fails gives back its own message and nobody else's.
    """

    def __init__(
        self, queue: str, take: Take, handler: Handler, *, concurrency: int, wait_seconds: float, grace_seconds: float
    ) -> None:
        self._queue = queue
        self._take_one = take
        self._handler = handler
        self._concurrency = concurrency
        self._wait_seconds = wait_seconds
        self._grace_seconds = grace_seconds
        self._stopping = False
        self._handling: set[asyncio.Task[None]] = set()
        # However many workers are idle, one of them waits at the server for all.
        self._waiting = asyncio.Lock()

    async def run(self) -> None:
        """Ends by cancellation, or with an error that trying again does not help against."""
        workers = {asyncio.create_task(self._work(), name=f"consumer of {self._queue}") for _ in self._range()}
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop(workers)
        for worker in ended:
            worker.result()

    def _range(self) -> range:
        return range(self._concurrency)

    async def _stop(self, workers: set[asyncio.Task[None]]) -> None:
        self._stopping = True
        for worker in workers - self._handling:
            worker.cancel()
        try:
            # A second cancellation ends the time of grace.
            await asyncio.wait(workers, timeout=self._grace_seconds)
        finally:
            for worker in workers:
                worker.cancel()
            await surely(_all_ended(workers))

    async def _work(self) -> None:
        likely_more = False
        while not self._stopping:
            batch = await self._take(likely_more)
            await self._handle(batch)
            likely_more = True

    async def _take(self, likely_more: bool) -> Batch:
        if likely_more:
            try:
                if batch := await self._take_one(0):
                    return batch
            except (QueueLocked, *PASSING):
                pass  # whoever waits finds out
        async with self._waiting:
            return await self._wait()

    async def _wait(self) -> Batch:
        pauses = None
        while True:
            try:
                if batch := await self._take_one(self._wait_seconds):
                    return batch
            except QueueLocked:
                pass
            except PASSING as error:
                if pauses is None:
                    log.warning("Consuming %s is held up: %s", self._queue, error)
                    pauses = pauses_between_attempts(LONGEST_PAUSE)
                await asyncio.sleep(next(pauses))
                continue
            pauses = None

    async def _handle(self, batch: Batch) -> None:
        me = asyncio.current_task()
        assert me is not None
        self._handling.add(me)
        message = batch[0]
        try:
            async with batch:
                try:
                    await self._run_handler(message, batch)
                except AlreadyInProgress as error:
                    # Given back now, it would come again at once, until it has come too often.
                    await batch.abandon(described(error), delay_seconds=_until_lease_ends(batch, error))
                    raise
        except HoldfastError as error:
            log.warning("Message %s of %s will be delivered again: %s", message.id, self._queue, error)
        except Exception:
            log.warning("The handler failed on message %s of %s", message.id, self._queue, exc_info=True)
        finally:
            self._handling.discard(me)

    async def _run_handler(self, message: Message, batch: Batch) -> None:
        """The handler's own errors pass. It is cancelled when the message is no longer its own."""
        handling = asyncio.ensure_future(self._handler(message))
        losing = asyncio.ensure_future(batch.lost.wait())
        try:
            await asyncio.wait({handling, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not handling.done():
                raise LockExpired("The lock was not extended in time.")
        finally:
            losing.cancel()
            handling.cancel()
            await asyncio.gather(handling, losing, return_exceptions=True)
        if handling.cancelled():
            raise RuntimeError("the handler cancelled itself")
        handling.result()


def _until_lease_ends(batch: Batch, error: AlreadyInProgress) -> float:
    told = error.details.get("lease_expires_at")
    left = 0.0 if told is None else batch.seconds_until(datetime.fromisoformat(told).timestamp())
    return max(left, SHORTEST_DELAY)


async def _all_ended(workers: set[asyncio.Task[None]]) -> None:
    await asyncio.gather(*workers, return_exceptions=True)
