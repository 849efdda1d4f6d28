"""The work source of a worker in a process of its own, which uses the REST API."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from holdfast.client.api.connection import Repeat
from holdfast.client.api.orchestrations import RunCalls
from holdfast.client.api.queues import QueueCalls
from holdfast.client.idempotency import IdempotencyCalls
from holdfast.client.lock_acquire import acquire_lock
from holdfast.errors import AnswerLost, Unavailable
from holdfast.runtime.serialization import dump
from holdfast.worker.completion_batcher import Completions
from holdfast.worker.retry import retry_forever
from holdfast.worker.work_source import batch_of, outcome_of, standing_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.client.api.connection import Connection
    from holdfast.worker.work_source import Job, JobBatch, Standing

_WAIT_SECONDS = 20.0


class RemoteWorkSource:
    """Serves the queues of one tenant over a connection: the tenant of its token, or the one it names."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queues: dict[str, QueueCalls] = {}
        self._completions: dict[str, Completions] = {}

    async def tenants(self) -> AsyncIterator[str]:
        """Yields the tenant of the token, as the server knows it."""
        yield await retry_forever(self._tenant, "asking the server for the tenant")

    async def prepare(self, tenant: str, queue: str) -> int:
        with _repeatable():
            config = await self._queue(queue).work()
        return int(config["max_deliveries"])

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> JobBatch | None:
        answer = await acquire_lock(self._queue(queue), count, lock_seconds, _WAIT_SECONDS)
        return batch_of(tenant, queue, answer) if answer["count"] else None

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        return nullcontext()  # the instance is in another process

    async def extend(self, batch: JobBatch, seconds: int) -> None:
        await self._queue(batch.queue).extend(batch.lock_id, seconds)

    async def complete(self, batch: JobBatch, job: Job) -> None:
        with _repeatable():
            await self._completions[batch.queue].complete(job.item_id)

    async def abandon(
        self, batch: JobBatch, jobs: Sequence[Job], error: str, delay_seconds: float, *, counted: bool
    ) -> None:
        ids = [job.item_id for job in jobs]
        with _repeatable():
            await self._queue(batch.queue).abandon(batch.lock_id, error, delay_seconds, ids, counted=counted)

    async def dead_letter(self, batch: JobBatch, item_ids: Sequence[str], reason: str) -> None:
        with _repeatable():
            await self._queue(batch.queue).dead_letter(batch.lock_id, reason, item_ids)

    async def report(self, job: Job, outcome: dict[str, Any]) -> None:
        with _repeatable():
            await RunCalls(self._connection, job.instance_id).outcome(dump(outcome_of(job, outcome)))

    async def standing(self, job: Job) -> Standing:
        return standing_of(await RunCalls(self._connection, job.instance_id).is_awaited(dump(job.place)))

    async def heartbeat(self, job: Job, details: str | None) -> bool:
        body = dump(job.place | {"details": details})
        return bool((await RunCalls(self._connection, job.instance_id).heartbeat(body))["awaited"])

    async def call_record(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        with _repeatable():
            return await IdempotencyCalls(self._connection, job.tenant, job.record_key).call(what, body)

    async def _tenant(self) -> str:
        with _repeatable():
            return str((await self._connection.call("GET", "status", repeat=Repeat.ALWAYS))["tenant"])

    def _queue(self, name: str) -> QueueCalls:
        calls = self._queues.get(name)
        if calls is None:
            calls = self._queues[name] = QueueCalls(self._connection, name)
            self._completions[name] = Completions(calls)
        return calls


@contextmanager
def _repeatable() -> Iterator[None]:
    """Makes a lost answer retryable, for calls that may be repeated safely."""
    try:
        yield
    except AnswerLost as error:
        raise Unavailable(str(error)) from error
