"""The REST endpoint that acts on all instances that match a filter, page by page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holdfast.errors import HoldfastError, InvalidRequest, NotFound
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.middleware.body_limits import MAX_BODY
from holdfast.gateway.openapi import orchestration_lists as documents
from holdfast.gateway.orchestration_lists import Cursor, InstanceFilter
from holdfast.gateway.orchestration_reruns import FROM_FAILURE
from holdfast.gateway.routing import Endpoint
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import check_id, qualify
from holdfast.orchestration.index.finder import find
from holdfast.orchestration.index.search import Criteria, Found, Search
from holdfast.pushpop.api.requests import Name, Request, Text
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.orchestration_reruns import Reruns
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]

MAX_BULK = 1000
# Instances that are acted on at once.
_AT_ONCE = 16
# Searches for one answer: each reads a bounded part of the index.
_SEARCHES = 8

_EMPTY_FILTER = 'filter: it is empty, which selects every instance: send "all": true as well if this is meant.'


class BulkFilter(InstanceFilter):
    all: Annotated[bool, Field(description="Has to be true when nothing else is given: every instance.")] = False


class BulkBody(Request):
    action: Literal["cancel", "suspend", "resume", "delete", "rerun", "raise"]
    filter: Annotated[BulkFilter, Field(description="As in the list of instances.")] = BulkFilter()
    all: Annotated[bool, Field(description="As in the filter.")] = False
    limit: Annotated[
        int, Field(ge=1, le=MAX_BULK, description="The most instances in one call; fewer if data is large.")
    ] = 100
    cursor: Annotated[str, Field(max_length=512, description="next_cursor of the previous call.")] = ""
    dry_run: Annotated[bool, Field(description="Only count the instances.")] = False
    reason: Annotated[Text, Field(description="For cancel and suspend.")] = None
    event: Annotated[Name | None, Field(description="For raise: the name of the event.")] = None
    data: Annotated[Any, Field(description="For raise: the data of the event, any JSON value.")] = None

    @model_validator(mode="after")
    def fields_of_the_action_only(self) -> BulkBody:
        if (self.action == "raise") != (self.event is not None):
            raise PydanticCustomError(
                "bulk", "event: the action raise needs the name of an event, and no other has one"
            )
        if self.action != "raise" and self.data is not None:
            raise PydanticCustomError("bulk", "data: only the action raise has data")
        if self.action not in ("cancel", "suspend") and self.reason is not None:
            raise PydanticCustomError("bulk", "reason: only the actions cancel and suspend have a reason")
        return self


#: The call of an instance's actor for each action: its method and its data.
_CALLS: dict[str, Callable[[BulkBody], tuple[str, Any]]] = {
    "cancel": lambda body: ("Cancel", {"reason": body.reason}),
    "suspend": lambda body: ("Suspend", {"reason": body.reason}),
    "resume": lambda _: ("Resume", None),
    "delete": lambda _: ("Delete", {"force": False}),
    "rerun": lambda _: ("Rerun", None),
    "raise": lambda body: ("RaiseEvent", {"name": body.event, "data": body.data}),
}


class BulkActions:
    """The handler."""

    def __init__(self, client: HostClient, reruns: Reruns) -> None:
        self._client = client
        self._reruns = reruns
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)

    def endpoints(self) -> Sequence[Endpoint]:
        document = documents.bulk(BulkBody)
        return [Endpoint("POST", "/orchestrations/bulk", self.act, document, Role.OPERATOR, bulky=True)]

    async def act(self, call: HttpRequest) -> Answer:
        _, data = await call.json_object()
        body = BulkBody.parse(data)
        if body.event is not None:
            check_id(body.event, "event name")
        method, given = _CALLS[body.action](body)
        sent = dump(given)
        # What one request stores in many instances is bounded like a request.
        limit = min(body.limit, max(1, MAX_BODY // len(sent)))
        criteria = body.filter.criteria()
        if criteria == Criteria() and not (body.all or body.filter.all):
            raise InvalidRequest(_EMPTY_FILTER)
        call.note(action=body.action)
        tenant = call.caller.tenant
        found = await self._find(tenant, criteria, body.cursor, limit)
        names = [entry.instance_id for entry in found.entries]
        failed = [] if body.dry_run else await self._call_each(tenant, names, method, sent)
        done = 0 if body.dry_run else len(names) - len(failed)
        call.note(matched=str(len(names)), done=str(done))
        answer: Answer = {"matched": len(names), "done": done, "failed": failed}
        if found.position is not None:
            answer["next_cursor"] = str(Cursor("newest", found.position))
        return answer

    async def _find(self, tenant: str, criteria: Criteria, cursor: str, limit: int) -> Found:
        found = Found([], Cursor.parse(cursor, "newest").position if cursor else None)
        for _ in range(_SEARCHES):
            search = Search(criteria, True, limit - len(found.entries), found.position)
            more = await find(self._client, tenant, search)
            found = Found([*found.entries, *more.entries], more.position)
            if found.position is None or len(found.entries) >= limit:
                break
        return found

    async def _call_each(self, tenant: str, names: Sequence[str], method: str, sent: bytes) -> list[str]:
        """Calls each instance. Returns those for which it could not be done."""
        waiting = iter(names)
        failed: set[str] = set()

        async def work() -> None:
            for name in waiting:
                try:
                    if method == "Rerun":
                        await self._reruns.rerun(tenant, name, FROM_FAILURE)
                    else:
                        raise_for_refusal(await self._batcher.call(qualify(tenant, name), method, sent))
                except NotFound:
                    # The index may still have an instance that is deleted already.
                    if method != "Delete":
                        failed.add(name)
                except HoldfastError:
                    failed.add(name)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(_AT_ONCE, len(names))):
                workers.create_task(work())
        return [name for name in names if name in failed]
