"""The REST endpoints that find instances: lists, counts, and actions on all instances that match a filter."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from holdfast.errors import HoldfastError, InvalidRequest, NotFound
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.openapi import orchestration_lists as documents
from holdfast.gateway.query_params import FLAG, INTEGER, MOMENT
from holdfast.gateway.routing import Endpoint
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import qualify
from holdfast.orchestration.index.finder import counts, find
from holdfast.orchestration.index.search import Criteria, Order, Search
from holdfast.orchestration.status import Status
from holdfast.orchestration.tags import MAX_TAGS, check_tags
from holdfast.pushpop.api.replies import iso
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump, load
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.orchestration.index.entries import Entry
    from holdfast.orchestration.index.search import Position
    from holdfast.runtime.contract import HostClient

MAX_LISTED = 100
# Instances that are read at once.
_AT_ONCE = 16

Answer = dict[str, Any]
#: A time of a filter, in Unix seconds.
Moment = Annotated[float | None, MOMENT]

_STATUSES = BeforeValidator(lambda given: [given] if isinstance(given, str) else given)


class InstanceFilter(BaseModel):
    """Selects instances: by all that is given. One status of several is enough, tags have to match all."""

    model_config = ConfigDict(extra="forbid")
    #: The parameters that a query may repeat.
    repeatable: ClassVar[frozenset[str]] = frozenset({"status", "tag"})

    status: Annotated[
        list[Status],
        _STATUSES,
        Field(min_length=1, max_length=len(Status), description="Only instances with one of these statuses."),
    ] = []
    name: Annotated[str | None, Field(max_length=255, description="Only instances of this orchestration.")] = None
    version: Annotated[str | None, Field(max_length=255, description="Only instances of this version.")] = None
    tag: Annotated[
        list[str],
        _STATUSES,
        Field(
            max_length=MAX_TAGS,
            examples=[["customer:acme"]],
            description="Only instances with all of these tags, each as KEY:VALUE.",
        ),
    ] = []
    started_after: Annotated[Moment, Field(description="Only instances started at this time or later.")] = None
    started_before: Annotated[Moment, Field(description="Only instances started before this time.")] = None
    ended_after: Annotated[Moment, Field(description="Only instances that ended at this time or later.")] = None
    ended_before: Annotated[Moment, Field(description="Only instances that ended before this time.")] = None
    id_prefix: Annotated[
        str,
        Field(max_length=255, pattern=r"^[A-Za-z0-9\-_.:]*$", description="Only instances whose id begins so."),
    ] = ""

    def criteria(self) -> Criteria:
        """Returns the criteria for the index. Raises InvalidRequest for a tag that is not valid."""
        given = self.model_dump(include=set(Criteria.model_fields) - {"status", "tags"})
        return Criteria(status=[one.value for one in self.status], tags=[_tag(text) for text in self.tag], **given)


class ListQuery(InstanceFilter):
    order: Annotated[Order, Field(description="By the time of the start.")] = "newest"
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str, Field(max_length=512, description="next_cursor of the previous page.")] = ""
    waiting: Annotated[
        bool, Field(description="Add waiting_for: what each instance waits for. Reads each of them."), FLAG
    ] = False


class CountsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str | None, Field(max_length=255, description="Only instances of this orchestration.")] = None


class Cursor:
    """Where a list goes on: opaque text for callers. It stays valid whatever is added or removed."""

    def __init__(self, order: Order, position: Position) -> None:
        self._order = order
        self.position = position

    @classmethod
    def parse(cls, text: str, order: Order) -> Self:
        """Reads a cursor. Raises InvalidRequest for anything else, and for one of a list in the other order."""
        try:
            given, at, instance_id = load(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
            position = float(at), str(instance_id)
        except (ValueError, TypeError, OverflowError, binascii.Error):
            given = None
        if given != order:
            raise InvalidRequest("cursor: send the next_cursor of a list in the same order.")
        return cls(order, position)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(dump([self._order, *self.position])).rstrip(b"=").decode()


class OrchestrationLists:
    """The handlers."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            Endpoint("GET", "/orchestrations", self.list, documents.listed(ListQuery), Role.READER, bulky=True),
            Endpoint(
                "GET", "/orchestrations/counts", self.counts, documents.counted(CountsQuery), Role.READER, bulky=True
            ),
        ]

    async def list(self, call: HttpRequest) -> Answer:
        query = call.query(ListQuery)
        position = Cursor.parse(query.cursor, query.order).position if query.cursor else None
        search = Search(query.criteria(), query.order == "newest", query.limit, position)
        found = await find(self._client, call.caller.tenant, search)
        shown = [_shown(entry) for entry in found.entries]
        if query.waiting:
            await self._add_waiting(call.caller.tenant, shown)
        result: Answer = {"orchestrations": shown}
        if found.position is not None:
            result["next_cursor"] = str(Cursor(query.order, found.position))
        return result

    async def _add_waiting(self, tenant: str, shown: Sequence[Answer]) -> None:
        """Adds to each instance what it waits for: null for an instance that cannot be read now."""
        instances = iter(shown)

        async def work() -> None:
            for instance in instances:
                instance["waiting_for"] = await self._waiting_for(tenant, instance)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(_AT_ONCE, len(shown))):
                workers.create_task(work())

    async def _waiting_for(self, tenant: str, instance: Answer) -> Any:
        if instance["ended_at"] is not None:
            return []
        address = qualify(tenant, instance["instance_id"])
        try:
            state = raise_for_refusal(await self._batcher.call(address, "State", dump(None)))
        except NotFound:
            return []
        except HoldfastError:
            return None
        return state["waiting_for"]

    async def counts(self, call: HttpRequest) -> Answer:
        name = call.query(CountsQuery).name
        by_name = await counts(self._client, call.caller.tenant)
        if name is not None:
            by_name = {name: by_name[name]} if name in by_name else {}
        total: dict[str, int] = {}
        for statuses in by_name.values():
            for status, number in statuses.items():
                total[status] = total.get(status, 0) + number
        return {"counts": total, "by_name": by_name}


def _shown(entry: Entry) -> Answer:
    return {
        "instance_id": entry.instance_id,
        "name": entry.name,
        "version": entry.version,
        "status": entry.status,
        "tags": entry.tags,
        "created_at": iso(entry.created_at),
        "ended_at": None if entry.ended_at is None else iso(entry.ended_at),
    }


def _tag(text: str) -> list[str]:
    key, colon, value = text.partition(":")
    if not colon:
        raise InvalidRequest("tag: send KEY:VALUE.")
    check_tags({key: value})
    return [key, value]
