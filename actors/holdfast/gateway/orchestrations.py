"""Orchestrations over REST."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.gateway import orchestration_documents as documents
from holdfast.gateway.callers import Role
from holdfast.gateway.endpoints import Accepted, Endpoint
from holdfast.gateway.parameters import FLAG, INTEGER, NUMBER
from holdfast.identity import check_id, qualify
from holdfast.orchestration.actor import waiting_for
from holdfast.orchestration.index import INSTANCE_INDEX_TYPE, shards_of
from holdfast.orchestration.instance import Status  # noqa: TC001 (pydantic looks it up)
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.orchestration.newborn import Newborn
from holdfast.pushpop.doorbell import Doorbell, Listening
from holdfast.pushpop.replies import iso
from holdfast.pushpop.requests import Request
from holdfast.runtime.gather import Gatherer
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.gateway.endpoints import Call
    from holdfast.runtime.contract import HostClient

MAX_WAIT_SECONDS = 300.0
MAX_LISTED = 100
# An instance forgets who waits when its actor moves or is restarted, so one asks again now and then.
ASK_AGAIN_SECONDS = 10.0

Answer = dict[str, Any]


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class HistoryQuery(Query):
    execution_id: Annotated[
        int | None, Field(ge=1, le=2**53, description="An earlier one; the last 10 are kept."), INTEGER
    ] = None
    limit: Annotated[int, Field(ge=1, le=1000), INTEGER] = 100
    cursor: Annotated[int, Field(ge=0, le=2**53, description="next_cursor of the page before."), INTEGER] = 0
    recorded: Annotated[bool, Field(description="As it is kept, for a replay: payloads are JSON text."), FLAG] = False


class WaitQuery(Query):
    timeout_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS), NUMBER] = 30.0


class ListQuery(Query):
    status: Annotated[Status | None, Field(description="Only those.")] = None
    name: Annotated[str | None, Field(max_length=255, description="Only of this orchestration.")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), INTEGER] = 50
    cursor: Annotated[str, Field(max_length=255, description="next_cursor of the page before.")] = ""


class EventQuery(Query):
    event_id: Annotated[
        str | None, Field(min_length=1, max_length=255, description="Raised again with this id, it counts once.")
    ] = None


class DeleteQuery(Query):
    force: Annotated[bool, Field(description="Also one that has not ended."), FLAG] = False


class StartBody(Request):
    input: Annotated[Any, Field(description="Any JSON value.", examples=[{"order": 1}])] = None
    instance_id: Annotated[str | None, Field(description="One is made up when left out.")] = None
    version: Annotated[str | None, Field(max_length=255)] = None


class Orchestrations:
    """What each call does: which actor it asks, and for what."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._gatherer = Gatherer.of(client, ORCHESTRATION_TYPE)
        self._doorbell = Doorbell(client)
        self._newborn = Newborn.of(client)
        self._stopping = False

    def end_waits(self) -> None:
        self._stopping = True

    def endpoints(self) -> Sequence[Endpoint]:
        one = "/orchestrations/{instance_id}"
        return [
            Endpoint("POST", "/orchestrations/{name}/start", self.start, documents.start(StartBody), Role.USER),
            Endpoint("GET", "/orchestrations", self.list, documents.listed(ListQuery), Role.READER),
            Endpoint("GET", one, self._asking("Status"), documents.STATUS, Role.READER),
            Endpoint("GET", f"{one}/history", self.history, documents.history(HistoryQuery), Role.READER),
            Endpoint("GET", f"{one}/wait", self.wait, documents.wait(WaitQuery), Role.READER),
            Endpoint("POST", f"{one}/events/{{event}}", self.raise_event, documents.raise_event(EventQuery), Role.USER),
            Endpoint("POST", f"{one}/cancel", self._telling("Cancel"), documents.CANCEL, Role.USER),
            Endpoint("POST", f"{one}/suspend", self._telling("Suspend"), documents.SUSPEND, Role.OPERATOR),
            Endpoint("POST", f"{one}/resume", self._telling("Resume"), documents.RESUME, Role.OPERATOR),
            Endpoint("DELETE", one, self.delete, documents.delete(DeleteQuery), Role.OPERATOR),
            Endpoint("POST", f"{one}/outcome", self._telling("Outcome"), documents.OUTCOME, Role.USER),
            Endpoint("POST", f"{one}/awaited", self._sending("Awaited"), documents.AWAITED, Role.USER),
        ]

    async def start(self, call: Call) -> Answer:
        name = check_id(call.parameters[0], "name")
        _, data = await call.json_object(optional=True)
        body = StartBody.parse(data)
        request = {"name": name, "input": body.input, "version": body.version, "seed": secrets.token_hex(8)}
        tenant = call.caller.tenant
        given = body.instance_id
        with (
            self._newborn.name(tenant) if given is None else nullcontext(check_id(given, "instance id")) as instance_id
        ):
            answer = await self._ask(qualify(tenant, instance_id), "Start", request)
        told = {"instance_id": instance_id, "created": answer["created"]}
        return Accepted(told) if answer["created"] else told

    async def history(self, call: Call) -> Answer:
        return await self._ask(_address(call), "History", call.query(HistoryQuery).model_dump())

    async def raise_event(self, call: Call) -> Answer:
        event_id = call.query(EventQuery).event_id
        name = check_id(call.parameters[1], "event name")
        body = {"name": name, "data": await call.json_value(), "event_id": event_id}
        await self._ask(_address(call), "RaiseEvent", body)
        return Accepted({"success": True})

    async def delete(self, call: Call) -> Answer:
        return await self._ask(_address(call), "Delete", call.query(DeleteQuery).model_dump())

    async def wait(self, call: Call) -> Answer:
        """The status when it has ended, or when time is up."""
        address = _address(call)
        loop = asyncio.get_running_loop()
        until = loop.time() + call.query(WaitQuery).timeout_seconds
        gone = asyncio.ensure_future(call.gone())
        try:
            with Listening(waiting_for(address)) as rung:
                while True:
                    rung.clear()
                    left = until - loop.time()
                    if left <= 0 or gone.done() or self._stopping:
                        return await self._ask(address, "Status", None)
                    answer = await self._ask(address, "Wait", {"doorbell": await self._doorbell.hang()})
                    if answer["ended_at"] is not None:
                        return answer
                    waiting = asyncio.ensure_future(rung.wait())
                    try:
                        pause = min(left, ASK_AGAIN_SECONDS)
                        await asyncio.wait({waiting, gone}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        waiting.cancel()
                    if rung.news is not None:
                        ended: Answer = load(rung.news)
                        return ended
        finally:
            gone.cancel()

    async def list(self, call: Call) -> Answer:
        query = call.query(ListQuery)
        asked = {"after": query.cursor, "limit": query.limit + 1, "status": query.status, "name": query.name}
        body = dump({key: value for key, value in asked.items() if value is not None})
        found: dict[str, Answer] = {}
        upto: str | None = None
        for page in await asyncio.gather(
            *(
                self._client.invoke_method(INSTANCE_INDEX_TYPE, shard, "List", body)
                for shard in shards_of(call.caller.tenant)
            )
        ):
            answer = load(page)
            for instance_id, name, status, at, _ in answer["instances"]:
                entry = {"instance_id": instance_id, "name": name, "status": status, "created_at": iso(at)}
                found[instance_id] = entry
            if answer["upto"] is not None:
                # Beyond this the shard has not looked.
                upto = answer["upto"] if upto is None else min(upto, answer["upto"])
        names = sorted(name for name in found if upto is None or name <= upto)
        shown = names[: query.limit]
        result: Answer = {"orchestrations": [found[name] for name in shown]}
        if len(names) > query.limit:
            result["next_cursor"] = shown[-1]
        elif upto is not None:
            result["next_cursor"] = upto
        return result

    def _asking(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        async def ask(call: Call) -> Answer:
            return await self._ask(_address(call), method, None)

        return ask

    def _sending(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        """Hands the request's body on to the actor, which is the one to check it."""

        async def send(call: Call) -> Answer:
            _, data = await call.json_object(optional=True)
            return await self._ask(_address(call), method, data)

        return send

    def _telling(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        send = self._sending(method)

        async def tell(call: Call) -> Answer:
            await send(call)
            return Accepted({"success": True})

        return tell

    async def _ask(self, address: str, method: str, data: Any) -> Answer:
        return accepted(await self._gatherer.call(address, method, dump(data)))


def _address(call: Call) -> str:
    """The instance's actor: only answers have the name that callers know."""
    return qualify(call.caller.tenant, check_id(call.parameters[0], "instance id"))
