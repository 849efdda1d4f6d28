"""What an instance decided, told to those it is for: queues of activities, children, its parent."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import Conflict, InvalidRequest, NotFound, TooLarge, Unavailable
from holdfast.identity import qualify
from holdfast.orchestration.effects import CancelSubOrchestration, RunActivity, StartSubOrchestration, TellParent
from holdfast.orchestration.failures import Failure
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.pushpop.interface import ACTOR_TYPE as QUEUE_TYPE
from holdfast.runtime.gather import Gatherer
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from holdfast.orchestration.effects import Effect
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]

# Refusals that trying again does not help against.
_NEVER = (InvalidRequest.code, TooLarge.code)
# There is nobody who waits.
_GONE = (NotFound.code, Conflict.code)
# As many as one push takes.
_ACTIVITIES_AT_ONCE = 1000
# What a push may have in all; each input has its own limit.
_BYTES_AT_ONCE = 2 * 1024 * 1024


class Outbox:
    """Sends for one instance."""

    def __init__(self, host: HostClient, tenant: str, instance_id: str, life: str | None) -> None:
        self._host = host
        #: Whatever an instance names is of its own tenant.
        self._tenant = tenant
        self._instance_id = instance_id
        #: What tells the instance from another that has this id later.
        self._life = life

    async def send(self, effects: Iterable[Effect], *, again: bool = False) -> None:
        """All of them. Raises when one could not be sent, and then all are to be sent again.

        ``again`` when they may have been sent before this process began.
        """
        activities: dict[str, list[RunActivity]] = defaultdict(list)
        calls: list[Coroutine[Any, Any, None]] = []
        for effect in effects:
            if isinstance(effect, RunActivity):
                activities[effect.queue].append(effect)
            elif isinstance(effect, StartSubOrchestration):
                calls.append(self._start(effect))
            elif isinstance(effect, CancelSubOrchestration):
                calls.append(self._cancel(effect))
            elif isinstance(effect, TellParent):
                calls.append(self._tell(effect))
        calls += [self._push(queue, scheduled, again) for queue, scheduled in activities.items()]
        if len(calls) == 1:
            # As most are: a task of its own would cost more than to send it.
            await calls[0]
            return
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _push(self, queue: str, scheduled: Sequence[RunActivity], again: bool) -> None:
        items: list[Any] = []
        size = 0
        for effect in scheduled:
            item = self._item(effect, again)
            if items and (len(items) >= _ACTIVITIES_AT_ONCE or size + len(effect.input) > _BYTES_AT_ONCE):
                await self._pushed(queue, items)
                items, size = [], 0
            items.append(item)
            size += len(effect.input)
        await self._pushed(queue, items)

    async def _pushed(self, queue: str, items: Sequence[Any]) -> None:
        answer = await self._call(QUEUE_TYPE, queue, "Push", {"items": items})
        if answer.get("success") is not False:
            return
        if answer.get("error_code") not in _NEVER:
            raise Unavailable(f"The queue {queue} refuses activities: {answer.get('message')}")
        if len(items) > 1:
            for item in items:  # one of them is at fault, and the others are not to wait for it
                await self._pushed(queue, [item])
            return
        failure = Failure(type="ActivityRefused", message=str(answer.get("message")), kind="refused")
        call = items[0]["item"]
        outcome = {key: call[key] for key in ("execution_id", "scheduled_seq", "life")}
        outcome |= {"of": "activity", "error": failure.dump()}
        await self._call(ORCHESTRATION_TYPE, self._instance_id, "Outcome", outcome)

    def _item(self, effect: RunActivity, again: bool) -> Answer:
        key = f"{self._instance_id}:{effect.execution_id}:{effect.scheduled_seq}"
        call: Answer = {
            "instance_id": self._instance_id,
            "life": self._life,
            "execution_id": effect.execution_id,
            "scheduled_seq": effect.scheduled_seq,
            "name": effect.name,
            "attempt": effect.attempt,
            # As it was written, without reading it again.
            "input": orjson.Fragment(effect.input.encode()),
        }
        if again:
            call["again"] = True
        if len(key) > 255:
            return {"item": call}
        # Remembering every one would cost the queue as much as the push itself. One that is sent again and again, for
        # an activity that takes its process with it, is in the queue twice, not once more for each process.
        return {"item": call, "idempotency_key": key} | ({"dedup_id": f"{self._life}:{key}"[:255]} if again else {})

    async def _start(self, effect: StartSubOrchestration) -> None:
        parent = None if effect.parent is None else replace(effect.parent, life=self._life).dump()
        body = {
            "name": effect.name,
            "input": orjson.Fragment(effect.input.encode()),
            "version": effect.version,
            "parent": parent,
            "seed": secrets.token_hex(8),
        }
        answer = await self._call(ORCHESTRATION_TYPE, effect.instance_id, "Start", body)
        if answer.get("success") is False:
            await self._refused(effect, answer["message"])
        elif not answer["created"] and parent is not None and answer["parent"] != parent:
            await self._refused(effect, f"There is an orchestration {effect.instance_id} already.")

    async def _refused(self, effect: StartSubOrchestration, reason: str) -> None:
        if effect.parent is None:
            return  # nobody waits for it
        failure = Failure(type="SubOrchestrationRefused", message=reason, kind="refused")
        outcome = {
            "of": "sub",
            "execution_id": effect.execution_id,
            "scheduled_seq": effect.scheduled_seq,
            "life": self._life,
            "error": failure.dump(),
        }
        await self._call(ORCHESTRATION_TYPE, self._instance_id, "Outcome", outcome)

    async def _cancel(self, effect: CancelSubOrchestration) -> None:
        # One that has ended, or never began, need not be cancelled: whatever is answered is right.
        await self._call(ORCHESTRATION_TYPE, effect.instance_id, "Cancel", {"reason": effect.reason})

    async def _tell(self, effect: TellParent) -> None:
        outcome = {
            "of": "sub",
            "execution_id": effect.parent.execution_id,
            "scheduled_seq": effect.parent.scheduled_seq,
            "life": effect.parent.life,
            "result": effect.result,
            "error": None if effect.error is None else effect.error.dump(),
        }
        answer = await self._call(ORCHESTRATION_TYPE, effect.parent.instance_id, "Outcome", outcome)
        if answer.get("success") is False and answer.get("error_code") not in _GONE:
            raise Unavailable(f"{effect.parent.instance_id} refuses what it waits for: {answer.get('message')}")

    async def _call(self, actor_type: str, name: str, method: str, data: Any) -> Answer:
        return await Gatherer.of(self._host, actor_type).call(qualify(self._tenant, name), method, dump(data))
