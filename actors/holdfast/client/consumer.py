"""Pops messages and calls a handler with each, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from holdfast.backoff import backoff_seconds
from holdfast.client.api.connection import PASSING, pauses_between_attempts
from holdfast.client.batch import described
from holdfast.client.handler_trace import begin_tracing, handling
from holdfast.client.shielding import finish_even_if_cancelled
from holdfast.errors import AlreadyInProgress, HoldfastError, LockExpired, QueueLocked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.client.batch import Batch
    from holdfast.client.models import Message

log = logging.getLogger(__name__)

Handler: TypeAlias = "Callable[[Message], Awaitable[object]]"
#: Pops one message under a lock, waiting up to the given seconds for it.
Take: TypeAlias = "Callable[[float], Awaitable[Batch]]"

LONGEST_PAUSE = 30.0
SHORTEST_DELAY = 1.0
# The default delays of messages whose handler failed: 1, 2, 4 … 60 seconds.
FIRST_RETRY_DELAY, RETRY_FACTOR, LONGEST_RETRY_DELAY = 1.0, 2.0, 60.0


class Consumer:
    """Runs workers that each pop one message, handle it, acknowledge or abandon it, and pop the next.

    Every message has its own lock, so a handler that fails abandons its own message only.
    """

    def __init__(
        self,
        queue: str,
        take: Take,
        handler: Handler,
        *,
        concurrency: int,
        wait_seconds: float,
        grace_seconds: float,
        retry_delay_seconds: float | None,
        retry_delay_max_seconds: float,
    ) -> None:
        """``retry_delay_seconds`` is the delay after the first failure, doubled each time; None is the queue's own."""
        self._queue = queue
        self._take_one = take
        self._handler = handler
        self._concurrency = concurrency
        self._wait_seconds = wait_seconds
        self._grace_seconds = grace_seconds
        self._retry_delay_seconds = retry_delay_seconds
        self._retry_delay_max_seconds = retry_delay_max_seconds
        self._stopping = False
        self._handling: set[asyncio.Task[None]] = set()
        # Only one idle worker at a time polls the server.
        self._waiting = asyncio.Lock()

    async def run(self) -> None:
        """Consumes until it is cancelled or an error occurs that retrying cannot fix."""
        begin_tracing()
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
            # A second cancellation ends the grace period.
            await asyncio.wait(workers, timeout=self._grace_seconds)
        finally:
            for worker in workers:
                worker.cancel()
            await finish_even_if_cancelled(_all_ended(workers))

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
                pass  # the worker that polls reports it
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
                    log.warning("Queue %s: cannot receive messages, retrying: %s", self._queue, error)
                    pauses = pauses_between_attempts(LONGEST_PAUSE)
                await asyncio.sleep(next(pauses))
                continue
            pauses = None

    async def _handle(self, batch: Batch) -> None:
        me = asyncio.current_task()
        assert me is not None
        self._handling.add(me)
        message = batch[0]
        batch.failure_delay = self._retry_delay(message.delivery_count)
        try:
            async with batch:
                try:
                    with handling(self._queue, message):
                        await self._run_handler(message, batch)
                except AlreadyInProgress as error:
                    # Without a delay it would be redelivered at once, again and again, and end as a dead letter.
                    await batch.abandon(described(error), delay_seconds=_until_lease_ends(batch, error))
                    raise
        except HoldfastError as error:
            log.warning("Queue %s: message %s will be redelivered: %s", self._queue, message.id, error)
        except Exception:
            # A handler may raise anything; its message was abandoned with the error, and the consumer goes on.
            log.warning("Queue %s: the handler failed on message %s", self._queue, message.id, exc_info=True)
        finally:
            self._handling.discard(me)

    def _retry_delay(self, deliveries: int) -> float | None:
        first = self._retry_delay_seconds
        return (
            None if first is None else backoff_seconds(deliveries, first, RETRY_FACTOR, self._retry_delay_max_seconds)
        )

    async def _run_handler(self, message: Message, batch: Batch) -> None:
        """Runs the handler and raises its errors. Cancels it when the lock is lost."""
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
    expiry = error.details.get("lease_expires_at")
    left = 0.0 if expiry is None else batch.seconds_until(datetime.fromisoformat(expiry).timestamp())
    return max(left, SHORTEST_DELAY)


async def _all_ended(workers: set[asyncio.Task[None]]) -> None:
    await asyncio.gather(*workers, return_exceptions=True)
