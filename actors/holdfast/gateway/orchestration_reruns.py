"""The REST endpoint that reruns an instance: a new one goes on from a part of its history."""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holdfast.errors import Conflict, HoldfastError, TooLarge
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.middleware.body_limits import MAX_ANSWER, MAX_BODY
from holdfast.gateway.openapi import orchestrations as documents
from holdfast.gateway.orchestrations import new_id
from holdfast.gateway.routing import Accepted, Endpoint
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import MAX_ID_LENGTH, check_id, qualify
from holdfast.orchestration.core.copies import cut, is_enough
from holdfast.orchestration.core.history import load_event
from holdfast.pushpop.api.requests import Request
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.quotas.creations import InstanceCreations
    from holdfast.orchestration.core.copies import Copy
    from holdfast.orchestration.core.history import Event
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]

# The rest of a request between processes is far smaller than this.
_MOST_COPIED = MAX_BODY - 64 * 1024


class RerunBody(Request):
    from_seq: Annotated[
        int | None,
        Field(ge=1, le=2**53, description="The first event that is not copied. From the start if omitted."),
    ] = None
    from_: Annotated[
        Literal["failure"] | None,
        Field(alias="from", description="Cut before the last failure of an activity or sub-orchestration."),
    ] = None
    instance_id: Annotated[str | None, Field(description="Generated if omitted.")] = None
    version: Annotated[str | None, Field(max_length=255, description="The version of the source if omitted.")] = None
    execution_id: Annotated[
        int | None, Field(ge=1, le=2**53, description="An earlier execution; the last 10 are kept.")
    ] = None

    @model_validator(mode="after")
    def one_cut(self) -> RerunBody:
        if self.from_seq is not None and self.from_ is not None:
            raise PydanticCustomError("rerun", "from_seq: name an event or the failure, not both")
        return self


@dataclass(frozen=True)
class Wanted:
    """The cut of a rerun: an event, or with None the last failure."""

    from_seq: int | None
    instance_id: str | None = None
    version: str | None = None
    execution_id: int | None = None


FROM_FAILURE = Wanted(None)


class Reruns:
    """The handler."""

    def __init__(self, client: HostClient, creations: InstanceCreations) -> None:
        self._creations = creations
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)

    def endpoints(self) -> Sequence[Endpoint]:
        path, document = "/orchestrations/{instance_id}/rerun", documents.rerun(RerunBody)
        return [Endpoint("POST", path, self.handle, document, Role.OPERATOR, bulky=True, begins_trace=True)]

    async def handle(self, call: HttpRequest) -> Answer:
        source = check_id(call.parameters[0], "instance id")
        _, data = await call.json_object(optional=True)
        body = RerunBody.parse(data)
        given = str(uuid.uuid4()) if body.instance_id is None else new_id(body.instance_id)
        from_seq = None if body.from_ is not None else body.from_seq or 1
        wanted = Wanted(from_seq, given, body.version, body.execution_id)
        answer = await self.rerun(call.caller.tenant, source, wanted, call.traceparent)
        call.note(instance=answer["instance_id"])
        return Accepted(answer) if answer["created"] else answer

    async def rerun(self, tenant: str, source: str, wanted: Wanted, traceparent: str | None = None) -> Answer:
        """Starts a new instance from the history of ``source``."""
        copy = cut(source, await self._history(tenant, source, wanted), wanted.from_seq)
        instance_id = _id_of(copy) if wanted.instance_id is None else wanted.instance_id
        sent = dump({"copied": copy.dump(), "version": wanted.version, "traceparent": traceparent})
        if len(sent) > _MOST_COPIED:
            raise _too_large()
        async with self._creations.creating(tenant, instance_id) as creation:
            answer = await self._ask(tenant, instance_id, "Rerun", sent)
            creation.is_new = answer["created"]
        note = dump({"incarnation": copy.started.seed, "rerun_id": instance_id})
        with suppress(HoldfastError):  # the new instance sends it as well, until it arrives
            await self._ask(tenant, source, "NoteRerun", note)
        return {"instance_id": instance_id, "created": answer["created"]}

    async def _history(self, tenant: str, source: str, wanted: Wanted) -> list[Event]:
        """Returns the events of the execution, as far as they are needed for the cut."""
        events: list[Event] = []
        execution_id, seed = wanted.execution_id, None
        size = 0
        while True:
            asked = dump({"execution_id": execution_id, "after": len(events)})
            page = await self._ask(tenant, source, "CopyHistory", asked)
            if seed not in (None, page["seed"]):
                raise Conflict(f"{source} was deleted, and another instance was started under its id.")
            execution_id, seed = page["execution_id"], page["seed"]
            # Not only in the end: a history may be larger than the memory. The last page is not copied as a whole.
            size += len(dump(page["events"]))
            if size > _MOST_COPIED + MAX_ANSWER:
                raise _too_large()
            events += map(load_event, page["events"])
            if len(events) >= page["last"] or not page["events"]:
                return events
            if wanted.from_seq is not None and is_enough(events[-1], wanted.from_seq):
                return events

    async def _ask(self, tenant: str, instance_id: str, method: str, sent: bytes) -> Answer:
        return raise_for_refusal(await self._batcher.call(qualify(tenant, instance_id), method, sent))


def _too_large() -> TooLarge:
    return TooLarge(
        f"The events before the cut have more than {_MOST_COPIED} bytes, which cannot be copied: "
        "name an earlier event with from_seq."
    )


def _id_of(copy: Copy) -> str:
    """Returns an id for the rerun of a failure, the same each time, so that no failure is rerun twice."""
    cut_at = f"{copy.started.seed} {copy.started.execution_id} {copy.from_seq}"
    instance_id = f"{copy.source_id}:rerun-{hashlib.sha256(cut_at.encode()).hexdigest()[:12]}"
    if len(instance_id) <= MAX_ID_LENGTH:
        return instance_id
    return str(uuid.uuid5(uuid.NAMESPACE_OID, instance_id))
