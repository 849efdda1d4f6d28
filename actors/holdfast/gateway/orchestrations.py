"""The REST endpoints of orchestrations."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import InvalidRequest
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.middleware.body_limits import MAX_TEXT_CALL
from holdfast.gateway.notified_wait import MAX_WAIT_SECONDS
from holdfast.gateway.openapi import orchestrations as documents
from holdfast.gateway.query_params import FLAG, INTEGER, NUMBER
from holdfast.gateway.routing import Accepted, Endpoint
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import check_id, qualify
from holdfast.orchestration.actor.actor import waiting_for
from holdfast.orchestration.api.requests import (  # noqa: TC001 (pydantic looks them up)
    PriorityField,
    StartAtField,
    StartEvent,
    TagsField,
)
from holdfast.orchestration.recovery.fresh_ids import FreshIds
from holdfast.pushpop.api.requests import Request
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.notified_wait import NotifiedWaits
    from holdfast.gateway.quotas.creations import InstanceCreations
    from holdfast.runtime.contract import HostClient


#: Ids of instances that would have the paths of other calls.
RESERVED_IDS = frozenset({"bulk", "counts"})

Answer = dict[str, Any]


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class HistoryQuery(Query):
    execution_id: Annotated[
        int | None, Field(ge=1, le=2**53, description="An earlier execution; the last 10 are kept."), INTEGER
    ] = None
    limit: Annotated[int, Field(ge=1, le=1000), INTEGER] = 100
    cursor: Annotated[int, Field(ge=0, le=2**53, description="next_cursor of the previous page."), INTEGER] = 0
    recorded: Annotated[bool, Field(description="As stored, for a replay: payloads are JSON text."), FLAG] = False


class WaitQuery(Query):
    timeout_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS), NUMBER] = 30.0


class EventQuery(Query):
    event_id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=255,
            description="An event raised again with the same id counts once; an instance keeps its last 1000 ids.",
        ),
    ] = None


class DeleteQuery(Query):
    force: Annotated[bool, Field(description="Delete the instance even if it has not ended."), FLAG] = False


class StartBody(Request):
    input: Annotated[Any, Field(description="Any JSON value.", examples=[{"order": 1}])] = None
    instance_id: Annotated[str | None, Field(description="Generated if omitted.")] = None
    version: Annotated[str | None, Field(max_length=255)] = None
    tags: TagsField = None
    priority: PriorityField = None
    start_at: StartAtField = None
    event: StartEvent | None = None

    def options(self) -> Answer:
        """Returns the fields for the actor."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "instance_id"}
        if self.event is not None:
            given["event"] = self.event.model_dump()
        return {name: value for name, value in given.items() if value is not None}


class Orchestrations:
    """The handlers of the orchestration endpoints."""

    def __init__(self, client: HostClient, waits: NotifiedWaits, creations: InstanceCreations) -> None:
        self._client = client
        self._creations = creations
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)
        self._waits = waits
        self._fresh_ids = FreshIds.of(client)

    def endpoints(self) -> Sequence[Endpoint]:
        one = "/orchestrations/{instance_id}"
        return [
            Endpoint(
                "POST",
                "/orchestrations/{name}/start",
                self.start,
                documents.start(StartBody),
                Role.USER,
                begins_trace=True,
            ),
            Endpoint("GET", one, self._asking("Status"), documents.STATUS, Role.READER, bulky=True),
            Endpoint("GET", f"{one}/history", self.history, documents.history(HistoryQuery), Role.READER, bulky=True),
            Endpoint("GET", f"{one}/wait", self.wait, documents.wait(WaitQuery), Role.READER),
            Endpoint(
                "POST",
                f"{one}/events/{{event}}",
                self.raise_event,
                documents.raise_event(EventQuery),
                Role.USER,
                begins_trace=True,
            ),
            Endpoint("POST", f"{one}/cancel", self._telling("Cancel"), documents.CANCEL, Role.USER),
            Endpoint("POST", f"{one}/suspend", self._telling("Suspend"), documents.SUSPEND, Role.OPERATOR),
            Endpoint("POST", f"{one}/resume", self._telling("Resume"), documents.RESUME, Role.OPERATOR),
            Endpoint("DELETE", one, self.delete, documents.delete(DeleteQuery), Role.OPERATOR),
            Endpoint(
                "POST",
                f"{one}/outcome",
                self._telling("Complete"),
                documents.OUTCOME,
                Role.USER,
                max_body=MAX_TEXT_CALL,
            ),
            Endpoint("POST", f"{one}/awaited", self._sending("IsAwaited"), documents.AWAITED, Role.USER),
            Endpoint("POST", f"{one}/heartbeat", self._sending("Heartbeat"), documents.HEARTBEAT, Role.USER),
        ]

    async def start(self, call: HttpRequest) -> Answer:
        name = check_id(call.parameters[0], "name")
        _, data = await call.json_object(optional=True)
        body = StartBody.parse(data)
        request = call.traced({"name": name, **body.options(), "seed": secrets.token_hex(8)})
        tenant = call.caller.tenant
        given = body.instance_id
        with self._fresh_ids.name(tenant) if given is None else nullcontext(new_id(given)) as instance_id:
            async with self._creations.creating(tenant, instance_id) as creation:
                answer = await self._ask(qualify(tenant, instance_id), "Start", request)
                creation.is_new = answer["created"]
        result: Answer = {name: answer[name] for name in ("instance_id", "created", "delivered") if name in answer}
        return Accepted(result) if answer["created"] else result

    async def history(self, call: HttpRequest) -> Answer:
        return await self._ask(_address(call), "History", call.query(HistoryQuery).model_dump())

    async def raise_event(self, call: HttpRequest) -> Answer:
        event_id = call.query(EventQuery).event_id
        name = check_id(call.parameters[1], "event name")
        body = call.traced({"name": name, "data": await call.json_value(), "event_id": event_id})
        answer = await self._ask(_address(call), "RaiseEvent", body)
        return Accepted({"success": True, "delivered": answer["delivered"]})

    async def delete(self, call: HttpRequest) -> Answer:
        answer = await self._ask(_address(call), "Delete", call.query(DeleteQuery).model_dump())
        self._creations.deleted(call.caller.tenant, call.parameters[0])
        return answer

    async def wait(self, call: HttpRequest) -> Answer:
        """Returns the status when the instance has ended or the time is up."""
        self._waits.check_running()
        address = _address(call)

        async def ask(notifier: str | None) -> Answer | None:
            answer = await self._ask(address, "Wait", {"notify": notifier})
            return None if answer["ended_at"] is None else answer

        seconds = call.query(WaitQuery).timeout_seconds
        ended = await self._waits.until_answered(call, waiting_for(address), seconds, ask)
        return await self._ask(address, "Status", None) if ended is None else ended

    def _asking(self, method: str) -> Callable[[HttpRequest], Awaitable[Answer]]:
        async def ask(call: HttpRequest) -> Answer:
            return await self._ask(_address(call), method, None)

        return ask

    def _sending(self, method: str) -> Callable[[HttpRequest], Awaitable[Answer]]:
        """Returns a handler that passes the body on to the actor, which validates it."""

        async def send(call: HttpRequest) -> Answer:
            _, data = await call.json_object(optional=True)
            return await self._ask(_address(call), method, data)

        return send

    def _telling(self, method: str) -> Callable[[HttpRequest], Awaitable[Answer]]:
        send = self._sending(method)

        async def tell(call: HttpRequest) -> Answer:
            await send(call)
            return Accepted({"success": True})

        return tell

    async def _ask(self, address: str, method: str, data: Any) -> Answer:
        return raise_for_refusal(await self._batcher.call(address, method, dump(data)))


def new_id(given: str) -> str:
    if given in RESERVED_IDS:
        raise InvalidRequest(f"instance_id: {given} is the path of another call, choose another id.")
    return check_id(given, "instance id")


def _address(call: HttpRequest) -> str:
    """Returns the actor id of the instance in the path."""
    return qualify(call.caller.tenant, check_id(call.parameters[0], "instance id"))
