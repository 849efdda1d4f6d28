"""Effects that happen once: a record at the server, held by a lease while the effect runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import quote

import orjson

from holdfast.client.connection import PASSING, Repeat, pauses_between_attempts
from holdfast.client.endings import SECONDS_LEFT, surely
from holdfast.client.payloads import encode
from holdfast.errors import AlreadyInProgress, HoldfastError, InvalidRequest, LeaseLost, NotRecorded, TooLarge
from holdfast.idempotency.record import MAX_RETENTION
from holdfast.identity import OWN_TENANT
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from holdfast.client.connection import Connection

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Answer = dict[str, Any]

# Somebody who died does not finish sooner for being asked more often.
_LONGEST_PAUSE = 2.0
_MARGIN_SECONDS = 1.0
_LONGEST_ERROR = 4000


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What came of it, now or earlier."""

    result: Result
    #: Whether it ran just now, and not before.
    ran: bool


class IdempotencyCalls:
    """Of one (tenant, key). Each may be repeated: an owner that says the same twice is heard once."""

    def __init__(self, connection: Connection, tenant_id: str | None, key: str) -> None:
        self._connection = connection
        # The server knows whose the connection is.
        self._path = f"idempotency/{_segment(tenant_id or OWN_TENANT)}/{_segment(key)}"

    async def get(self) -> Answer:
        return await self._connection.call("GET", self._path, repeat=Repeat.ALWAYS)

    async def begin(self, owner: str, lease_seconds: int) -> Answer:
        return await self.call("begin", {"owner": owner, "lease_seconds": lease_seconds})

    async def renew(self, owner: str, lease_seconds: int) -> Answer:
        return await self.call("renew", {"owner": owner, "lease_seconds": lease_seconds})

    async def commit(self, owner: str, result: bytes, retention_seconds: int | None) -> Answer:
        """The result is JSON."""
        kept = {} if retention_seconds is None else {"retention_seconds": retention_seconds}
        return await self.call("commit", {"owner": owner, "result": orjson.Fragment(result)} | kept)

    async def fail(self, owner: str, error: str) -> Answer:
        return await self.call("fail", {"owner": owner, "error": error[:_LONGEST_ERROR]})

    async def call(self, what: str, body: Answer) -> Answer:
        return await self._connection.call("POST", f"{self._path}/{what}", body=dump(body), repeat=Repeat.ALWAYS)


async def run_once(
    calls: IdempotencyCalls,
    run: Callable[[], Awaitable[Result] | Result],
    *,
    lease_seconds: int,
    retention_seconds: int | None,
    wait_seconds: float,
) -> Outcome[Result]:
    if retention_seconds is not None and not 1 <= retention_seconds <= MAX_RETENTION:
        # Not when it has happened already.
        raise InvalidRequest(f"retention_seconds: must be 1 to {MAX_RETENTION}.")
    lease = Lease(calls, lease_seconds)
    begun = await _begin(lease, wait_seconds)
    if begun["outcome"] == "done":
        return Outcome(begun["result"], ran=False)
    async with lease:
        running = asyncio.create_task(result_of(run))
        try:
            result = await _ended(running, lease.lost)
        except LeaseLost:
            raise
        except BaseException as error:
            if _succeeded(running):
                # Cancelled, but it has happened, or has finished all the same.
                await surely(_commit_late(lease, running.result(), retention_seconds))
            else:
                await surely(_failed(lease, error))
            raise
        await surely(_commit(lease, result, retention_seconds))
    return Outcome(result, ran=True)


class Lease:
    """Renewed while inside. ``lost`` is set when it is somebody else's, or may be soon."""

    def __init__(self, calls: IdempotencyCalls, seconds: int) -> None:
        self.calls = calls
        self.owner = secrets.token_urlsafe(12)
        self.seconds = seconds
        self.lost = asyncio.Event()
        self._until = 0.0
        self._keeper: asyncio.Task[None] | None = None

    async def begin(self) -> Answer:
        asked_at = _now()
        begun = await self.calls.begin(self.owner, self.seconds)
        # The server began to count later than that.
        self._until = asked_at + self.seconds
        return begun

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep(), name="lease")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._keeper is not None
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)

    async def _keep(self) -> None:
        # A little before the end, so that what runs here stops before somebody else begins.
        margin = min(self.seconds / 10, _MARGIN_SECONDS)
        pause = self.seconds / 3
        while (left := self._until - margin - _now()) > 0:
            await asyncio.sleep(min(pause, left))
            asked_at = _now()
            try:
                async with asyncio.timeout(max(0.0, self._until - margin - asked_at)):
                    await self.calls.renew(self.owner, self.seconds)
            except LeaseLost:
                break
            except TimeoutError:
                continue
            except HoldfastError as error:
                log.warning("A lease was not renewed yet: %s", error)
                pause = margin
            else:
                self._until, pause = asked_at + self.seconds, self.seconds / 3
        self.lost.set()


async def _begin(lease: Lease, wait_seconds: float) -> Answer:
    until = _now() + wait_seconds
    for pause in pauses_between_attempts(_LONGEST_PAUSE):
        try:
            return await lease.begin()
        except AlreadyInProgress:
            left = until - _now()
            if left <= 0:
                raise
            await asyncio.sleep(min(pause, left))
    raise AssertionError("the pauses never end")


async def _ended(running: asyncio.Task[Result], lost: asyncio.Event) -> Result:
    losing = asyncio.create_task(lost.wait())
    try:
        await asyncio.wait({running, losing}, return_when=asyncio.FIRST_COMPLETED)
        given_up = not running.done()
    finally:
        losing.cancel()
        running.cancel()
        await asyncio.gather(running, losing, return_exceptions=True)
    if given_up and not _succeeded(running):
        raise LeaseLost("The lease was not renewed in time, and may be somebody else's by now.")
    return running.result()


def _succeeded(running: asyncio.Task[Any]) -> bool:
    return running.done() and not running.cancelled() and running.exception() is None


async def result_of(run: Callable[[], Awaitable[Result] | Result]) -> Result:
    result = run()
    return await result if inspect.isawaitable(result) else result


async def _commit(lease: Lease, result: object, retention_seconds: int | None) -> None:
    """Raises LeaseLost, or NotRecorded: never what would seem to say that nothing was done."""
    try:
        try:
            await _insist(lease, encode(result, "result"), retention_seconds)
        except (InvalidRequest, TooLarge) as error:
            # That it has happened is what counts: a failure would make it happen again.
            await _insist(lease, b"null", retention_seconds)
            unkept = error
        else:
            return
    except LeaseLost:
        raise
    except HoldfastError as error:
        raise NotRecorded(
            "It has happened, but could not be recorded, so the next attempt may make it happen again. "
            f"The last try to record it: {error}"
        ) from error
    raise type(unkept)(f"It has happened, and is recorded without a result, which cannot be kept: {unkept}") from unkept


async def _commit_late(lease: Lease, result: object, retention_seconds: int | None) -> None:
    """For some seconds only: whoever ran it was told to stop."""
    try:
        async with asyncio.timeout(SECONDS_LEFT):
            await _commit(lease, result, retention_seconds)
    except (HoldfastError, TimeoutError) as trouble:
        log.warning("What has happened was not recorded as it should: %s", trouble or "there was no answer in time")


async def _insist(lease: Lease, result: bytes, retention_seconds: int | None) -> None:
    """For as long again as the lease lasts: late is not too late while nobody else has begun."""
    until = _now() + lease.seconds
    for pause in pauses_between_attempts(_LONGEST_PAUSE):
        try:
            await lease.calls.commit(lease.owner, result, retention_seconds)
        except PASSING as error:
            if _now() + pause >= until:
                raise
            log.warning("What has happened is not recorded yet: %s", error)
            await asyncio.sleep(pause)
        else:
            return


async def _failed(lease: Lease, error: BaseException) -> None:
    try:
        await lease.calls.fail(lease.owner, f"{type(error).__name__}: {error}")
    except HoldfastError as trouble:
        # Its lease runs out, and then another may begin.
        log.warning("A failure was not recorded: %s", trouble)


def _segment(name: str) -> str:
    """One segment of a path, whatever is in it: one of dots only would be taken for a step upwards."""
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise InvalidRequest(
            "A key and a tenant are text, and this is none: it has half of a surrogate pair."
        ) from None
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted


def _now() -> float:
    return asyncio.get_running_loop().time()
