"""Effects that happen once: a record at the server, held by a lease while the effect runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from holdfast.client.connection import PASSING, Repeat, pauses_between_attempts
from holdfast.client.endings import surely
from holdfast.errors import AlreadyInProgress, HoldfastError, InvalidRequest, LeaseLost, TooLarge
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.client.connection import Connection

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Answer = dict[str, Any]

# Somebody who died does not finish sooner for being asked more often.
_LONGEST_PAUSE = 2.0
_OWN_TENANT = "~"


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
        self._path = f"idempotency/{quote(tenant_id or _OWN_TENANT, safe='')}/{quote(key, safe='')}"

    async def begin(self, owner: str, lease_seconds: int) -> Answer:
        return await self.call("begin", {"owner": owner, "lease_seconds": lease_seconds})

    async def renew(self, owner: str, lease_seconds: int) -> Answer:
        return await self.call("renew", {"owner": owner, "lease_seconds": lease_seconds})

    async def commit(self, owner: str, result: Any, retention_seconds: int | None) -> Answer:
        kept = {} if retention_seconds is None else {"retention_seconds": retention_seconds}
        return await self.call("commit", {"owner": owner, "result": result} | kept)

    async def fail(self, owner: str, error: str) -> Answer:
        return await self.call("fail", {"owner": owner, "error": error[:4000]})

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
    owner = secrets.token_urlsafe(12)
    begun = await _begin(calls, owner, lease_seconds, wait_seconds)
    if begun["outcome"] == "done":
        return Outcome(begun["result"], ran=False)
    try:
        async with _lease(calls, owner, lease_seconds) as lost:
            result = await _run(run, lost)
    except LeaseLost:
        raise
    except BaseException as error:
        await surely(_failed(calls, owner, error))
        raise
    try:
        await surely(calls.commit(owner, result, retention_seconds))
    except (TypeError, ValueError, TooLarge, InvalidRequest) as error:
        # It has happened, but what came of it cannot be kept.
        await surely(_failed(calls, owner, error))
        raise
    return Outcome(result, ran=True)


async def _begin(calls: IdempotencyCalls, owner: str, lease_seconds: int, wait_seconds: float) -> Answer:
    clock = asyncio.get_running_loop().time
    until = clock() + wait_seconds
    for pause in pauses_between_attempts(_LONGEST_PAUSE):
        try:
            return await calls.begin(owner, lease_seconds)
        except AlreadyInProgress:
            left = until - clock()
            if left <= 0:
                raise
            await asyncio.sleep(min(pause, left))
    raise AssertionError("the pauses never end")


@asynccontextmanager
async def _lease(calls: IdempotencyCalls, owner: str, lease_seconds: int) -> AsyncIterator[asyncio.Event]:
    """Renews while inside. The event is set when the lease is somebody else's."""
    lost = asyncio.Event()

    async def keep() -> None:
        while True:
            await asyncio.sleep(lease_seconds / 3)
            try:
                await calls.renew(owner, lease_seconds)
            except LeaseLost:
                lost.set()
                return
            except PASSING as error:
                log.warning("A lease was not renewed: %s", error)

    keeping = asyncio.create_task(keep())
    try:
        yield lost
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def _run(run: Callable[[], Awaitable[Result] | Result], lost: asyncio.Event) -> Result:
    running = asyncio.ensure_future(result_of(run))
    losing = asyncio.ensure_future(lost.wait())
    try:
        await asyncio.wait({running, losing}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise LeaseLost("The lease was not renewed in time, and somebody else has it now.")
    finally:
        losing.cancel()
        running.cancel()
        await asyncio.gather(running, losing, return_exceptions=True)
    return running.result()


async def result_of(run: Callable[[], Awaitable[Result] | Result]) -> Result:
    result = run()
    return await result if inspect.isawaitable(result) else result


async def _failed(calls: IdempotencyCalls, owner: str, error: BaseException) -> None:
    try:
        await calls.fail(owner, f"{type(error).__name__}: {error}")
    except HoldfastError as trouble:
        # Its lease runs out, and then another may begin.
        log.warning("A failure was not recorded: %s", trouble)
