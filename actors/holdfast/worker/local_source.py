"""The work source of a worker in the server's process, which calls the actors directly."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.client.shielding import finish_even_if_cancelled
from holdfast.errors import HoldfastError
from holdfast.idempotency.interface import record_id
from holdfast.kinds import IDEMPOTENCY_TYPE, ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.names import qualify
from holdfast.orchestration.index.tenant_index import TenantDirectory
from holdfast.pushpop.api.config import missing_for_activities
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.notifier import Notifier, Subscription
from holdfast.runtime.serialization import dump, load
from holdfast.wire.errors import raise_for_refusal
from holdfast.worker.work_source import batch_of, outcome_of, standing_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.notifier import Wakeup
    from holdfast.worker.work_source import Job, JobBatch, Standing

log = logging.getLogger(__name__)

# A queue loses its subscribers when its actor moves or restarts, so the worker asks again after this time.
_WAIT_SECONDS = 10.0
# The owner tag of its locks.
_OWNER = "local"
_NOTHING: dict[str, Any] = {"count": 0}


class LocalWorkSource:
    """Serves the queues of all tenants, with calls batched where possible."""

    def __init__(self, client: HostClient, *, alone: bool = False) -> None:
        """Creates the source. ``alone`` says that no other process runs one, so that old locks can be abandoned."""
        self._alone = alone
        self._client = client
        self._queues = CallBatcher.of(client, QUEUE_TYPE)
        self._instances = CallBatcher.of(client, ORCHESTRATION_TYPE)
        self._notifier = Notifier(client)
        #: Queues that were empty at the last pop: the notifier they will call, and until when to rely on it.
        self._listening: dict[str, tuple[str, float]] = {}

    def tenants(self) -> AsyncIterator[str]:
        return TenantDirectory.of(self._client).each(alone=self._alone)

    async def prepare(self, tenant: str, queue: str) -> int:
        config = await self._ask(tenant, queue, "GetConfig", None)
        if missing := missing_for_activities(config):
            config = await self._ask(tenant, queue, "SetConfig", missing)
        if self._alone:
            await self._ask(tenant, queue, "AbandonOwned", {"owner": _OWNER})
        return int(config["max_deliveries"])

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> JobBatch | None:
        address = qualify(tenant, queue)
        clock = asyncio.get_running_loop().time
        with Subscription(address) as wakeup:
            notifier = await self._notifier.subscribe()
            body: dict[str, Any] = {"count": count, "ttl_seconds": lock_seconds, "notify": notifier, "stays": True}
            if self._alone:
                body["owner"] = _OWNER
            left, until = self._listening.pop(address, ("", 0.0))
            # Between two of these nothing is waited for, as there are free slots: no notification is missed meanwhile.
            if notifier != left or until <= clock():
                popping = asyncio.ensure_future(self._queues.call(address, "PopWithAck", dump(body)))
                answer = await self._received(address, popping)
                until = clock() + _WAIT_SECONDS
            else:
                answer = await self._piggybacked_pop(address, body, wakeup, until)
            if notifier is not None and not wakeup.is_set() and answer["count"] < count:
                self._listening[address] = (notifier, until)
        return batch_of(tenant, queue, answer) if answer["count"] else None

    async def _piggybacked_pop(self, queue: str, body: dict[str, Any], wakeup: Wakeup, until: float) -> dict[str, Any]:
        """Pops in the same turn as the next calls of this process to the queue, without a turn of its own.

        Most activities are pushed by these calls. Returns nothing when a notification or the time limit comes first.
        """
        popping = self._queues.piggyback(queue, "PopWithAck", dump(body))
        waiting = asyncio.ensure_future(wakeup.wait())
        left = until - asyncio.get_running_loop().time()
        try:
            both: set[asyncio.Future[Any]] = {popping, waiting}
            await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self._queues.cancel_piggyback(queue, popping):
                await finish_even_if_cancelled(self._return_unseen(queue, popping))
            raise
        finally:
            waiting.cancel()
        return _NOTHING if self._queues.cancel_piggyback(queue, popping) else await self._received(queue, popping)

    async def _received(self, queue: str, popping: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        """Returns the reply of a pop. A cancellation waits for the reply and abandons the popped items."""
        try:
            return raise_for_refusal(await asyncio.shield(popping))
        except asyncio.CancelledError:
            await finish_even_if_cancelled(self._return_unseen(queue, popping))
            raise

    async def _return_unseen(self, queue: str, popping: asyncio.Future[dict[str, Any]]) -> None:
        try:
            lock_id = (await popping).get("lock_id")
            if lock_id is not None:
                body = {"lock_id": lock_id, "error": "The worker was stopped.", "uncounted": True}
                await self._queues.call(queue, "Abandon", dump(body))
        except HoldfastError as error:
            # Raised from here it would replace the cancellation, and the worker would continue. Either nothing was
            # popped, or its lock expires.
            log.warning(
                "queue %s: items popped while the worker stopped were not abandoned; redelivered when their lock "
                "expires: %s",
                *(queue, error),
            )

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        return self._instances.expecting(qualify(job.tenant, job.instance_id))

    async def extend(self, batch: JobBatch, seconds: int) -> None:
        body = {"lock_id": batch.lock_id, "additional_ttl_seconds": seconds}
        await self._ask(batch.tenant, batch.queue, "ExtendLock", body)

    async def complete(self, batch: JobBatch, job: Job) -> None:
        await self._ask(batch.tenant, batch.queue, "Complete", {"ids": [job.item_id]})

    async def abandon(
        self, batch: JobBatch, jobs: Sequence[Job], error: str, delay_seconds: float, *, counted: bool
    ) -> None:
        ids = [job.item_id for job in jobs]
        body: dict[str, Any] = {"lock_id": batch.lock_id, "ids": ids, "error": error}
        body |= {"delay_seconds": delay_seconds, "uncounted": not counted}
        await self._ask(batch.tenant, batch.queue, "Abandon", body)

    async def dead_letter(self, batch: JobBatch, item_ids: Sequence[str], reason: str) -> None:
        body = {"lock_id": batch.lock_id, "ids": item_ids, "reason": reason}
        await self._ask(batch.tenant, batch.queue, "DeadLetter", body)

    async def report(self, job: Job, outcome: dict[str, Any]) -> None:
        await self._ask_instance(job, "Complete", outcome_of(job, outcome))

    async def standing(self, job: Job) -> Standing:
        return standing_of(await self._ask_instance(job, "IsAwaited", job.place))

    async def heartbeat(self, job: Job, details: str | None) -> bool:
        return bool((await self._ask_instance(job, "Heartbeat", job.place | {"details": details}))["awaited"])

    async def call_record(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        named = {"key": job.record_key, "tenant": job.tenant} if what == "begin" else {}
        record = record_id(job.tenant, job.record_key)
        answer = await self._client.invoke_method(IDEMPOTENCY_TYPE, record, what.capitalize(), dump(body | named))
        return raise_for_refusal(load(answer))

    async def _ask_instance(self, job: Job, method: str, data: Any) -> dict[str, Any]:
        instance = qualify(job.tenant, job.instance_id)
        return raise_for_refusal(await self._instances.call(instance, method, dump(data)))

    async def _ask(self, tenant: str, queue: str, method: str, data: Any) -> dict[str, Any]:
        return raise_for_refusal(await self._queues.call(qualify(tenant, queue), method, dump(data)))
