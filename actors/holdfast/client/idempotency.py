"""Runs effects once: the server keeps a record for each key, which is leased while the effect runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from holdfast.client.api.connection import PASSING, Repeat, pauses_between_attempts
from holdfast.client.api.encoding import encode, path_segment
from holdfast.client.shielding import SECONDS_LEFT, finish_even_if_cancelled
from holdfast.errors import AlreadyInProgress, HoldfastError, InvalidRequest, LeaseLost, NotRecorded, TooLarge
from holdfast.idempotency.record import MAX_RETENTION
from holdfast.logs import message_of
from holdfast.names import OWN_TENANT
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from holdfast.client.api.connection import Connection

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Answer = dict[str, Any]

# Between attempts to begin while another process holds the lease, and to record a result.
_LONGEST_PAUSE = 2.0
_MARGIN_SECONDS = 1.0
_LONGEST_ERROR = 4000


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The result of an idempotent run, made now or recorded earlier."""

    result: Result
    #: Whether it ran now; False when the result was recorded earlier.
    ran: bool


class IdempotencyCalls:
    """The REST calls for one (tenant, key). All may be repeated: the server ignores repeats by the same owner."""

    def __init__(self, connection: Connection, tenant_id: str | None, key: str) -> None:
        self._connection = connection
        # The server replaces OWN_TENANT with the tenant of the connection.
        self.path = f"idempotency/{path_segment(tenant_id or OWN_TENANT, 'tenant')}/{path_segment(key, 'key')}"

    async def get(self) -> Answer:
        return await self._connection.call("GET", self.path, repeat=Repeat.ALWAYS)

    async def begin(self, owner: str, lease_seconds: int) -> Answer:
        return await self.call("begin", {"owner": owner, "lease_seconds": lease_seconds})

    async def renew(self, owner: str, lease_seconds: int) -> Answer:
        return await self.call("renew", {"owner": owner, "lease_seconds": lease_seconds})

    async def commit(self, owner: str, result: bytes, retention_seconds: int | None) -> Answer:
        """Records the result, which is JSON, and ends the lease."""
        kept = {} if retention_seconds is None else {"retention_seconds": retention_seconds}
        rest = dump({"owner": owner} | kept)
        return await self._send("commit", b'{"result":%b,%b' % (result, rest[1:]))

    async def fail(self, owner: str, error: str) -> Answer:
        return await self.call("fail", {"owner": owner, "error": error[:_LONGEST_ERROR]})

    async def call(self, what: str, body: Answer) -> Answer:
        return await self._send(what, dump(body))

    async def _send(self, what: str, body: bytes) -> Answer:
        return await self._connection.call("POST", f"{self.path}/{what}", body=body, repeat=Repeat.ALWAYS)


async def run_once(
    calls: IdempotencyCalls,
    run: Callable[[], Awaitable[Result] | Result],
    *,
    lease_seconds: int,
    retention_seconds: int | None,
    wait_seconds: float,
) -> Outcome[Result]:
    """Calls ``run`` under a lease and records its result, or returns the result that is recorded already."""
    if retention_seconds is not None and not 1 <= retention_seconds <= MAX_RETENTION:
        # Checked before the effect, since the server would reject it only after.
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
                # The caller was cancelled, but the effect has happened.
                await finish_even_if_cancelled(_commit_late(lease, running.result(), retention_seconds))
            else:
                await finish_even_if_cancelled(_failed(lease, error))
            raise
        await finish_even_if_cancelled(_commit(lease, result, retention_seconds))
    return Outcome(result, ran=True)


class Lease:
    """A lease that is renewed inside ``async with``. ``lost`` is set when another owner has it, or may have it soon."""

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
        # The server started the lease later than this, so this is on the safe side.
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
        # Give up shortly before the expiry, so that the effect can stop before another process begins it.
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
                log.warning("%s: the lease was not renewed, retrying: %s", self.calls.path, error)
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
        raise LeaseLost("The lease was not renewed in time; another process may hold it by now.")
    return running.result()


def _succeeded(running: asyncio.Task[Any]) -> bool:
    return running.done() and not running.cancelled() and running.exception() is None


async def result_of(run: Callable[[], Awaitable[Result] | Result]) -> Result:
    """Calls ``run``, which may be a plain function or return an awaitable."""
    result = run()
    return await result if inspect.isawaitable(result) else result


async def _commit(lease: Lease, result: object, retention_seconds: int | None) -> None:
    """Records the result. Raises LeaseLost or NotRecorded, not an error that would mean the effect did not happen."""
    try:
        try:
            await _insist(lease, encode(result, "result"), retention_seconds)
        except (InvalidRequest, TooLarge) as error:
            # Record it without the result: recorded as a failure, the effect would be repeated.
            await _insist(lease, b"null", retention_seconds)
            unkept = error
        else:
            return
    except LeaseLost:
        raise
    except HoldfastError as error:
        raise NotRecorded(
            "The effect has happened but could not be recorded, so the next attempt may repeat it. "
            f"The last attempt to record it failed: {error}"
        ) from error
    raise type(unkept)(
        f"The effect has happened and is recorded without its result, which cannot be stored: {unkept}"
    ) from unkept


async def _commit_late(lease: Lease, result: object, retention_seconds: int | None) -> None:
    """Records the result within a few seconds, since the caller was cancelled."""
    try:
        async with asyncio.timeout(SECONDS_LEFT):
            await _commit(lease, result, retention_seconds)
    except (HoldfastError, TimeoutError) as trouble:
        log.warning("%s: the effect has happened but was not recorded: %s", lease.calls.path, message_of(trouble))


async def _insist(lease: Lease, result: bytes, retention_seconds: int | None) -> None:
    """Retries for another lease duration: the server accepts a late commit until another owner begins."""
    until = _now() + lease.seconds
    for pause in pauses_between_attempts(_LONGEST_PAUSE):
        try:
            await lease.calls.commit(lease.owner, result, retention_seconds)
        except PASSING as error:
            if _now() + pause >= until:
                raise
            log.warning("%s: the effect is not recorded yet, retrying: %s", lease.calls.path, error)
            await asyncio.sleep(pause)
        else:
            return


async def _failed(lease: Lease, error: BaseException) -> None:
    try:
        await lease.calls.fail(lease.owner, f"{type(error).__name__}: {error}")
    except HoldfastError as trouble:
        log.warning("%s: the failure was not recorded, the lease has to expire: %s", lease.calls.path, trouble)


def _now() -> float:
    return asyncio.get_running_loop().time()
