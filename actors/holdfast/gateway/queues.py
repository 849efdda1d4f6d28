"""Queues over REST."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import InvalidRequest, NotFound, StorageBroken
from holdfast.gateway import documents, views
from holdfast.gateway.allowances import Allowances
from holdfast.gateway.callers import Role
from holdfast.gateway.configuration import Configuration
from holdfast.gateway.dead_letters import DeadLetters
from holdfast.gateway.endpoints import Endpoint
from holdfast.gateway.parameters import FLAG, INTEGER, NUMBER
from holdfast.gateway.partitions import Partitions
from holdfast.gateway.polling import Poller
from holdfast.gateway.pushes import Pushes, refuse_elsewhere, refuse_other_tenants
from holdfast.gateway.quotas import NO_QUOTAS
from holdfast.identity import beside, check_queue_id, qualify
from holdfast.pushpop import requests
from holdfast.pushpop.config import missing_for_activities
from holdfast.pushpop.core import DEFAULT_TTL, MAX_POP
from holdfast.pushpop.doorbell import Doorbell
from holdfast.pushpop.index import list_queues
from holdfast.pushpop.items import partition_of, partition_of_lock
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.gateway.endpoints import Call
    from holdfast.gateway.quotas import Quotas
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 300.0
MAX_LISTED = 100

Answer = dict[str, Any]


Count = Annotated[int, Field(ge=1, le=MAX_POP), INTEGER]


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PopQuery(Query):
    require_ack: Annotated[bool, Field(description="Take under a lock, to be acknowledged."), FLAG] = False
    ttl_seconds: Annotated[int, Field(description="How long the lock lasts: taken as 1 to 300."), INTEGER] = DEFAULT_TTL
    count: Count = 1
    wait_seconds: Annotated[
        float, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for something."), NUMBER
    ] = 0


class PeekQuery(Query):
    count: Count = 1


class ListQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str | None, Field(max_length=255, description="next_cursor of the page before.")] = None


class DeadLettersQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str | None, Field(max_length=255, description="next_cursor of the page before.")] = None


class Queues:
    """What each call does: which partitions it asks, and for what."""

    def __init__(self, client: HostClient, quotas: Quotas = NO_QUOTAS) -> None:
        self._client = client
        self._partitions = Partitions(client)
        # Where nobody is limited, nothing is counted.
        self._allowances = Allowances(client, self._partitions, quotas) if quotas.limit_storage else None
        if self._allowances is not None:
            self._partitions.listeners.append(self._allowances.heard)
        self._pushes = Pushes(self._partitions)
        self._dead_letters = DeadLetters(self._partitions)
        self._configuration = Configuration(self._partitions)
        self._poller = Poller(self._partitions, Doorbell(client), client.meters.long_polls)

    def end_waits(self) -> None:
        """Answers those who wait for something to come."""
        self._poller.stop()

    async def close(self) -> None:
        """Ends what goes on for callers that were answered already."""
        await self._partitions.close()

    def endpoints(self) -> Sequence[Endpoint]:
        queue = "/queue/{queue}"
        lock = f"{queue}/in-flight/{{lock_id_prefix}}"
        return [
            Endpoint("POST", f"{queue}/push", self.push, documents.PUSH, Role.USER),
            Endpoint("POST", f"{queue}/pop", self.pop, documents.pop(PopQuery), Role.USER),
            Endpoint("POST", f"{queue}/acknowledge", self._answering("Acknowledge"), documents.ACKNOWLEDGE, Role.USER),
            Endpoint("POST", f"{queue}/abandon", self._answering("Abandon"), documents.ABANDON, Role.USER),
            Endpoint("POST", f"{queue}/extend-lock", self._answering("ExtendLock"), documents.EXTEND_LOCK, Role.USER),
            Endpoint("POST", f"{queue}/dead-letter", self.dead_letter, documents.DEAD_LETTER, Role.USER),
            Endpoint("POST", f"{queue}/complete", self.complete, documents.COMPLETE, Role.USER),
            Endpoint("GET", queue, self.stats, documents.STATS, Role.READER),
            Endpoint("GET", f"{queue}/peek", self.peek, documents.peek(PeekQuery), Role.READER),
            Endpoint("GET", f"{queue}/in-flight", self.in_flight, documents.IN_FLIGHT, Role.READER),
            Endpoint("POST", f"{lock}/requeue", self._operating("Requeue"), documents.REQUEUE, Role.OPERATOR),
            Endpoint(
                "POST", f"{lock}/extend", self._operating("ExtendByPrefix"), documents.EXTEND_IN_FLIGHT, Role.OPERATOR
            ),
            Endpoint(
                "GET", f"{queue}/dead-letters", self.dead_letters, documents.dead_letters(DeadLettersQuery), Role.READER
            ),
            Endpoint("POST", f"{queue}/redrive", self.redrive, documents.REDRIVE, Role.OPERATOR),
            Endpoint("DELETE", f"{queue}/items", self.purge, documents.PURGE, Role.OPERATOR),
            Endpoint("DELETE", f"{queue}/items/{{id}}", self.revoke, documents.REVOKE, Role.USER),
            Endpoint("GET", f"{queue}/config", self.config, documents.GET_CONFIG, Role.READER),
            Endpoint("PUT", f"{queue}/config", self.set_config, documents.SET_CONFIG, Role.OPERATOR),
            Endpoint("POST", f"{queue}/work", self.work, documents.WORK, Role.USER),
            Endpoint("GET", "/queues", self.queues, documents.queues(ListQuery), Role.READER),
        ]

    async def push(self, call: Call) -> Answer:
        queue = _queue_id(call)
        body, data = await call.json_object()
        refuse_elsewhere(data)
        if call.caller.bound:
            refuse_other_tenants(data, call.caller.tenant)
        if self._allowances is None:
            return accepted(await self._pushes.push(queue, body, data))
        items = data.get("items")
        async with self._allowances.pushing(queue, len(items) if isinstance(items, list) else 1):
            return accepted(await self._pushes.push(queue, body, data))

    async def pop(self, call: Call) -> Answer:
        queue, query = _queue_id(call), call.query(PopQuery)
        method, data = "Pop", {"count": query.count}
        if query.require_ack:
            method, data = "PopWithAck", data | {"ttl_seconds": query.ttl_seconds}
        if query.wait_seconds:
            return accepted(await self._poller.pop(call, queue, method, data, query.wait_seconds))
        return accepted(await self._partitions.pop(queue, method, dump(data)))

    async def dead_letter(self, call: Call) -> Answer:
        queue = _queue_id(call)
        body, data = await call.json_object()
        lock_id = data.get("lock_id")
        answer = accepted(await self._partitions.call_holder(queue, lock_id, "DeadLetter", body))
        await self._dead_letters.deliver(queue, partition_of_lock(str(lock_id)))
        return answer

    async def complete(self, call: Call) -> Answer:
        queue = _queue_id(call)
        _, data = await call.json_object()
        return accepted(await self._partitions.complete(queue, requests.Complete.parse(data).ids))

    async def stats(self, call: Call) -> Answer:
        return await self._stats(_queue_id(call))

    async def peek(self, call: Call) -> Answer:
        queue, count = _queue_id(call), call.query(PeekQuery).count
        return views.peek(await self._ask_all(queue, "Peek", dump({"count": count})), count)

    async def in_flight(self, call: Call) -> Answer:
        return views.in_flight(await self._ask_all(_queue_id(call), "InFlight"))

    async def dead_letters(self, call: Call) -> Answer:
        queue, query = _queue_id(call), call.query(DeadLettersQuery)
        return await self._dead_letters.page(queue, query.limit, query.cursor)

    async def redrive(self, call: Call) -> Answer:
        queue = _queue_id(call)
        _, data = await call.json_object(optional=True)
        request = requests.Redrive.parse(data)
        for internal in ("cursor", "original_queue"):
            if internal in data:
                raise InvalidRequest(f"{internal}: is not known here")
        return await self._dead_letters.redrive(queue, request.ids, request.max)

    async def purge(self, call: Call) -> Answer:
        return views.purged(await self._ask_all(_queue_id(call), "Purge"))

    async def revoke(self, call: Call) -> Answer:
        queue, item_id = _queue_id(call), call.parameters[1]
        partition = partition_of(item_id)
        if partition is None or not await self._partitions.exists(queue, partition):
            raise NotFound("There is no such item in this queue.")
        return accepted(await self._partitions.call(queue, "Revoke", dump({"id": item_id}), partition))

    async def config(self, call: Call) -> Answer:
        return await self._configuration.get(_queue_id(call))

    async def set_config(self, call: Call) -> Answer:
        queue = _queue_id(call)
        body, data = await call.json_object()
        return await self._change(queue, body, data)

    async def work(self, call: Call) -> Answer:
        """What a worker does before its first pop. It has no business with any other setting."""
        queue = _queue_id(call)
        config = await self._configuration.get(queue)
        if missing := missing_for_activities(config):
            config = await self._change(queue, dump(missing), missing)
        return config

    async def queues(self, call: Call) -> Answer:
        query = call.query(ListQuery)
        tenant = call.caller.tenant
        names = sorted(await list_queues(self._client, tenant))
        page = [name for name in names if query.cursor is None or name > query.cursor][: query.limit + 1]
        shown = await asyncio.gather(*(self._listed(tenant, name) for name in page[: query.limit]))
        answer: Answer = {"queues": shown}
        if len(page) > query.limit:
            answer["next_cursor"] = page[query.limit - 1]
        return answer

    async def _listed(self, tenant: str, name: str) -> Answer:
        """One queue of the list. One that is damaged says so, and takes the others' figures from nobody."""
        queue = qualify(tenant, name)
        try:
            own = await self._ask_all(queue, "Stats")
        except StorageBroken as error:
            log.warning("%s is listed without figures: %s", name, error)
            return {"queue": name, "error": error.code}
        try:
            letters = await self._count_dead_letters(queue, own)
        except StorageBroken as error:
            log.warning("%s is listed without its dead letters: %s", name, error)
            letters = None
        merged = views.stats(own)
        return {key: merged[key] for key in ("queue", "count", "locked")} | {"dead_letters": letters}

    async def _change(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        async with contextlib.nullcontext() if self._allowances is None else self._allowances.configuring(queue):
            return await self._configuration.change(queue, body, data)

    def _answering(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        """Hands the request's body on to the partition whose lock it names, which is the one to check it."""

        async def answer(call: Call) -> Answer:
            queue = _queue_id(call)
            body, data = await call.json_object()
            return await self._of_lock(queue, data.get("lock_id"), method, body)

        return answer

    def _operating(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        """What an operator does with somebody else's lock, named by the beginning of its id."""

        async def operate(call: Call) -> Answer:
            queue, prefix = _queue_id(call), call.parameters[1]
            _, data = await call.json_object(optional=True)
            if "lock_id_prefix" in data:
                raise InvalidRequest("lock_id_prefix: belongs into the path")
            asked = dump(data | {"lock_id_prefix": prefix})
            return await self._of_lock(queue, prefix, method, asked)

        return operate

    async def _of_lock(self, queue: str, lock_id: Any, method: str, body: bytes) -> Answer:
        answer = accepted(await self._partitions.call_holder(queue, lock_id, method, body))
        if answer.get("dead_lettered"):
            await self._dead_letters.deliver(queue, partition_of_lock(str(lock_id)))
        return answer

    async def _ask_all(self, queue: str, method: str, data: bytes = b"null") -> list[Answer]:
        return [accepted(answer) for answer in await self._partitions.call_all(queue, method, data)]

    async def _stats(self, queue: str) -> Answer:
        answers = await self._ask_all(queue, "Stats")
        return views.stats(answers) | {"dead_letters": await self._count_dead_letters(queue, answers)}

    async def _count_dead_letters(self, queue: str, answers: Sequence[Answer]) -> int:
        target = answers[0]["dead_letter_queue"]
        if target is None:
            return 0
        return sum(answer["count"] for answer in await self._ask_all(beside(queue, target), "Stats"))


def _queue_id(call: Call) -> str:
    """Qualified: only answers have the name that callers know."""
    return qualify(call.caller.tenant, check_queue_id(call.parameters[0]))
