"""A queue as its callers see it."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.client import answers
from holdfast.client.answers import Completion
from holdfast.client.batch import Batch
from holdfast.client.calls import QueueCalls
from holdfast.client.consumer import Consumer
from holdfast.client.once import once
from holdfast.client.parcels import Entry, pack, wrap
from holdfast.client.payloads import encode
from holdfast.client.taking import take
from holdfast.errors import HoldfastError, NotFound, NotLeased

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from holdfast.client.answers import DeadLetter, LockInfo, Message, QueueStats
    from holdfast.client.calls import Answer
    from holdfast.client.connection import Connection
    from holdfast.client.consumer import Handler
    from holdfast.client.once import Asked

MOST_IDS = 1000


class Queue:
    """One queue of a server; made by :meth:`Client.queue`. A queue nobody has used is an empty one."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._calls = QueueCalls(connection, name)

    @property
    def name(self) -> str:
        return self._calls.queue

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    # Putting in

    async def push(
        self,
        item: Any,
        priority: int = 0,
        *,
        dedup_id: str | None = None,
        delay_seconds: float | None = None,
        ttl_seconds: int | None = None,
        idempotency_key: str | None = None,
        tenant_id: str | None = None,
    ) -> str:
        """Puts one item in, any JSON value, and answers its id. The lowest priority comes out first.

        ``dedup_id`` makes sure that it is stored once: pushed again inside the queue's dedup window, the answer is
        the first one's id. Nobody gets it before ``delay_seconds`` are over, nor after ``ttl_seconds``.
        ``idempotency_key`` and ``tenant_id``, on whose behalf it is, are for its consumers: see :meth:`consume`.

        Without a ``dedup_id`` it is not repeated when the answer was lost (``AnswerLost``) or unclear
        (``Unavailable``): the item may be stored.
        """
        entry = Entry(encode(item, "item"), priority, dedup_id, delay_seconds, ttl_seconds, idempotency_key, tenant_id)
        stored: str = (await self._calls.push(wrap(entry)))["ids"][0]
        return stored

    async def push_many(
        self,
        items: Iterable[Any],
        priority: int = 0,
        *,
        dedup_id: Callable[[Any], str] | None = None,
        delay_seconds: float | None = None,
        ttl_seconds: int | None = None,
        idempotency_key: Callable[[Any], str] | None = None,
        tenant_id: str | None = None,
    ) -> list[str]:
        """Puts all of them in, in their order, and answers their ids.

        ``dedup_id`` and ``idempotency_key`` are called with each item, as in ``dedup_id=lambda order: order["id"]``.

        They travel in requests of at most 1000 items and 4 MiB. Each request is stored as a whole or not at all;
        an error leaves the requests before it stored, and has their ids in ``error.details["pushed"]``.
        """

        def entry(item: Any) -> Entry:
            return Entry(
                encode(item, "item"),
                priority,
                None if dedup_id is None else dedup_id(item),
                delay_seconds,
                ttl_seconds,
                None if idempotency_key is None else idempotency_key(item),
                tenant_id,
            )

        ids: list[str] = []
        try:
            for parcel in pack(entry(item) for item in items):
                ids += (await self._calls.push(parcel))["ids"]
        except HoldfastError as error:
            error.details["pushed"] = ids
            raise
        return ids

    # Taking out

    async def pop(self, count: int = 1, wait_seconds: float = 0) -> list[Message]:
        """Takes up to ``count`` messages for good; what is lost on the way is lost. See :meth:`lock`.

        ``wait_seconds`` is how long to wait for the first of them. Raises ``QueueLocked`` when all locks the queue
        allows are taken.
        """
        return answers.messages(await self._calls.pop(count, wait_seconds))

    @asynccontextmanager
    async def lock(self, ttl_seconds: int = 30, count: int = 1, wait_seconds: float = 0) -> AsyncIterator[Batch]:
        """Takes up to ``count`` messages under one lock: ``async with queue.lock() as batch``.

        The batch is empty, and false, when there is nothing to take. The lock is extended while the block runs.
        Leaving the block acknowledges; an error or a cancellation gives the messages back with what it says, and
        passes on. Raises ``LockExpired`` when the lock was lost meanwhile, ``QueueLocked`` when all locks the queue
        allows are taken.
        """
        async with await self._take(ttl_seconds, count, wait_seconds) as batch:
            yield batch

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 8,
        ttl_seconds: int = 30,
        wait_seconds: float = 20,
        grace_seconds: float = 10,
        idempotency: Asked = False,
    ) -> None:
        """Calls the handler with one message after the other, until cancelled.

        Every message has a lock of its own: it is acknowledged when its handler returns, and given back with the
        error when it raises. So ``concurrency`` handlers run at once only where the queue's ``max_locks`` allows
        that many locks. With 1, which is what a queue starts with, messages are handled one at a time in their
        order, however many consumers there are.

        A handler whose lock is lost is cancelled, since its message may be somebody else's. When the server is away,
        consuming goes on as soon as it is back. On cancellation nothing more is taken, the handlers that run get
        ``grace_seconds`` to finish, and what did not finish is given back; cancelling again ends the grace.

        With ``idempotency`` a message is not handled when one with the same key was: it is acknowledged at once. The
        key is what it was pushed with (``True``), or what a function makes of the message; :class:`Idempotency` says
        the rest. What the handler returns is recorded, as JSON, and the message acknowledged after that. A process
        that dies in between leaves an effect without a record, and the message is handled again.
        """
        if concurrency < 1 or wait_seconds < 1:
            raise ValueError("concurrency and wait_seconds must be at least 1")

        async def take(wait: float) -> Batch:
            return await self._take(ttl_seconds, 1, wait)

        consumer = Consumer(
            self.name,
            take,
            once(self._connection, handler, idempotency),
            concurrency=concurrency,
            wait_seconds=wait_seconds,
            grace_seconds=grace_seconds,
        )
        await consumer.run()

    # Answering for a lock by its id. After an answer that was lost, LockNotFound or InvalidLockId with that loss as
    # its cause means that it had been done.

    async def acknowledge(self, lock_id: str) -> int:
        """The locked items are done with. Answers how many there were."""
        return _count(await self._calls.acknowledge(lock_id))

    async def abandon(
        self,
        lock_id: str,
        error: str | None = None,
        *,
        delay_seconds: float = 0,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Gives the locked items, or these of them, back: now or when ``delay_seconds`` are over."""
        return _count(await self._calls.abandon(lock_id, error, delay_seconds, ids))

    async def dead_letter(self, lock_id: str, reason: str | None = None, *, ids: Sequence[str] | None = None) -> int:
        """Moves the locked items, or these of them, to the queue's dead-letter queue."""
        return _count(await self._calls.dead_letter(lock_id, reason, ids))

    async def extend(self, lock_id: str, seconds: int = 30) -> float:
        """Adds to the lock's time, never past 300 seconds from now. Answers when it expires, in Unix seconds."""
        expires_at: float = (await self._calls.extend(lock_id, seconds))["lock_expires_at"]
        return expires_at

    async def complete(self, ids: Iterable[str]) -> Completion:
        """Messages that are done with, by their ids, whatever their locks and partitions are.

        Safe to repeat: what is completed already, or unknown, is ignored. Raises ``NotLeased`` when some of them
        are there but not locked (``error.details["not_leased"]``); all others are completed then.
        """
        completed = ignored = 0
        not_leased: list[str] = []
        told: NotLeased | None = None
        remaining = iter(ids)
        while part := list(itertools.islice(remaining, MOST_IDS)):
            try:
                answer = await self._calls.complete(part)
            except NotLeased as error:
                told, answer = error, error.details
                not_leased += answer["not_leased"]
            completed += answer["completed"]
            ignored += answer["ignored"]
        if told is not None:
            raise NotLeased(told.message, completed=completed, ignored=ignored, not_leased=not_leased)
        return Completion(completed, ignored)

    # Looking

    async def peek(self, count: int = 1) -> list[Message]:
        """The next messages, left where they are."""
        return answers.messages(await self._calls.peek(count))

    async def stats(self) -> QueueStats:
        """How much waits, what is locked, how old the oldest is."""
        return answers.stats(await self._calls.stats())

    async def in_flight(self) -> list[LockInfo]:
        """What is locked, and until when."""
        return [answers.lock_info(lock) for lock in (await self._calls.in_flight())["locks"]]

    async def dead_letters(self, *, page_size: int = 50) -> AsyncIterator[DeadLetter]:
        """What was given up, oldest first: ``async for letter in queue.dead_letters()``."""
        cursor: str | None = None
        while True:
            page = await self._calls.dead_letters(page_size, cursor)
            for letter in page["dead_letters"]:
                yield answers.dead_letter(letter)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    # Keeping

    async def redrive(self, ids: Iterable[str] | None = None, *, limit: int | None = None) -> int:
        """Puts dead letters back where they came from, with a delivery count from 0 again. Answers how many.

        Those with these ids (of the dead letters, at most 1000), or all; no more than ``limit`` of them.
        """
        wanted = None if ids is None else list(ids)
        redriven = 0
        more = True
        while more and redriven != limit:
            answer = await self._calls.redrive(wanted, None if limit is None else limit - redriven)
            redriven += answer["redriven"]
            more = answer.get("more", False)
        return redriven

    async def revoke(self, item_id: str) -> None:
        """Removes one message that is not locked. Raises ``NotFound``, or ``Conflict`` when it is locked."""
        try:
            await self._calls.revoke(item_id)
        except NotFound as error:
            # Gone after an attempt whose outcome nobody heard: it was that attempt.
            if error.__cause__ is None:
                raise

    async def requeue(self, lock_id_prefix: str, error: str | None = None, *, delay_seconds: float = 0) -> int:
        """For operators: gives back what somebody else has locked, by the beginning of the lock's id.

        Raises ``LockNotFound``, or ``Conflict`` when several locks begin like that.
        """
        return _count(await self._calls.requeue(lock_id_prefix, error, delay_seconds))

    async def extend_in_flight(self, lock_id_prefix: str, seconds: int = 30) -> float:
        """For operators: as :meth:`extend`, by the beginning of somebody else's lock's id."""
        expires_at: float = (await self._calls.extend_in_flight(lock_id_prefix, seconds))["lock_expires_at"]
        return expires_at

    async def purge(self) -> int:
        """Removes all that waits, and answers how many. What is locked stays."""
        purged: int = (await self._calls.purge())["purged"]
        return purged

    async def config(self) -> dict[str, Any]:
        """The whole configuration."""
        return await self._calls.config()

    async def set_config(self, **changes: Any) -> dict[str, Any]:
        """Changes the keys that are named, as in ``set_config(max_locks=8)``; answers the whole configuration."""
        return await self._calls.set_config(changes)

    async def _take(self, ttl_seconds: int, count: int, wait_seconds: float) -> Batch:
        return Batch(self._calls, await take(self._calls, count, ttl_seconds, wait_seconds), ttl_seconds)


def _count(answer: Answer) -> int:
    count: int = answer["items_acknowledged"]
    return count
