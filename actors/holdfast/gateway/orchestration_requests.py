"""The REST endpoints of requests to orchestrations, whose code replies."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.gateway.auth.principal import Role
from holdfast.gateway.notified_wait import MAX_WAIT_SECONDS
from holdfast.gateway.openapi import orchestrations as documents
from holdfast.gateway.query_params import NUMBER
from holdfast.gateway.routing import Accepted, Endpoint
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import check_id, qualify
from holdfast.orchestration.actor.actor import reply_to
from holdfast.orchestration.api.requests import RequestId  # noqa: TC001 (pydantic looks it up)
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.notified_wait import NotifiedWaits
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]


class RequestQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timeout_seconds: Annotated[
        float, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for the reply."), NUMBER
    ] = 30.0
    request_id: RequestId | None = None


class ReplyQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timeout_seconds: Annotated[
        float, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for the reply."), NUMBER
    ] = 0.0


class OrchestrationRequests:
    """The handlers of the endpoints."""

    def __init__(self, client: HostClient, waits: NotifiedWaits) -> None:
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)
        self._waits = waits

    def endpoints(self) -> Sequence[Endpoint]:
        # The name of a request in one call and its id in the other: an OpenAPI document has one name for both.
        one = "/orchestrations/{instance_id}/requests/{request}"
        return [
            Endpoint("POST", one, self.request, documents.request(RequestQuery), Role.USER, begins_trace=True),
            Endpoint("GET", one, self.reply, documents.reply(ReplyQuery), Role.READER),
        ]

    async def request(self, call: HttpRequest) -> Answer:
        """Makes a request and returns its reply, or its id when the time is up."""
        self._waits.check_running()
        query = call.query(RequestQuery)
        address, name = _address(call), check_id(call.parameters[1], "request name")
        request_id = query.request_id or secrets.token_hex(16)
        body = call.traced({"name": name, "data": await call.json_value(), "request_id": request_id})
        answer = await self._ask(address, "Request", body)
        # The body was passed on: while this call waits, others may use its share of the memory.
        await call.release()
        return await self._replied(call, address, answer, query.timeout_seconds)

    async def reply(self, call: HttpRequest) -> Answer:
        """Returns the reply to an earlier request, or its id when there is none yet."""
        self._waits.check_running()
        query = call.query(ReplyQuery)
        address = _address(call)
        answer = await self._ask(address, "Reply", {"request_id": call.parameters[1]})
        return await self._replied(call, address, answer, query.timeout_seconds)

    async def _replied(self, call: HttpRequest, address: str, answer: Answer, seconds: float) -> Answer:
        request_id = answer["request_id"]
        if not answer["answered"] and seconds > 0:

            async def ask(notifier: str | None) -> Answer | None:
                found = await self._ask(address, "Reply", {"request_id": request_id, "notify": notifier})
                return found if found["answered"] else None

            notified = await self._waits.until_answered(call, reply_to(address, request_id), seconds, ask)
            answer = answer if notified is None else raise_for_refusal(notified)
        if not answer["answered"]:
            return Accepted({"request_id": request_id})
        return {"request_id": request_id, "reply": answer["reply"]}

    async def _ask(self, address: str, method: str, data: Any) -> Answer:
        return raise_for_refusal(await self._batcher.call(address, method, dump(data)))


def _address(call: HttpRequest) -> str:
    """Returns the actor id of the instance in the path."""
    return qualify(call.caller.tenant, check_id(call.parameters[0], "instance id"))
