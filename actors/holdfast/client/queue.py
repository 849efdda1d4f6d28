"""The client's interface to one queue."""

from __future__ import annotations

import itertools
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.client import models as answers
from holdfast.client.api.connection import PASSING
from holdfast.client.api.encoding import encode
from holdfast.client.api.push_chunks import Entry, chunked, single
from holdfast.client.api.queues import QueueCalls, letters_selected
from holdfast.client.batch import Batch
from holdfast.client.consumer import FIRST_RETRY_DELAY, LONGEST_RETRY_DELAY, Consumer
from holdfast.client.idempotent_handler import idempotent_handler
from holdfast.client.lock_acquire import acquire_lock
from holdfast.client.models import Completion
from holdfast.errors import HoldfastError, NotFound, NotLeased

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from holdfast.client.api.connection import Connection
    from holdfast.client.api.queues import Answer
    from holdfast.client.consumer import Handler
    from holdfast.client.idempotent_handler import Asked
    from holdfast.client.models import DeadLetter, LockInfo, Message, QueueStats

log = logging.getLogger(__name__)

MOST_IDS = 1000


class Queue:
    """One queue of a server; made by :meth:`Client.queue`. A queue that was never used is empty."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._calls = QueueCalls(connection, name)

    @property
    def name(self) -> str:
        return self._calls.queue

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

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
        """Pushes one item, any JSON value, and returns its id. Items with the lowest priority are delivered first.

        With a ``dedup_id`` the item is stored once: a second push inside the queue's dedup window returns the id of
        the first. The item is delivered after ``delay_seconds`` at the earliest, and expires after ``ttl_seconds``.
        ``idempotency_key`` and ``tenant_id`` are passed to the consumers: see :meth:`consume`.

        Without a ``dedup_id`` the push is not retried after ``AnswerLost`` or ``Unavailable``: the item may be stored.
        """
        entry = Entry(encode(item, "item"), priority, dedup_id, delay_seconds, ttl_seconds, idempotency_key, tenant_id)
        stored: str = (await self._calls.push(single(entry)))["ids"][0]
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
        """Pushes all items in their order, and returns their ids.

        ``dedup_id`` and ``idempotency_key`` are called with each item, as in ``dedup_id=lambda order: order["id"]``.

        They are sent in requests of at most 1000 items and 4 MiB. Each request is stored as a whole or not at all.
        After an error the requests before it stay stored; ``error.details["pushed"]`` has the ids of their items.
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
            for chunk in chunked(entry(item) for item in items):
                ids += (await self._calls.push(chunk))["ids"]
        except HoldfastError as error:
            error.details["pushed"] = ids
            raise
        return ids

    async def pop(self, count: int = 1, wait_seconds: float = 0) -> list[Message]:
        """Removes and returns up to ``count`` messages. They are lost if the response is: see :meth:`lock`.

        ``wait_seconds`` is how long to wait for the first message. Raises ``QueueLocked`` when ``max_locks`` locks
        are held.
        """
        return answers.messages(await self._calls.pop(count, wait_seconds))

    @asynccontextmanager
    async def lock(self, ttl_seconds: int = 30, count: int = 1, wait_seconds: float = 0) -> AsyncIterator[Batch]:
        """Pops up to ``count`` messages under one lock: ``async with queue.lock() as batch``.

        The batch is empty, and false, when no message is available. The lock is extended while the block runs.
        Leaving the block acknowledges the messages; an error or a cancellation abandons them with its text, and is
        raised on. Raises ``LockExpired`` when the lock was lost meanwhile, ``QueueLocked`` when ``max_locks`` locks
        are held.
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
        retry_delay_seconds: float | None = None,
        retry_delay_max_seconds: float = LONGEST_RETRY_DELAY,
        idempotency: Asked = False,
    ) -> None:
        """Calls the handler with each message of the queue, until cancelled.

        Every message has its own lock: it is acknowledged when its handler returns, and abandoned with the error when
        the handler raises. So ``concurrency`` handlers run at once only if the queue's ``max_locks`` is at least as
        large. With ``max_locks`` 1, the default, messages are handled one at a time and in order, whatever the number
        of consumers. A smaller ``max_locks`` than ``concurrency`` is logged once.

        A message whose handler failed is redelivered after 1, 2, 4 … 60 seconds, or after the queue's own back-off if
        one is configured when consuming begins. ``retry_delay_seconds`` is another first delay, which doubles up to
        ``retry_delay_max_seconds``; 0 redelivers at once, and keeps the order.

        A handler whose lock is lost is cancelled, because its message may have been redelivered. When the server
        cannot be reached, consuming continues as soon as it can. On cancellation no more messages are taken, running
        handlers get ``grace_seconds`` to finish, and unfinished messages are abandoned; a second cancellation ends
        the grace period.

        With ``idempotency`` a message whose key was handled before is acknowledged without calling the handler. The
        key is the one the message was pushed with (``True``) or a function of the message; :class:`Idempotency` has
        all settings. The handler's return value is recorded as JSON before the message is acknowledged. If the
        process dies between the effect and the record, the message is handled again.
        """
        if concurrency < 1 or wait_seconds < 1:
            raise ValueError("concurrency and wait_seconds must be at least 1")
        if (retry_delay_seconds or 0) < 0 or retry_delay_max_seconds < 0:
            raise ValueError("retry_delay_seconds and retry_delay_max_seconds must be at least 0")
        config = await self._config_if_reachable()
        room = config.get("max_locks", concurrency) * config.get("partitions", 1)
        if concurrency > room:
            log.warning(
                "Queue %s: at most %d of %d handlers can run at once, because the queue has max_locks=%d; "
                "set_config(max_locks=%d) allows more",
                *(self.name, room, concurrency, config["max_locks"], concurrency),
            )
        if retry_delay_seconds is None and not config.get("retry_delay_seconds"):
            retry_delay_seconds = FIRST_RETRY_DELAY

        async def acquire_lock(wait: float) -> Batch:
            return await self._take(ttl_seconds, 1, wait)

        consumer = Consumer(
            self.name,
            acquire_lock,
            idempotent_handler(self._connection, handler, idempotency),
            concurrency=concurrency,
            wait_seconds=wait_seconds,
            grace_seconds=grace_seconds,
            retry_delay_seconds=retry_delay_seconds,
            retry_delay_max_seconds=retry_delay_max_seconds,
        )
        await consumer.run()

    # Calls by lock id. LockNotFound or InvalidLockId with AnswerLost as its cause means that an earlier attempt,
    # whose response was lost, had succeeded.

    async def acknowledge(self, lock_id: str) -> int:
        """Removes the locked items, which were handled. Returns their number."""
        return _count(await self._calls.acknowledge(lock_id))

    async def abandon(
        self,
        lock_id: str,
        error: str | None = None,
        *,
        delay_seconds: float | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Abandons the locked items, or only ``ids``: they are redelivered after ``delay_seconds``.

        By default, items with an error are redelivered after the queue's ``retry_delay_seconds``, others at once.
        """
        return _count(await self._calls.abandon(lock_id, error, delay_seconds, ids))

    async def dead_letter(self, lock_id: str, reason: str | None = None, *, ids: Sequence[str] | None = None) -> int:
        """Moves the locked items, or only ``ids``, to the queue's dead-letter queue."""
        return _count(await self._calls.dead_letter(lock_id, reason, ids))

    async def extend(self, lock_id: str, seconds: int = 30) -> float:
        """Extends the lock, at most to 300 seconds from now. Returns its expiry in Unix seconds."""
        expires_at: float = (await self._calls.extend(lock_id, seconds))["lock_expires_at"]
        return expires_at

    async def complete(self, ids: Iterable[str]) -> Completion:
        """Acknowledges messages by their ids, across locks and partitions.

        Safe to repeat: ids that are completed already, or unknown, are ignored. Raises ``NotLeased`` when some of the
        messages are in the queue but not locked (``error.details["not_leased"]``); the others are completed.
        """
        completed = ignored = 0
        not_leased: list[str] = []
        refusal: NotLeased | None = None
        remaining = iter(ids)
        while part := list(itertools.islice(remaining, MOST_IDS)):
            try:
                answer = await self._calls.complete(part)
            except NotLeased as error:
                refusal, answer = error, error.details
                not_leased += answer["not_leased"]
            completed += answer["completed"]
            ignored += answer["ignored"]
        if refusal is not None:
            raise NotLeased(refusal.message, completed=completed, ignored=ignored, not_leased=not_leased)
        return Completion(completed, ignored)

    async def peek(self, count: int = 1) -> list[Message]:
        """Returns the next messages without removing or locking them."""
        return answers.messages(await self._calls.peek(count))

    async def stats(self) -> QueueStats:
        """Returns the queue's counts, locks, counters, configuration and the age of its oldest item."""
        return answers.stats(await self._calls.stats())

    async def in_flight(self) -> list[LockInfo]:
        """Returns the locks that are held, with their messages and expiry."""
        return [answers.lock_info(lock) for lock in (await self._calls.in_flight())["locks"]]

    async def dead_letters(self, *, page_size: int = 50) -> AsyncIterator[DeadLetter]:
        """Iterates over the dead letters, oldest first: ``async for letter in queue.dead_letters()``."""
        cursor: str | None = None
        while True:
            page = await self._calls.dead_letters(page_size, cursor)
            for letter in page["dead_letters"]:
                yield answers.dead_letter(letter)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def redrive(
        self,
        ids: Iterable[str] | None = None,
        *,
        limit: int | None = None,
        reason: str | None = None,
        error_contains: str | None = None,
        before: datetime | None = None,
    ) -> int:
        """Moves dead letters back to their original queue, with a delivery count of 0. Returns their number.

        Moves the dead letters with these ids (at most 1000), or all of them; at most ``limit``. The others select
        by the whole ``reason``, by a part of the last error, and by the time they were dead-lettered.
        """
        selected = letters_selected(ids, reason=reason, error_contains=error_contains, before=_written(before))
        return await _repeated(self._calls.redrive, "redriven", selected, limit)

    async def delete_dead_letters(
        self,
        ids: Iterable[str] | None = None,
        *,
        limit: int | None = None,
        reason: str | None = None,
        error_contains: str | None = None,
        before: datetime | None = None,
    ) -> int:
        """Deletes dead letters, selected as by :meth:`redrive`. Returns their number."""
        selected = letters_selected(ids, reason=reason, error_contains=error_contains, before=_written(before))
        return await _repeated(self._calls.delete_dead_letters, "deleted", selected, limit)

    async def revoke(self, item_id: str) -> None:
        """Removes one message. Raises ``NotFound`` when there is no such message, ``Conflict`` when it is locked."""
        try:
            await self._calls.revoke(item_id)
        except NotFound as error:
            # An earlier attempt, whose response was lost, has removed it.
            if error.__cause__ is None:
                raise

    async def requeue(
        self, lock_id_prefix: str, error: str | None = None, *, delay_seconds: float | None = None
    ) -> int:
        """For operators: abandons the items of another consumer's lock, given the beginning of the lock's id.

        Raises ``LockNotFound``, or ``Conflict`` when several lock ids begin with the prefix.
        """
        return _count(await self._calls.requeue(lock_id_prefix, error, delay_seconds))

    async def extend_in_flight(self, lock_id_prefix: str, seconds: int = 30) -> float:
        """For operators: extends another consumer's lock, given the beginning of its id. See :meth:`extend`."""
        expires_at: float = (await self._calls.extend_in_flight(lock_id_prefix, seconds))["lock_expires_at"]
        return expires_at

    async def purge(self) -> int:
        """Removes all items that are not locked, and returns their number."""
        purged: int = (await self._calls.purge())["purged"]
        return purged

    async def delete(self, *, force: bool = False) -> int:
        """Deletes the queue: its items, locks, configuration and partitions, and its line in the list.

        Raises ``Conflict`` if it has items, unless ``force`` is given. Returns the number of items that were removed.
        Its dead letters, which are in a queue of their own, stay.
        """
        purged: int = (await self._calls.delete(force=force))["purged"]
        return purged

    async def config(self) -> dict[str, Any]:
        """Returns the queue's configuration."""
        return await self._calls.config()

    async def set_config(self, **changes: Any) -> dict[str, Any]:
        """Changes the given settings, as in ``set_config(max_locks=8)``, and returns the whole configuration."""
        return await self._calls.set_config(changes)

    async def _config_if_reachable(self) -> dict[str, Any]:
        try:
            return await self.config()
        except PASSING:
            return {}  # the consumer reports it, and continues when the server is back

    async def _take(self, ttl_seconds: int, count: int, wait_seconds: float) -> Batch:
        return Batch(self._calls, await acquire_lock(self._calls, count, ttl_seconds, wait_seconds), ttl_seconds)


def _count(answer: Answer) -> int:
    count: int = answer["items_acknowledged"]
    return count


async def _repeated(call: Callable[[Answer], Awaitable[Answer]], done: str, selected: Answer, limit: int | None) -> int:
    """Repeats the call while its answer says that there are more. Returns how many it did in all."""
    count = 0
    while count != limit:
        answer = await call(selected if limit is None else selected | {"max": limit - count})
        count += answer[done]
        if not answer.get("more", False):
            break
        if "next_cursor" in answer:
            selected["cursor"] = answer["next_cursor"]
    return count


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
