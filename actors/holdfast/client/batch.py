"""Messages under one lock, which is extended while they are handled and released at the end."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, overload

from holdfast.client.api.connection import PASSING
from holdfast.client.models import Message, messages
from holdfast.client.shielding import finish_even_if_cancelled
from holdfast.errors import ConnectionFailed, HoldfastError, InvalidLockId, LockExpired, LockNotFound
from holdfast.logs import message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from holdfast.client.api.queues import Answer, QueueCalls

log = logging.getLogger(__name__)

SHORTEST_TTL, LONGEST_TTL = 1, 300
# Abandoning only speeds up redelivery: without it the lock expires by itself.
ABANDON_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
_MARGIN_SECONDS = 1.0

#: Errors by which the server says that the lock no longer exists.
_GONE = (LockExpired, LockNotFound, InvalidLockId)


class Batch(Sequence[Message]):
    """The messages popped by :meth:`Queue.lock`, under one lock; empty when the queue is.

    Until the messages are acknowledged, abandoned or dead-lettered, the lock is extended whenever half of its time is
    over. If that fails for too long (no server, or this process was suspended), ``lost`` is set shortly before the
    messages can be redelivered. The body is not interrupted; check ``lost`` where that matters. Leaving the block,
    or an explicit acknowledge, abandon or dead-letter, raises ``LockExpired`` when the lock is lost.
    """

    def __init__(self, calls: QueueCalls, answer: Answer, ttl_seconds: int) -> None:
        self._calls = calls
        self._messages = messages(answer)
        self.lock_id: str | None = answer.get("lock_id")
        self.lost = asyncio.Event()
        self._ttl = min(max(ttl_seconds, SHORTEST_TTL), LONGEST_TTL)
        #: The expiry is a time of the server's clock, which may differ from ours: only differences are used.
        self._expires_at = float(answer.get("lock_expires_at", 0))
        self._clock_difference = self._expires_at - (_now() + self._ttl)
        #: The delay of messages that are abandoned because the block raised; None leaves it to the queue.
        self.failure_delay: float | None = None
        self._gone: HoldfastError | None = None
        self._answered = self.lock_id is None
        #: One call about the lock at a time: an extension that arrives after the acknowledgement would find no lock.
        self._calling = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    async def acknowledge(self) -> None:
        """Removes the messages, which were handled."""
        await self._answer(self._calls.acknowledge)

    async def abandon(self, error: str | None = None, *, delay_seconds: float | None = None) -> None:
        """Returns the messages to the front of the queue; ``error`` becomes their ``last_error``.

        They are redelivered after ``delay_seconds``. By default, messages with an error are redelivered after the
        queue's ``retry_delay_seconds``, others at once.
        """
        await self._answer(self._calls.abandon, error, delay_seconds)

    async def dead_letter(self, reason: str | None = None) -> None:
        """Moves the messages to the queue's dead-letter queue."""
        await self._answer(self._calls.dead_letter, reason)

    async def extend(self, seconds: int) -> None:
        """Extends the lock, at most to 300 seconds from now. The batch also extends it by itself."""
        async with self._calling:
            if self.lock_id is None or self._answered:
                return
            try:
                answer = await self._calls.extend(self.lock_id, seconds)
            except _GONE as error:
                raise self._lose(error) from error
            self._expires_at = float(answer["lock_expires_at"])

    @property
    def seconds_left(self) -> float:
        """The seconds until the lock expires, unless it is extended."""
        return self._expires_at - self._clock_difference - _now()

    def seconds_until(self, moment: float) -> float:
        """Returns the seconds until this time of the server's clock, given in Unix seconds."""
        return moment - self._clock_difference - _now()

    async def __aenter__(self) -> Self:
        if not self._answered:
            self._keeper = asyncio.create_task(self._keep(), name=f"lock of {self._calls.queue}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish_even_if_cancelled(self._leave(error))

    async def _leave(self, error: BaseException | None) -> None:
        await self._stop_keeping()
        if self._answered:
            return
        if error is None:
            await self.acknowledge()
            return
        try:
            async with asyncio.timeout(ABANDON_SECONDS):
                # A cancellation is no failure: the messages are redelivered at once.
                delay = 0.0 if isinstance(error, asyncio.CancelledError) else self.failure_delay
                await self.abandon(described(error), delay_seconds=delay)
        except (HoldfastError, TimeoutError) as failure:
            # Raising this would hide the error of the body.
            log.warning(
                "Queue %s: a lock was not abandoned, its messages wait for its expiry: %s",
                self._calls.queue,
                message_of(failure),
            )

    async def _answer(self, call: Callable[..., Awaitable[Answer]], *arguments: str | float | None) -> None:
        async with self._calling:
            if self._answered:
                return
            if self._gone is not None:
                self._answered = True
                raise _lost() from self._gone
            try:
                await self._call_while_it_lasts(call, *arguments)
            except _GONE as error:
                self._answered = True
                raise self._lose(error) from error
            self._answered = True

    async def _call_while_it_lasts(
        self, call: Callable[..., Awaitable[Answer]], *arguments: str | float | None
    ) -> None:
        """Retries until the lock expires: if the call fails, the messages are redelivered and handled again."""
        unclear = False
        while True:
            try:
                await call(self.lock_id, *arguments)
            except (LockNotFound, InvalidLockId) as error:
                # An earlier attempt, whose response was lost, has released the lock.
                if not unclear and error.__cause__ is None:
                    raise
            except PASSING as error:
                unclear = unclear or not isinstance(error, ConnectionFailed)
                if self.seconds_left <= 0:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            return

    async def _keep(self) -> None:
        # Give up shortly before the expiry, so that the body can stop before the messages are redelivered.
        margin = min(self._ttl / 10, _MARGIN_SECONDS)
        while (left := self.seconds_left) > margin:
            if self._answered:
                return
            if left > self._ttl / 2:
                await asyncio.sleep(left - self._ttl / 2)
                continue
            try:
                async with asyncio.timeout(left - margin):
                    await self.extend(math.ceil(self._ttl - left))
            except LockExpired:
                return
            except TimeoutError:
                continue
            except HoldfastError as error:
                log.warning("Queue %s: a lock was not extended, retrying: %s", self._calls.queue, error)
                await asyncio.sleep(_PAUSE_SECONDS)
        log.warning(
            "Queue %s: a lock was not extended in time and is lost; its messages are redelivered", self._calls.queue
        )
        self.lost.set()

    async def _stop_keeping(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    def _lose(self, error: HoldfastError) -> LockExpired:
        self._gone = error
        self.lost.set()
        return _lost()


def described(error: BaseException) -> str:
    """Returns the text that becomes the message's ``last_error``."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return f"{type(error).__name__}: {error}"


def _lost() -> LockExpired:
    return LockExpired("The lock was lost before the messages were acknowledged: they may have been redelivered.")


def _now() -> float:
    return asyncio.get_running_loop().time()
