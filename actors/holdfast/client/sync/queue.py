"""A queue and the messages under a lock, for synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from holdfast.client.batch import Batch
from holdfast.client.models import Message
from holdfast.client.queue import Queue
from holdfast.client.sync.twin import iterating_twin, twin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.client.sync.loop_thread import LoopThread


class SyncQueue:
    """One queue of a server; made by :meth:`SyncClient.queue`. It has no ``consume``: use the asynchronous client."""

    def __init__(self, thread: LoopThread, queue: Queue) -> None:
        self._thread = thread
        self._twin = queue

    @property
    def name(self) -> str:
        return self._twin.name

    def __repr__(self) -> str:
        return f"SyncQueue({self.name!r})"

    @contextmanager
    def lock(self, ttl_seconds: int = 30, count: int = 1, wait_seconds: float = 0) -> Iterator[SyncBatch]:
        """Pops up to ``count`` messages under one lock: ``with queue.lock() as batch``.

        The client's thread extends the lock while the block runs. See :meth:`holdfast.client.Queue.lock`.
        """
        lock = self._twin.lock(ttl_seconds, count, wait_seconds)
        batch = self._thread.call(lock.__aenter__)
        try:
            yield SyncBatch(self._thread, batch)
        except BaseException as error:
            # An interrupt is no failure of the messages: they are redelivered at once, as after a cancellation.
            raised = error if isinstance(error, Exception) else asyncio.CancelledError()
            self._thread.call(lambda: lock.__aexit__(type(raised), raised, None))
            raise
        self._thread.call(lambda: lock.__aexit__(None, None, None))

    push = twin(Queue.push)
    push_many = twin(Queue.push_many, reads="items")
    pop = twin(Queue.pop)
    acknowledge = twin(Queue.acknowledge)
    abandon = twin(Queue.abandon)
    dead_letter = twin(Queue.dead_letter)
    extend = twin(Queue.extend)
    complete = twin(Queue.complete, reads="ids")
    peek = twin(Queue.peek)
    stats = twin(Queue.stats)
    in_flight = twin(Queue.in_flight)
    dead_letters = iterating_twin(Queue.dead_letters)
    redrive = twin(Queue.redrive, reads="ids")
    delete_dead_letters = twin(Queue.delete_dead_letters, reads="ids")
    revoke = twin(Queue.revoke)
    requeue = twin(Queue.requeue)
    extend_in_flight = twin(Queue.extend_in_flight)
    purge = twin(Queue.purge)
    delete = twin(Queue.delete)
    config = twin(Queue.config)

    def set_config(self, **changes: Any) -> dict[str, Any]:
        """Changes the given settings, as in ``set_config(max_locks=8)``, and returns the whole configuration."""
        return self._thread.call(lambda: self._twin.set_config(**changes))


class SyncBatch(Sequence[Message]):
    """The messages popped by :meth:`SyncQueue.lock`, under one lock; empty when the queue is."""

    def __init__(self, thread: LoopThread, batch: Batch) -> None:
        self._thread = thread
        self._twin = batch

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._twin[index]

    def __len__(self) -> int:
        return len(self._twin)

    @property
    def lock_id(self) -> str | None:
        return self._twin.lock_id

    @property
    def lost(self) -> bool:
        """Whether the lock was lost, or will be before it can be extended."""
        return self._twin.lost.is_set()

    @property
    def failure_delay(self) -> float | None:
        """The delay of messages that are abandoned because the block raised; None leaves it to the queue."""
        return self._twin.failure_delay

    @failure_delay.setter
    def failure_delay(self, seconds: float | None) -> None:
        self._twin.failure_delay = seconds

    @property
    def seconds_left(self) -> float:
        """The seconds until the lock expires, unless it is extended."""

        async def left() -> float:
            return self._twin.seconds_left

        return self._thread.call(left)

    def seconds_until(self, moment: float) -> float:
        """Returns the seconds until this time of the server's clock, given in Unix seconds."""

        async def until() -> float:
            return self._twin.seconds_until(moment)

        return self._thread.call(until)

    acknowledge = twin(Batch.acknowledge)
    abandon = twin(Batch.abandon)
    dead_letter = twin(Batch.dead_letter)
    extend = twin(Batch.extend)
