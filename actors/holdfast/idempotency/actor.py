"""The idempotency record as an actor: loads the record, applies the state machine, saves, then replies."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from dapr.actor import Remindable

from holdfast.errors import HoldfastError, NotFound
from holdfast.idempotency import requests
from holdfast.idempotency.interface import IdempotencyActorInterface, tenant_of
from holdfast.idempotency.record import Record, Status, begin, commit, current, fail, is_deletable, renew
from holdfast.idempotency.usage_reports import UsageReports
from holdfast.kinds import KEY, RECORD
from holdfast.pushpop.api.replies import iso, refused
from holdfast.runtime.late_reminders import WAKE
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = dict[str, Any]


class IdempotencyActor(InternalActor, IdempotencyActorInterface, Remindable):
    """The record of one tenant and key."""

    exact_numbers = False
    kept_bytes = 32 * 1024

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._tenant = tenant_of(self.id.id)
        self._usage = UsageReports.of(self.host)

    async def Begin(self, data: Answer) -> Answer:
        async def work(now: float) -> Answer:
            request = requests.Begin.parse(data)
            owner = request.owner or secrets.token_urlsafe(12)
            record = await self._change(
                lambda old: begin(
                    *(old, now, owner, request.lease_seconds, request.incarnation, request.fence),
                    key_bytes=len(request.key.encode()),
                ),
                request,
            )
            if record.status is Status.SUCCESS:
                return {"outcome": "done", "result": _value(record.result)}
            assert record.lease_expires_at is not None
            return {
                "outcome": "run",
                "owner": owner,
                "lease_expires_at": iso(record.lease_expires_at),
                "attempt": record.attempts,
            }

        return await self._answer(work)

    async def Commit(self, data: Answer) -> Answer:
        async def work(now: float) -> Answer:
            request = requests.Commit.parse(data)
            text = request.text()
            kept = request.retention_seconds
            await self._change(lambda old: commit(old, now, request.owner, text, kept, request.fence))
            return {"success": True}

        return await self._answer(work)

    async def Fail(self, data: Answer) -> Answer:
        async def work(now: float) -> Answer:
            request = requests.Fail.parse(data)
            await self._change(lambda old: fail(old, now, request.owner, request.shown(), request.fence))
            return {"success": True}

        return await self._answer(work)

    async def Renew(self, data: Answer) -> Answer:
        async def work(now: float) -> Answer:
            request = requests.Renew.parse(data)
            lease = request.lease_seconds
            record = await self._change(lambda old: renew(old, now, request.owner, lease, request.fence))
            assert record.lease_expires_at is not None
            return {"success": True, "lease_expires_at": iso(record.lease_expires_at)}

        return await self._answer(work)

    async def Delete(self, data: Answer) -> Answer:
        async def work(now: float) -> Answer:
            incarnation = requests.Delete.parse(data).incarnation
            async with self.work.turn() as turn:
                record = _loaded(await turn.load(RECORD))
                if record is None or not is_deletable(record, now, incarnation):
                    turn.owes(None if record is None else record.swept_at)
                    return {"success": True, "deleted": False}
                turn.delete(RECORD)
                turn.delete(KEY)
            self._usage.changed(self._tenant, record, None)
            with suppress(Exception):
                # It would only find that there is no record.
                await self.unregister_reminder(WAKE)
                self.work.woken()
            return {"success": True, "deleted": True}

        return await self._answer(work)

    async def Get(self) -> Answer:
        async def work(now: float) -> Answer:
            async with self.work.turn() as turn:
                record = current(_loaded(await turn.load(RECORD)), now)
            if record is None:
                raise NotFound("There is no record of this key.")
            return _shown(record)

        return await self._answer(work)

    async def on_wake(self) -> None:
        async with self.work.turn() as turn:
            record = _loaded(await turn.load(RECORD))
            if record is None:
                return
            if current(record, self.now()) is None:
                turn.delete(RECORD)
                turn.delete(KEY)
            else:
                turn.wake_at(record.swept_at, needed=False)

    async def _answer(self, work: Callable[[float], Any]) -> Answer:
        try:
            answer: Answer = await work(self.now())
        except HoldfastError as error:
            if error.status >= 500:
                raise
            details = error.details
            if "lease_expires_at" in details:
                error.details = details | {"lease_expires_at": iso(details["lease_expires_at"])}
            return refused(error)
        return answer

    async def _change(self, change: Callable[[Record | None], Record], named: requests.Begin | None = None) -> Record:
        async with self.work.turn() as turn:
            old = _loaded(await turn.load(RECORD))
            turn.owes(None if old is None else old.swept_at)
            record = change(old)
            if record != old:
                turn.put(RECORD, record.to_json())
                if named is not None and old is None:
                    # The actor's id has only a hash of the key; the Spark tables show the key itself.
                    turn.put(KEY, {"tenant": named.tenant, "key": named.key})
                # Not needed for the save: every operation checks whether the record has expired. The reminder only
                # deletes the record of a key that is not used any more.
                turn.wake_at(record.swept_at, needed=False)
        if record != old:
            self._usage.changed(self._tenant, old, record)
        return record


def _loaded(value: dict[str, Any] | None) -> Record | None:
    return None if value is None else Record.from_json(value)


def _shown(record: Record) -> Answer:
    answer: Answer = {
        "status": record.status.value,
        "owner": record.owner,
        "attempts": record.attempts,
        "updated_at": iso(record.updated_at),
    }
    if record.status is Status.SUCCESS:
        answer["result"] = _value(record.result)
    if record.last_error is not None:
        answer["last_error"] = record.last_error
    if record.lease_expires_at is not None:
        answer["lease_expires_at"] = iso(record.lease_expires_at)
    return answer


def _value(text: str | None) -> Any:
    return None if text is None else orjson.Fragment(text.encode())
