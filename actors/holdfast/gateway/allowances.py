"""What tenants may still store, as far as this process knows.

Nobody counts the items of all queues together, so each gateway adds them up: from what queues say of themselves with
every answer, which is exact for what goes through this process, and by asking them now and then, which is how it hears
of the rest. Only pushes are refused: what is there already can always be moved, given back or taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from holdfast.errors import Capacity, HoldfastError, TooLarge
from holdfast.identity import qualify, split_tenant
from holdfast.pushpop.index import list_queue, list_queues

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from holdfast.gateway.partitions import Partitions
    from holdfast.gateway.quotas import Quota, Quotas
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

# Bounds memory, whatever the number of tenants; one that was forgotten is counted anew.
MOST_TENANTS = 1000
# While there seems to be room, it is counted anew beside the pushes when the last time was so long ago,
FRESH_SECONDS = 5.0
# and before the next one when it was so long ago.
STALE_SECONDS = 10.0
# Before somebody is refused, it is looked again, unless that was just done.
AGAIN_SECONDS = 1.0
# A queue that was let in is listed when its first item is stored, which takes a moment.
LISTED_WITHIN = 60.0
# What does not say in this time how much it holds is taken to hold what it did.
COUNT_SECONDS = 5.0
AT_ONCE = 16
ROOM_SECONDS = 1

_NEVER = float("-inf")


class Allowances:
    """Those of all tenants that have a quota."""

    def __init__(self, client: HostClient, partitions: Partitions, quotas: Quotas) -> None:
        self._client = client
        self._partitions = partitions
        self._quotas = quotas
        self._limited: OrderedDict[str, Allowance] = OrderedDict()

    def pushing(self, queue: str, items: int) -> AbstractAsyncContextManager[None]:
        """Around a push into this queue. Raises Capacity when there is no room for that now, TooLarge if ever."""
        allowance = self._of(split_tenant(queue)[0])
        return nullcontext() if allowance is None else allowance.pushing(queue, items)

    def configuring(self, queue: str) -> AbstractAsyncContextManager[None]:
        """Around a change of its configuration, which makes a queue too. Raises Capacity when it is one too many."""
        allowance = self._of(split_tenant(queue)[0])
        return nullcontext() if allowance is None else allowance.configuring(queue)

    def _of(self, tenant: str) -> Allowance | None:
        """None for a tenant that may have as much as it likes."""
        quota = self._quotas.of(tenant)
        if quota.max_queues is None and quota.max_items is None:
            return None
        allowance = self._limited.get(tenant)
        if allowance is None:
            allowance = self._limited[tenant] = Allowance(self._client, self._partitions, tenant, quota)
            if len(self._limited) > MOST_TENANTS:
                self._limited.popitem(last=False)
        else:
            self._limited.move_to_end(tenant)
        return allowance

    def heard(self, actor_id: str, load: int) -> None:
        """One partition of a queue holds so much."""
        if self._limited and (allowance := self._limited.get(split_tenant(actor_id)[0])) is not None:
            allowance.heard(actor_id, load)


class Allowance:
    """Of one tenant."""

    def __init__(self, client: HostClient, partitions: Partitions, tenant: str, quota: Quota) -> None:
        self._client = client
        self._partitions = partitions
        self._tenant = tenant
        self._quota = quota
        #: By the actor of each partition.
        self._loads: dict[str, int] = {}
        self._stored = 0
        #: Pushed, and not answered yet.
        self._underway = 0
        self._listed: frozenset[str] = frozenset()
        #: Queues that may be about to be listed, and since when.
        self._admitted: dict[str, float] = {}
        self._listed_at = self._counted_at = _NEVER
        self._listing = asyncio.Lock()
        self._counting = asyncio.Lock()
        self._recounting = False

    def heard(self, actor_id: str, load: int) -> None:
        self._stored += load - self._loads.get(actor_id, 0)
        self._loads[actor_id] = load

    @asynccontextmanager
    async def pushing(self, queue: str, items: int) -> AsyncIterator[None]:
        new = await self._admit(queue)
        try:
            await self._find_room(items)
            self._underway += items
            try:
                yield
            finally:
                self._underway -= items
        except BaseException:
            if new:
                self._admitted.pop(queue, None)
            raise

    @asynccontextmanager
    async def configuring(self, queue: str) -> AsyncIterator[None]:
        async with self.pushing(queue, 0):
            yield
            # A queue lists itself with its first item. Until then it would not count, and there could be any number.
            if self._quota.max_queues is not None and queue not in self._listed:
                await list_queue(self._client, queue)

    async def _admit(self, queue: str) -> bool:
        """Whether it seems to be new."""
        most = self._quota.max_queues
        if most is None or queue in self._listed or queue in self._admitted:
            return False
        await self._list()
        if queue in self._listed:
            return False
        since = _now() - LISTED_WITHIN
        self._admitted = {name: at for name, at in self._admitted.items() if at > since and name not in self._listed}
        if len(self._listed) + len(self._admitted) >= most:
            raise Capacity(f"There may be {most} queues, and there are.", retry_after=ROOM_SECONDS)
        self._admitted[queue] = _now()
        return True

    async def _find_room(self, items: int) -> None:
        most = self._quota.max_items
        if most is None or not items:
            return
        if items > most:
            raise TooLarge(f"There may be {most} items in all queues together, and this push alone has {items}.")
        age = _now() - self._counted_at
        if age > STALE_SECONDS or (age > AGAIN_SECONDS and self._too_many(items, most)):
            await self._count()
        elif age > FRESH_SECONDS and not self._recounting:
            self._recounting = True
            self._partitions.start(self._count()).add_done_callback(self._recounted)
        if self._too_many(items, most):
            # What was just stored counts twice until those who pushed it have had their turn on the loop.
            await asyncio.sleep(0)
        if self._too_many(items, most):
            raise Capacity(
                f"There may be {most} items in all queues together, and there are {self._stored}.",
                retry_after=ROOM_SECONDS,
            )

    def _too_many(self, items: int, most: int) -> bool:
        return self._stored + self._underway + items > most

    def _recounted(self, _: object) -> None:
        self._recounting = False

    async def _list(self) -> None:
        async with self._listing:
            if self._listed_at < _now() - AGAIN_SECONDS:
                names = await list_queues(self._client, self._tenant)
                self._listed = frozenset(qualify(self._tenant, name) for name in names)
                self._listed_at = _now()

    async def _count(self) -> None:
        """Asks every queue; what each answers is heard on its way."""
        async with self._counting:
            if self._counted_at >= _now() - AGAIN_SECONDS:
                return  # somebody else just did
            await self._list()
            at_once = asyncio.Semaphore(AT_ONCE)

            async def ask(queue: str) -> None:
                async with at_once:
                    await self._partitions.call_all(queue, "Stats")

            try:
                async with asyncio.timeout(COUNT_SECONDS):
                    answers = await asyncio.gather(*map(ask, self._listed), return_exceptions=True)
            except TimeoutError:
                log.warning("not all queues of tenant %s have said in time how much they hold", self._tenant)
            else:
                for answer in answers:
                    if isinstance(answer, BaseException) and not isinstance(answer, HoldfastError):
                        raise answer
            self._counted_at = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
