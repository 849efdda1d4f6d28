"""A worker in a process of its own: it finds its work over REST."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from holdfast.client.calls import QueueCalls
from holdfast.client.connection import Repeat
from holdfast.client.idempotency import IdempotencyCalls
from holdfast.client.run_calls import RunCalls
from holdfast.client.taking import take
from holdfast.errors import AnswerLost, Unavailable
from holdfast.runtime.serialization import dump
from holdfast.worker.bench import batch_of
from holdfast.worker.completions import Completions
from holdfast.worker.insistence import insist

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.client.connection import Connection
    from holdfast.worker.bench import Batch, Job

_WAIT_SECONDS = 20.0


class Remote:
    """A bench at the other end of a connection: that of one tenant, which is its token's or the one it names."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queues: dict[str, QueueCalls] = {}
        self._completions: dict[str, Completions] = {}

    async def tenants(self) -> AsyncIterator[str]:
        """The server knows whose the token is."""
        yield await insist(self._tenant, "whose activities there are to run")

    async def prepare(self, tenant: str, queue: str) -> int:
        with _repeatable():
            config = await self._queue(queue).work()
        return int(config["max_deliveries"])

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> Batch | None:
        answer = await take(self._queue(queue), count, lock_seconds, _WAIT_SECONDS)
        return batch_of(tenant, queue, answer) if answer["count"] else None

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        return nullcontext()  # the instance is in another process

    async def extend(self, batch: Batch, seconds: int) -> None:
        await self._queue(batch.queue).extend(batch.lock_id, seconds)

    async def done(self, batch: Batch, job: Job) -> None:
        with _repeatable():
            await self._completions[batch.queue].complete(job.item_id)

    async def give_back(self, batch: Batch, jobs: Sequence[Job], error: str, delay_seconds: float) -> None:
        ids = [job.item_id for job in jobs]
        await self._queue(batch.queue).abandon(batch.lock_id, error, delay_seconds, ids)

    async def bury(self, batch: Batch, item_ids: Sequence[str], reason: str) -> None:
        with _repeatable():
            await self._queue(batch.queue).dead_letter(batch.lock_id, reason, item_ids)

    async def tell(self, job: Job, outcome: dict[str, Any]) -> None:
        body = {"of": "activity"} | job.place | outcome
        with _repeatable():
            await RunCalls(self._connection, job.instance_id).outcome(dump(body))

    async def awaited(self, job: Job) -> bool:
        answer = await RunCalls(self._connection, job.instance_id).awaited(dump(job.place))
        return bool(answer["awaited"])

    async def once(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
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
    """What may be done twice is tried again after an answer that was lost, too."""
    try:
        yield
    except AnswerLost as error:
        raise Unavailable(str(error)) from error
