"""The REST endpoints of queues."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import HostStopping, InvalidRequest, NotFound
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.middleware.body_limits import MAX_BODY, MAX_CALL
from holdfast.gateway.openapi import queues as documents
from holdfast.gateway.query_params import FLAG, INTEGER, NUMBER
from holdfast.gateway.queues import merge as views
from holdfast.gateway.queues.config import Configuration
from holdfast.gateway.queues.dead_letters import DeadLetters
from holdfast.gateway.queues.deletion import Deletion
from holdfast.gateway.queues.large_pushes import read_push
from holdfast.gateway.queues.listing import QueueListing
from holdfast.gateway.queues.long_poll import Poller
from holdfast.gateway.queues.partitions import Partitions
from holdfast.gateway.queues.push_routing import Pushes, entries_of, refuse_internal, refuse_other_tenants, with_context
from holdfast.gateway.queues.stats_cache import StatsCache
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.gateway.quotas.usage import TenantUsages
from holdfast.gateway.routing import Endpoint
from holdfast.names import check_queue_id, in_same_tenant, qualify
from holdfast.pushpop.api import replies, requests
from holdfast.pushpop.api.config import missing_for_activities
from holdfast.pushpop.core.budgets import MAX_POP_BYTES
from holdfast.pushpop.core.items import partition_of, partition_of_lock
from holdfast.pushpop.core.queue import DEFAULT_TTL, MAX_POP
from holdfast.runtime.notifier import Notifier
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.runtime.contract import HostClient

MAX_WAIT_SECONDS = 300.0
MAX_LISTED = 100
# How many partitions are asked for items at once: each may return an item of the maximal size.
_LOOKED_INTO = 4

Answer = dict[str, Any]


Count = Annotated[int, Field(ge=1, le=MAX_POP), INTEGER]


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PopQuery(Query):
    require_ack: Annotated[bool, Field(description="Lock the items until they are acknowledged."), FLAG] = False
    ttl_seconds: Annotated[int, Field(description="How long the lock lasts; limited to 1 to 300."), INTEGER] = (
        DEFAULT_TTL
    )
    count: Count = 1
    wait_seconds: Annotated[
        float, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for an item."), NUMBER
    ] = 0
    owner: Annotated[
        requests.Owner | None,
        Field(description="A tag by which abandon releases the lock of a pop whose answer was lost."),
    ] = None


class PeekQuery(Query):
    count: Count = 1


class ListQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str | None, Field(max_length=255, description="next_cursor of the previous page.")] = None


class DeleteQuery(Query):
    force: Annotated[bool, Field(description="Delete the queue with its items, locked ones included."), FLAG] = False


class DeadLettersQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str | None, Field(max_length=255, description="next_cursor of the previous page.")] = None


class Queues:
    """The handlers of the queue endpoints. ``alone`` says that all actors are in this process."""

    def __init__(self, client: HostClient, quotas: Quotas = NO_QUOTAS, *, alone: bool = False) -> None:
        self._client = client
        self._partitions = Partitions(client)
        # Usage is counted only where a tenant has a quota.
        self._usages = TenantUsages(client, self._partitions, quotas) if quotas.limit_storage else None
        if self._usages is not None:
            self._partitions.listeners.append(self._usages.observe)
        self._pushes = Pushes(self._partitions)
        self._listing = QueueListing(client, self._partitions, StatsCache(client, alone=alone))
        self._dead_letters = DeadLetters(self._partitions)
        self._configuration = Configuration(self._partitions)
        self._deletion = Deletion(client, self._partitions, self._usages)
        self._poller = Poller(self._partitions, Notifier(client), client.metrics.long_polls)

    def begin_stop(self) -> None:
        """Answers all waiting pops now and refuses later ones."""
        self._poller.begin_stop()

    async def close(self) -> None:
        """Finishes background calls whose requests were already answered."""
        await self._partitions.close()

    def endpoints(self) -> Sequence[Endpoint]:
        queue = "/queue/{queue}"
        lock = f"{queue}/in-flight/{{lock_id_prefix}}"
        return [
            Endpoint(
                "POST", f"{queue}/push", self.push, documents.PUSH, Role.USER, max_body=MAX_BODY, begins_trace=True
            ),
            Endpoint("POST", f"{queue}/pop", self.pop, documents.pop(PopQuery), Role.USER),
            Endpoint("POST", f"{queue}/acknowledge", self._answering("Acknowledge"), documents.ACKNOWLEDGE, Role.USER),
            Endpoint("POST", f"{queue}/abandon", self.abandon, documents.ABANDON, Role.USER),
            Endpoint("POST", f"{queue}/extend-lock", self._answering("ExtendLock"), documents.EXTEND_LOCK, Role.USER),
            Endpoint("POST", f"{queue}/dead-letter", self.dead_letter, documents.DEAD_LETTER, Role.USER),
            Endpoint("POST", f"{queue}/complete", self.complete, documents.COMPLETE, Role.USER),
            Endpoint("GET", queue, self.stats, documents.STATS, Role.READER, bulky=True),
            Endpoint("DELETE", queue, self.delete, documents.delete(DeleteQuery), Role.OPERATOR, bulky=True),
            Endpoint("GET", f"{queue}/peek", self.peek, documents.peek(PeekQuery), Role.READER, bulky=True),
            Endpoint("GET", f"{queue}/in-flight", self.in_flight, documents.IN_FLIGHT, Role.READER, bulky=True),
            Endpoint("POST", f"{lock}/requeue", self._operating("Requeue"), documents.REQUEUE, Role.OPERATOR),
            Endpoint(
                "POST", f"{lock}/extend", self._operating("ExtendByPrefix"), documents.EXTEND_IN_FLIGHT, Role.OPERATOR
            ),
            Endpoint(
                "GET",
                f"{queue}/dead-letters",
                self.dead_letters,
                documents.dead_letters(DeadLettersQuery),
                Role.READER,
                bulky=True,
            ),
            Endpoint("POST", f"{queue}/redrive", self.redrive, documents.REDRIVE, Role.OPERATOR),
            Endpoint(
                "POST",
                f"{queue}/dead-letters/delete",
                self.delete_dead_letters,
                documents.DELETE_DEAD_LETTERS,
                Role.OPERATOR,
            ),
            Endpoint("DELETE", f"{queue}/items", self.purge, documents.PURGE, Role.OPERATOR, bulky=True),
            Endpoint("DELETE", f"{queue}/items/{{id}}", self.revoke, documents.REVOKE, Role.USER),
            Endpoint("GET", f"{queue}/config", self.config, documents.GET_CONFIG, Role.READER),
            Endpoint("PUT", f"{queue}/config", self.set_config, documents.SET_CONFIG, Role.OPERATOR),
            Endpoint("POST", f"{queue}/work", self.work, documents.WORK, Role.USER),
            Endpoint("GET", "/queues", self.queues, documents.queues(ListQuery), Role.READER, bulky=True),
        ]

    async def push(self, call: HttpRequest) -> Answer:
        queue = _queue_id(call)
        body = await call.body()
        if len(body) > MAX_CALL:
            body, data = await read_push(body, call.pause)
        else:
            data = await call.parsed(body)
            refuse_internal(data)
        if call.caller.bound:
            refuse_other_tenants(data, call.caller.tenant)
        body = with_context(body, data, call.traceparent)
        if self._usages is None:
            return raise_for_refusal(await self._pushes.push(queue, body, data))
        async with self._usages.pushing(queue, len(entries_of(data)), len(body)):
            return raise_for_refusal(await self._pushes.push(queue, body, data))

    async def pop(self, call: HttpRequest) -> Answer:
        queue, query = _queue_id(call), call.query(PopQuery)
        if self._poller.stopping:
            raise HostStopping
        method = "Pop"
        data: dict[str, Any] = {"count": query.count}
        if query.require_ack:
            method, data = "PopWithAck", data | {"ttl_seconds": query.ttl_seconds}
            if query.owner is not None:
                data["owner"] = query.owner
        if query.wait_seconds:
            return raise_for_refusal(await self._poller.pop(call, queue, method, data, query.wait_seconds))
        return raise_for_refusal(await self._partitions.pop(queue, method, dump(data)))

    async def abandon(self, call: HttpRequest) -> Answer:
        queue = _queue_id(call)
        body, data = await call.json_object()
        if "owner" not in data:
            return await self._of_lock(queue, data.get("lock_id"), "Abandon", body)
        owned = {"owner": requests.AbandonOwned.parse(data).owner, "uncounted": True}
        answers = await self._ask_all(queue, "AbandonOwned", dump(owned))
        return replies.answered("given back", sum(answer["items_acknowledged"] for answer in answers))

    async def dead_letter(self, call: HttpRequest) -> Answer:
        queue = _queue_id(call)
        body, data = await call.json_object()
        lock_id = data.get("lock_id")
        answer = raise_for_refusal(await self._partitions.call_holder(queue, lock_id, "DeadLetter", body))
        await self._dead_letters.deliver(queue, partition_of_lock(str(lock_id)))
        return answer

    async def complete(self, call: HttpRequest) -> Answer:
        queue = _queue_id(call)
        _, data = await call.json_object()
        return raise_for_refusal(await self._partitions.complete(queue, requests.Complete.parse(data).ids))

    async def stats(self, call: HttpRequest) -> Answer:
        return await self.stats_of(_queue_id(call))

    async def delete(self, call: HttpRequest) -> Answer:
        return await self._deletion.delete(_queue_id(call), force=call.query(DeleteQuery).force)

    async def peek(self, call: HttpRequest) -> Answer:
        queue, count = _queue_id(call), call.query(PeekQuery).count
        shown = views.Peek(count)

        def asked() -> bytes:
            # Each partition gets a part of the limit, so that all together return little more than is shown.
            return dump({"count": count, "max_bytes": MAX_POP_BYTES // self._partitions.count(queue)})

        async for answers in self._partitions.call_each(queue, "Peek", asked, at_once=_LOOKED_INTO):
            shown.add([raise_for_refusal(answer) for answer in answers])
        return shown.answer()

    async def in_flight(self, call: HttpRequest) -> Answer:
        queue, shown = _queue_id(call), views.InFlight()

        def asked() -> bytes:
            return dump(shown.request(min(_LOOKED_INTO, self._partitions.count(queue))))

        async for answers in self._partitions.call_each(queue, "InFlight", asked, at_once=_LOOKED_INTO):
            shown.add(raise_for_refusal(answer) for answer in answers)
        return shown.answer()

    async def dead_letters(self, call: HttpRequest) -> Answer:
        queue, query = _queue_id(call), call.query(DeadLettersQuery)
        return await self._dead_letters.page(queue, query.limit, query.cursor)

    async def redrive(self, call: HttpRequest) -> Answer:
        _, data = await call.json_object(optional=True)
        return await self._dead_letters.redrive(_queue_id(call), _selected(data))

    async def delete_dead_letters(self, call: HttpRequest) -> Answer:
        # With a body, so that nothing is deleted by a call that was not meant so.
        _, data = await call.json_object()
        return await self._dead_letters.delete(_queue_id(call), _selected(data))

    async def purge(self, call: HttpRequest) -> Answer:
        return views.purged(await self._ask_all(_queue_id(call), "Purge"))

    async def revoke(self, call: HttpRequest) -> Answer:
        queue, item_id = _queue_id(call), call.parameters[1]
        partition = partition_of(item_id)
        if partition is None or not await self._partitions.exists(queue, partition):
            raise NotFound("There is no such item in this queue.")
        return raise_for_refusal(await self._partitions.call(queue, "Revoke", dump({"id": item_id}), partition))

    async def config(self, call: HttpRequest) -> Answer:
        return await self._configuration.get(_queue_id(call))

    async def set_config(self, call: HttpRequest) -> Answer:
        queue = _queue_id(call)
        body, data = await call.json_object()
        return await self._change(queue, body, data)

    async def work(self, call: HttpRequest) -> Answer:
        """Configures the queue for activities. Workers call it before their first pop; they may change nothing else."""
        queue = _queue_id(call)
        config = await self._configuration.get(queue)
        if missing := missing_for_activities(config):
            config = await self._change(queue, dump(missing), missing)
        return config

    async def queues(self, call: HttpRequest) -> Answer:
        query = call.query(ListQuery)
        return await self._listing.page(call.caller.tenant, query.limit, query.cursor)

    async def _change(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        async with contextlib.nullcontext() if self._usages is None else self._usages.configuring(queue):
            return await self._configuration.change(queue, body, data)

    def _answering(self, method: str) -> Callable[[HttpRequest], Awaitable[Answer]]:
        """Returns a handler that passes the body on to the partition of its lock, which validates it."""

        async def answer(call: HttpRequest) -> Answer:
            queue = _queue_id(call)
            body, data = await call.json_object()
            return await self._of_lock(queue, data.get("lock_id"), method, body)

        return answer

    def _operating(self, method: str) -> Callable[[HttpRequest], Awaitable[Answer]]:
        """Returns a handler for an operator's call on a consumer's lock, given by a prefix of its id."""

        async def operate(call: HttpRequest) -> Answer:
            queue, prefix = _queue_id(call), call.parameters[1]
            _, data = await call.json_object(optional=True)
            if "lock_id_prefix" in data:
                raise InvalidRequest("lock_id_prefix: belongs in the path, not in the body")
            asked = dump(data | {"lock_id_prefix": prefix})
            return await self._of_lock(queue, prefix, method, asked)

        return operate

    async def _of_lock(self, queue: str, lock_id: Any, method: str, body: bytes) -> Answer:
        answer = raise_for_refusal(await self._partitions.call_holder(queue, lock_id, method, body))
        if answer.get("dead_lettered"):
            await self._dead_letters.deliver(queue, partition_of_lock(str(lock_id)))
        return answer

    async def _ask_all(self, queue: str, method: str, data: bytes = b"null") -> list[Answer]:
        return [raise_for_refusal(answer) for answer in await self._partitions.call_all(queue, method, data)]

    async def stats_of(self, queue: str) -> Answer:
        """Returns the statistics of a queue."""
        answers = await self._ask_all(queue, "Stats")
        return views.stats(answers) | {"dead_letters": await self._count_dead_letters(queue, answers)}

    async def _count_dead_letters(self, queue: str, answers: Sequence[Answer]) -> int:
        target = answers[0]["dead_letter_queue"]
        if target is None:
            return 0
        return sum(answer["count"] for answer in await self._ask_all(in_same_tenant(queue, target), "Stats"))


def _queue_id(call: HttpRequest) -> str:
    """Returns the qualified id of the queue in the path."""
    return qualify(call.caller.tenant, check_queue_id(call.parameters[0]))


def _selected(data: Answer) -> requests.SelectDeadLetters:
    if "original_queue" in data:
        raise InvalidRequest("original_queue: is not known here")
    selected = requests.SelectDeadLetters.parse(data)
    if selected.ids is not None and selected.cursor is not None:
        raise InvalidRequest("cursor: not with ids")
    return selected
