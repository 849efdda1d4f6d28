"""Checks at server start which instances the deployed code can continue.

An instance replays its code when a message reaches it, which may be days later. Therefore every server start checks
each instance that has not ended: if its code does not fit, it becomes BLOCKED within seconds of the deploy; if its code
fits again, it continues.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.logs import message_of
from holdfast.names import qualify
from holdfast.orchestration.index.finder import find_in_shard
from holdfast.orchestration.index.instance_index import shards_of
from holdfast.orchestration.index.search import Criteria, Search
from holdfast.orchestration.index.tenant_index import TenantDirectory
from holdfast.orchestration.log_fields import about_instance
from holdfast.orchestration.status import NOT_ENDED
from holdfast.runtime.batching import CallBatcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.orchestration.index.search import Position
    from holdfast.runtime.contract import HostClient

Result = TypeVar("Result")

log = logging.getLogger(__name__)

# Few, so that replays do not delay the requests to the server.
_AT_ONCE = 8
_PAGE = 100
_ANSWER_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_NOT_ENDED = Search(Criteria(status=list(NOT_ENDED)), newest=False, limit=_PAGE)


class Recheck:
    """One check of all instances that have not ended."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._room = asyncio.Semaphore(_AT_ONCE)
        #: The instances that could not be reached.
        self._unreached: list[str] = []

    async def run(self) -> None:
        """Checks every instance. Instances that cannot be reached are retried after all others."""
        async with asyncio.TaskGroup() as checks:
            for tenant in await _insist(TenantDirectory.of(self._client).all):
                for shard in shards_of(tenant):
                    async for instance_id in self._not_ended(shard):
                        await self._begin(checks, qualify(tenant, instance_id))
        pause = _FIRST_PAUSE
        while self._unreached:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            addresses, self._unreached = self._unreached, []
            async with asyncio.TaskGroup() as checks:
                for address in addresses:
                    await self._begin(checks, address)

    async def _begin(self, checks: asyncio.TaskGroup, address: str) -> None:
        await self._room.acquire()
        checks.create_task(self._check(address))

    async def _check(self, address: str) -> None:
        extra = about_instance(address)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await CallBatcher.of(self._client, ORCHESTRATION_TYPE).call(address, "Check")
        except (HoldfastError, TimeoutError) as error:
            if isinstance(error, TimeoutError) or error.retryable:
                log.info(
                    "orchestration %s cannot be checked yet, retrying: %s", address, message_of(error), extra=extra
                )
                self._unreached.append(address)
            else:
                log.warning("orchestration %s cannot be checked: %s", address, error, extra=extra)
        except Exception:
            # A broken instance must not prevent the check of the others.
            log.exception("orchestration %s cannot be checked", address, extra=extra)
        finally:
            self._room.release()

    async def _not_ended(self, shard: str) -> AsyncIterator[str]:
        position: Position | None = None
        while True:
            try:
                found = await _insist(partial(find_in_shard, self._client, shard, _NOT_ENDED, _PAGE, position))
            except HoldfastError as error:
                # The other shards are still checked.
                log.warning("the instances in shard %s of the index cannot be checked: %s", shard, error)
                return
            for entry in found.entries:
                yield entry.instance_id
            if found.position is None:
                return
            position = found.position


async def _insist(call: Callable[[], Awaitable[Result]]) -> Result:
    """Makes a call until it succeeds. Raises errors that are not retryable."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await call()
        except HoldfastError as error:
            if not error.retryable:
                raise
            log.info("the instance index cannot be read yet, retrying: %s", error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
