"""Dispatches the effects of an instance to activity queues, to its children and to its parent."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import Capacity, Conflict, HoldfastError, InvalidRequest, NotFound, TooLarge, Unavailable
from holdfast.idempotency.interface import record_id
from holdfast.idempotency.keys import activity_key
from holdfast.kinds import IDEMPOTENCY_TYPE, ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.names import qualify
from holdfast.orchestration.core.effects import (
    CancelSubOrchestration,
    DeleteRecords,
    NoteRerun,
    NotifyParent,
    RunActivity,
    StartSubOrchestration,
)
from holdfast.orchestration.core.failures import Failure
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.tracing import spans
from holdfast.tracing.traceparent import within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.orchestration.core.effects import Effect
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]

# Error codes that a retry cannot fix.
_NEVER = (InvalidRequest.code, TooLarge.code)
# Error codes of a parent that does not wait any more, because it has ended or was deleted.
_GONE = (NotFound.code, Conflict.code)
# Idempotency records that are deleted at the same time.
_RECORDS_AT_ONCE = 8
# The largest number of items in one push.
_ACTIVITIES_AT_ONCE = 1000
# The total size of the inputs in one push; each input also has its own limit.
_BYTES_AT_ONCE = 2 * 1024 * 1024


class EffectDispatcher:
    """Dispatches the effects of one instance."""

    def __init__(
        self,
        host: HostClient,
        tenant: str,
        instance_id: str,
        incarnation: str | None,
        traceparent: str | None = None,
    ) -> None:
        self._host = host
        #: An instance names queues and instances of its own tenant only.
        self._tenant = tenant
        self._instance_id = instance_id
        #: Distinguishes the instance from a later one that has the same id.
        self._incarnation = incarnation
        #: The trace context of what the instance causes.
        self._traceparent = spans.context_of_instance(traceparent, instance_id, incarnation)

    async def send(
        self, effects: Sequence[Effect], arrived: Callable[[Sequence[Effect]], None], *, again: bool
    ) -> None:
        """Sends effects of one target, in their order, and reports them to ``arrived`` as soon as they have arrived.

        Raises a HoldfastError when the target cannot be reached or refuses one of them for now; the effects that were
        not reported are to be sent later, with ``again``, because they may have arrived nevertheless.
        """
        activities = [effect for effect in effects if isinstance(effect, RunActivity)]
        if activities:
            await self._push(activities, arrived, again)
        for effect in effects:
            if isinstance(effect, StartSubOrchestration):
                await self._start(effect)
            elif isinstance(effect, CancelSubOrchestration):
                await self._cancel(effect)
            elif isinstance(effect, NotifyParent):
                await self._tell(effect)
            elif isinstance(effect, NoteRerun):
                # Any reply is fine: a source that was deleted needs no note.
                note = {"incarnation": effect.incarnation, "rerun_id": effect.rerun_id}
                await self._call(ORCHESTRATION_TYPE, effect.instance_id, "NoteRerun", note)
            elif isinstance(effect, DeleteRecords):
                await self._delete_records(effect)
            else:
                continue
            arrived([effect])

    async def _push(
        self, scheduled: Sequence[RunActivity], arrived: Callable[[Sequence[Effect]], None], again: bool
    ) -> None:
        chunk: list[RunActivity] = []
        size = 0
        for effect in scheduled:
            if chunk and (len(chunk) >= _ACTIVITIES_AT_ONCE or size + len(effect.input) > _BYTES_AT_ONCE):
                await self._push_chunk(chunk, arrived, again)
                chunk, size = [], 0
            chunk.append(effect)
            size += len(effect.input)
        await self._push_chunk(chunk, arrived, again)

    async def _push_chunk(
        self, chunk: Sequence[RunActivity], arrived: Callable[[Sequence[Effect]], None], again: bool
    ) -> None:
        queue = chunk[0].queue
        items = [self._item(effect, again) for effect in chunk]
        began = spans.now()
        answer = await self._call(QUEUE_TYPE, queue, "Push", {"items": items})
        refusal = answer.get("error_code") if answer.get("success") is False else None
        if refusal is None:
            self._record_sent(chunk, began)
            arrived(chunk)
        elif len(chunk) > 1 and (refusal in _NEVER or refusal == Capacity.code):
            # One item is invalid, or the queue has no room for all of them: halve the chunk and push what is accepted.
            for part in (chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]):
                await self._push_chunk(part, arrived, again)
        elif refusal in _NEVER:
            await self._report_refused(chunk[0], "activity", "ActivityRefused", str(answer.get("message")))
            arrived(chunk)
        else:
            raise Unavailable(f"The queue {queue} refuses activities: {answer.get('message')}")

    def _item(self, effect: RunActivity, again: bool) -> Answer:
        key = f"{self._instance_id}:{effect.execution_id}:{effect.scheduled_seq}"
        call: Answer = {
            "instance_id": self._instance_id,
            "incarnation": self._incarnation,
            "execution_id": effect.execution_id,
            "scheduled_seq": effect.scheduled_seq,
            "name": effect.name,
            "attempt": effect.attempt,
            # Embed the JSON text without parsing it.
            "input": orjson.Fragment(effect.input.encode()),
        }
        if effect.heartbeat_details is not None:
            call["heartbeat_details"] = orjson.Fragment(effect.heartbeat_details.encode())
        item: Answer = {"item": call, "idempotency_key": key}
        if effect.priority:
            item["priority"] = effect.priority
        if self._traceparent is not None:
            item["traceparent"] = self._traceparent
            if spans.tracer() is not None:
                item["traceparent"] = within(self._traceparent, self._span_of(effect))
        if again:
            call["again"] = True
            # Only for repeats: deduplicating every push would cost the queue as much as the push itself. An activity
            # that is pushed repeatedly, because it crashes its process each time, is then in the queue at most twice.
            item["dedup_id"] = hashlib.sha256(f"{self._incarnation}:{key}".encode()).hexdigest()
        return item

    def _span_of(self, effect: RunActivity) -> str:
        return spans.call_span(self._instance_id, self._incarnation, effect.execution_id, effect.scheduled_seq)

    def _record_sent(self, chunk: Sequence[RunActivity], began: float) -> None:
        """Makes the spans of activities that their queue has: the runs of an activity are below its span."""
        tracer = spans.tracer()
        if tracer is None or self._traceparent is None:
            return
        ended = spans.now()
        for effect in chunk:
            attributes = {
                "messaging.destination.name": effect.queue,
                "holdfast.instance_id": self._instance_id,
                "holdfast.tenant": self._tenant,
                "holdfast.activity": effect.name,
                "holdfast.attempt": effect.attempt,
            }
            tracer.record(
                *(f"send {effect.name}", self._traceparent, began, ended),
                kind="PRODUCER",
                own_id=self._span_of(effect),
                attributes=attributes,
            )

    async def _start(self, effect: StartSubOrchestration) -> None:
        parent = None if effect.parent is None else effect.parent.dump()
        body = {
            "name": effect.name,
            "input": orjson.Fragment(effect.input.encode()),
            "version": effect.version,
            "parent": parent,
            "seed": secrets.token_hex(8),
        }
        if self._traceparent is not None:
            body["traceparent"] = self._traceparent
        answer = await self._call(ORCHESTRATION_TYPE, effect.instance_id, "Start", body)
        reason = None
        if answer.get("error_code") == NotFound.code:
            # The definition existed when the child was scheduled, but the process that hosts the child lacks it: the
            # wrong code was deployed, or a deploy is in progress.
            raise Unavailable(f"{effect.instance_id} cannot be started: {answer['message']}")
        if answer.get("success") is False:
            reason = answer["message"]
        elif not answer["created"] and parent is not None and answer["parent"] != parent:
            reason = f"There is an orchestration {effect.instance_id} already."
        if reason is not None and parent is not None:
            await self._report_refused(effect, "sub", "SubOrchestrationRefused", reason)

    async def _report_refused(
        self, effect: RunActivity | StartSubOrchestration, of: str, failure_type: str, reason: str
    ) -> None:
        # A start may be sent after its instance was deleted, and another one was started under its id.
        parent = effect.parent if isinstance(effect, StartSubOrchestration) else None
        outcome = {
            "of": of,
            "execution_id": effect.execution_id,
            "scheduled_seq": effect.scheduled_seq,
            "incarnation": self._incarnation if parent is None else parent.incarnation,
            "error": Failure(type=failure_type, message=reason, kind="refused").dump(),
        }
        await self._call(ORCHESTRATION_TYPE, self._instance_id, "Complete", outcome)

    async def _cancel(self, effect: CancelSubOrchestration) -> None:
        # Any reply is fine: a child that has ended or was never started need not be cancelled.
        body = {"reason": effect.reason, "parent": effect.parent.dump()}
        await self._call(ORCHESTRATION_TYPE, effect.instance_id, "CancelChild", body)

    async def _tell(self, effect: NotifyParent) -> None:
        outcome = {
            "of": "sub",
            "execution_id": effect.parent.execution_id,
            "scheduled_seq": effect.parent.scheduled_seq,
            "incarnation": effect.parent.incarnation,
            "result": effect.result,
            "error": None if effect.error is None else effect.error.dump(),
        }
        if self._traceparent is not None and spans.tracer() is not None:
            outcome["traceparent"] = self._traceparent
        answer = await self._call(ORCHESTRATION_TYPE, effect.parent.instance_id, "Complete", outcome)
        if answer.get("error_code") in _NEVER and effect.error is None:
            # The parent would refuse this result each time, and wait for it for good.
            failure = Failure(type="TooLarge", message=str(answer.get("message")), kind="refused")
            outcome |= {"result": None, "error": failure.dump()}
            answer = await self._call(ORCHESTRATION_TYPE, effect.parent.instance_id, "Complete", outcome)
        if answer.get("success") is False and answer.get("error_code") not in _GONE:
            raise Unavailable(
                f"The parent {effect.parent.instance_id} refuses the outcome of its child: {answer.get('message')}"
            )

    async def _delete_records(self, effect: DeleteRecords) -> None:
        body = dump({"incarnation": effect.incarnation})
        room = asyncio.Semaphore(_RECORDS_AT_ONCE)

        async def delete(execution_id: int, seq: int) -> None:
            record = record_id(self._tenant, activity_key(effect.instance_id, execution_id, seq))
            async with room:
                # Deleted, or kept because it belongs to a later instance or is in use: any reply is fine.
                await self._host.invoke_method(IDEMPOTENCY_TYPE, record, "Delete", body)

        try:
            async with asyncio.TaskGroup() as calls:
                for execution_id, seq in effect.calls:
                    calls.create_task(delete(execution_id, seq))
        except* HoldfastError as errors:
            raise Unavailable(f"Idempotency records cannot be deleted: {errors.exceptions[0]}") from errors

    async def _call(self, actor_type: str, name: str, method: str, data: Any) -> Answer:
        return await CallBatcher.of(self._host, actor_type).call(qualify(self._tenant, name), method, dump(data))
