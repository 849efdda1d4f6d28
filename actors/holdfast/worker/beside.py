"""A worker beside the server: it calls the actors itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.idempotency.interface import IDEMPOTENCY_TYPE, record_id
from holdfast.identity import qualify
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.orchestration.tenants import Tenants
from holdfast.pushpop.config import missing_for_activities
from holdfast.pushpop.doorbell import Doorbell, Listening
from holdfast.pushpop.interface import ACTOR_TYPE
from holdfast.runtime.gather import Gatherer
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import dump, load
from holdfast.worker.bench import batch_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.pushpop.doorbell import Rung
    from holdfast.runtime.contract import HostClient
    from holdfast.worker.bench import Batch, Job

# A queue forgets who waits when its actor moves or is restarted, so one asks again now and then.
_WAIT_SECONDS = 10.0
# What its locks are known by.
_MARK = "beside"
_NOTHING: dict[str, Any] = {"count": 0}


class BesideServer:
    """A bench whose calls travel together wherever they can. It serves all tenants there are."""

    def __init__(self, client: HostClient, *, alone: bool = False) -> None:
        """``alone`` when there is no other process like this one: what one before it had locked is given back then."""
        self._alone = alone
        self._client = client
        self._queues = Gatherer.of(client, ACTOR_TYPE)
        self._instances = Gatherer.of(client, ORCHESTRATION_TYPE)
        self._doorbell = Doorbell(client)
        #: The queues that had no more when they were asked last: the doorbell they have, and until when it counts.
        self._listening: dict[str, tuple[str, float]] = {}

    def tenants(self) -> AsyncIterator[str]:
        return Tenants.of(self._client).each(alone=self._alone)

    async def prepare(self, tenant: str, queue: str) -> int:
        config = await self._ask(tenant, queue, "GetConfig", None)
        if missing := missing_for_activities(config):
            config = await self._ask(tenant, queue, "SetConfig", missing)
        if self._alone:
            await self._ask(tenant, queue, "GiveBackMarked", {"mark": _MARK})
        return int(config["max_deliveries"])

    async def take(self, tenant: str, queue: str, count: int, lock_seconds: int) -> Batch | None:
        address = qualify(tenant, queue)
        clock = asyncio.get_running_loop().time
        with Listening(address) as rung:
            doorbell = await self._doorbell.hang()
            body: dict[str, Any] = {"count": count, "ttl_seconds": lock_seconds, "doorbell": doorbell, "stays": True}
            if self._alone:
                body["mark"] = _MARK
            left, until = self._listening.pop(address, ("", 0.0))
            # Between two of these nothing is waited for, as there are free slots: no ring is missed meanwhile.
            if doorbell != left or until <= clock():
                answer = await self._ask(tenant, queue, "PopWithAck", body)
                until = clock() + _WAIT_SECONDS
            else:
                answer = await self._come_along(address, body, rung, until)
            if doorbell is not None and not rung.is_set() and answer["count"] < count:
                self._listening[address] = (doorbell, until)
        return batch_of(tenant, queue, answer) if answer["count"] else None

    async def _come_along(self, queue: str, body: dict[str, Any], rung: Rung, until: float) -> dict[str, Any]:
        """What the queue has after the next calls from this process, which bring most of what comes: without a turn
        of its own. Or nothing, when the doorbell rings first, or time is up."""
        riding = self._queues.ride(queue, "PopWithAck", dump(body))
        waiting = asyncio.ensure_future(rung.wait())
        left = until - asyncio.get_running_loop().time()
        try:
            both: set[asyncio.Future[Any]] = {riding, waiting}
            await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            stayed = self._queues.back(queue, riding)
        return _NOTHING if stayed else accepted(await riding)

    def expecting(self, job: Job) -> AbstractContextManager[None]:
        return self._instances.expecting(qualify(job.tenant, job.instance_id))

    async def extend(self, batch: Batch, seconds: int) -> None:
        body = {"lock_id": batch.lock_id, "additional_ttl_seconds": seconds}
        await self._ask(batch.tenant, batch.queue, "ExtendLock", body)

    async def done(self, batch: Batch, job: Job) -> None:
        await self._ask(batch.tenant, batch.queue, "Complete", {"ids": [job.item_id]})

    async def give_back(self, batch: Batch, jobs: Sequence[Job], error: str, delay_seconds: float) -> None:
        ids = [job.item_id for job in jobs]
        body = {"lock_id": batch.lock_id, "ids": ids, "error": error, "delay_seconds": delay_seconds}
        await self._ask(batch.tenant, batch.queue, "Abandon", body)

    async def bury(self, batch: Batch, item_ids: Sequence[str], reason: str) -> None:
        body = {"lock_id": batch.lock_id, "ids": item_ids, "reason": reason}
        await self._ask(batch.tenant, batch.queue, "DeadLetter", body)

    async def tell(self, job: Job, outcome: dict[str, Any]) -> None:
        body = {"of": "activity"} | job.place | outcome
        accepted(await self._instances.call(qualify(job.tenant, job.instance_id), "Outcome", dump(body)))

    async def awaited(self, job: Job) -> bool:
        instance = qualify(job.tenant, job.instance_id)
        return bool(accepted(await self._instances.call(instance, "Awaited", dump(job.place)))["awaited"])

    async def once(self, job: Job, what: str, body: dict[str, Any]) -> dict[str, Any]:
        named = {"key": job.record_key, "tenant": job.tenant} if what == "begin" else {}
        record = record_id(job.tenant, job.record_key)
        answer = await self._client.invoke_method(IDEMPOTENCY_TYPE, record, what.capitalize(), dump(body | named))
        return accepted(load(answer))

    async def _ask(self, tenant: str, queue: str, method: str, data: Any) -> dict[str, Any]:
        return accepted(await self._queues.call(qualify(tenant, queue), method, dump(data)))
