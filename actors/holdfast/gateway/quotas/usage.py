"""Enforces the storage quotas of tenants, as far as this process knows their usage.

There is no common counter over all queues, so each gateway adds them up: from the load in every queue's reply, which is
exact for calls through this process, and by asking all queues periodically, which covers the rest. Only pushes are
refused: stored items can always be transferred, abandoned or popped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import Capacity, HoldfastError, TooLarge
from holdfast.names import qualify, split_partition, split_tenant
from holdfast.pushpop.core.items import size_of
from holdfast.pushpop.index import list_queue, list_queues

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from holdfast.gateway.queues.partitions import Partitions
    from holdfast.gateway.quotas.quotas import Quota, Quotas
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

# Bounds memory, whatever the number of tenants; an evicted tenant is counted anew.
MOST_TENANTS = 1000
# With room left, a count older than this is refreshed in the background,
FRESH_SECONDS = 5.0
# and one older than this before the next push.
STALE_SECONDS = 10.0
# Before a push is refused, the queues are counted again, unless that was done within this time.
AGAIN_SECONDS = 1.0
# How long an admitted queue counts although it is not in the index: it is added when its first item is stored.
LISTED_WITHIN = 60.0
# A queue that does not answer in this time keeps its last known load.
COUNT_SECONDS = 5.0
AT_ONCE = 16
ROOM_SECONDS = 1
#: The size of an item without its payload.
ITEM_BYTES = size_of("")

_NEVER = float("-inf")


@dataclass(slots=True)
class _Amount:
    items: int = 0
    bytes: int = 0


class TenantUsages:
    """The usage of all tenants that have a quota."""

    def __init__(self, client: HostClient, partitions: Partitions, quotas: Quotas) -> None:
        self._client = client
        self._partitions = partitions
        self._quotas = quotas
        self._limited: OrderedDict[str, TenantUsage] = OrderedDict()

    def pushing(self, queue: str, items: int, body: int) -> AbstractAsyncContextManager[None]:
        """Returns a context for a push into this queue, with a body of ``body`` bytes.

        Raises Capacity when the quota has no room now, TooLarge when the push alone exceeds it.
        """
        usage = self._of(split_tenant(queue)[0])
        return nullcontext() if usage is None else usage.pushing(queue, items, body)

    def configuring(self, queue: str) -> AbstractAsyncContextManager[None]:
        """Returns a context for a change of configuration, which creates a queue too. Raises Capacity at the limit."""
        usage = self._of(split_tenant(queue)[0])
        return nullcontext() if usage is None else usage.configuring(queue)

    def forget(self, queue: str) -> None:
        """Stops counting a queue that was deleted."""
        if (usage := self._limited.get(split_tenant(queue)[0])) is not None:
            usage.forget(queue)

    def _of(self, tenant: str) -> TenantUsage | None:
        """Returns the tenant's usage, or None for a tenant without a quota."""
        quota = self._quotas.of(tenant)
        if not quota.limits_queues:
            return None
        usage = self._limited.get(tenant)
        if usage is None:
            usage = self._limited[tenant] = TenantUsage(self._client, self._partitions, tenant, quota)
            if len(self._limited) > MOST_TENANTS:
                self._limited.popitem(last=False)
        else:
            self._limited.move_to_end(tenant)
        return usage

    def observe(self, actor_id: str, load: int, size: int) -> None:
        """Records the number of items and bytes in one partition."""
        if self._limited and (usage := self._limited.get(split_tenant(actor_id)[0])) is not None:
            usage.observe(actor_id, load, size)


class TenantUsage:
    """The usage of one tenant."""

    def __init__(self, client: HostClient, partitions: Partitions, tenant: str, quota: Quota) -> None:
        self._client = client
        self._partitions = partitions
        self._tenant = tenant
        self._quota = quota
        #: Items and bytes by the actor id of each partition.
        self._loads: dict[str, tuple[int, int]] = {}
        self._stored = _Amount()
        #: Items and bytes pushed, but not answered yet.
        self._underway = _Amount()
        self._listed: frozenset[str] = frozenset()
        #: Admitted queues that are not in the index yet, with the time of admission.
        self._admitted: dict[str, float] = {}
        self._listed_at = self._counted_at = _NEVER
        self._listing = asyncio.Lock()
        self._counting = asyncio.Lock()
        self._recounting = False

    def observe(self, actor_id: str, load: int, size: int) -> None:
        items, held = self._loads.get(actor_id, (0, 0))
        self._stored.items += load - items
        self._stored.bytes += size - held
        self._loads[actor_id] = load, size

    def forget(self, queue: str) -> None:
        """Stops counting a queue that was deleted."""
        self._admitted.pop(queue, None)
        self._listed -= {queue}
        self._drop_loads(lambda counted: counted == queue)

    @asynccontextmanager
    async def pushing(self, queue: str, items: int, body: int) -> AsyncIterator[None]:
        new = await self._admit(queue)
        # An upper bound of the stored size: payloads are part of the body.
        size = body + ITEM_BYTES * items if items else 0
        try:
            await self._find_room(items, size)
            self._underway.items += items
            self._underway.bytes += size
            try:
                yield
            finally:
                self._underway.items -= items
                self._underway.bytes -= size
        except BaseException:
            if new:
                self._admitted.pop(queue, None)
            raise

    @asynccontextmanager
    async def configuring(self, queue: str) -> AsyncIterator[None]:
        async with self.pushing(queue, 0, 0):
            yield
            # A queue adds itself to the index with its first item. Until then it would not count towards the quota.
            if self._quota.max_queues is not None and queue not in self._listed:
                await list_queue(self._client, queue)

    async def _admit(self, queue: str) -> bool:
        """Admits the queue and returns whether it seems to be new. Raises Capacity."""
        most = self._quota.max_queues
        if most is None or queue in self._listed or queue in self._admitted:
            return False
        await self._list()
        if queue in self._listed:
            return False
        since = _now() - LISTED_WITHIN
        self._admitted = {name: at for name, at in self._admitted.items() if at > since and name not in self._listed}
        if len(self._listed) + len(self._admitted) >= most:
            raise Capacity(f"Quota reached: this tenant may have {most} queues.", retry_after=ROOM_SECONDS)
        self._admitted[queue] = _now()
        return True

    async def _find_room(self, items: int, size: int) -> None:
        quota = self._quota
        if not items or (quota.max_items is None and quota.max_bytes is None):
            return
        if quota.max_items is not None and items > quota.max_items:
            raise TooLarge(
                f"This tenant may have {quota.max_items} items in all queues together, and this push alone has {items}."
            )
        if quota.max_bytes is not None and size > quota.max_bytes:
            raise TooLarge(
                f"This tenant may have {quota.max_bytes} bytes in all queues together, and this push alone has {size}."
            )
        age = _now() - self._counted_at
        if age > STALE_SECONDS or (age > AGAIN_SECONDS and self._excess(items, size)):
            await self._count()
        elif age > FRESH_SECONDS and not self._recounting:
            self._recounting = True
            self._partitions.start(self._count()).add_done_callback(self._recounted)
        if self._excess(items, size):
            # Items just stored count twice until the tasks that pushed them have run.
            await asyncio.sleep(0)
        if excess := self._excess(items, size):
            raise Capacity(excess, retry_after=ROOM_SECONDS)

    def _excess(self, items: int, size: int) -> str | None:
        """Returns why the quota has no room for this push, or None."""
        quota, stored, underway = self._quota, self._stored, self._underway
        if quota.max_items is not None and stored.items + underway.items + items > quota.max_items:
            return f"This tenant may have {quota.max_items} items in all queues together, and has {stored.items}."
        if quota.max_bytes is not None and stored.bytes + underway.bytes + size > quota.max_bytes:
            return f"This tenant may have {quota.max_bytes} bytes in all queues together, and has {stored.bytes}."
        return None

    def _recounted(self, _: object) -> None:
        self._recounting = False

    async def _list(self) -> None:
        async with self._listing:
            if self._listed_at < _now() - AGAIN_SECONDS:
                names = await list_queues(self._client, self._tenant)
                self._listed = frozenset(qualify(self._tenant, name) for name in names)
                self._listed_at = _now()

    async def _count(self) -> None:
        """Asks every queue; :meth:`observe` records the replies."""
        async with self._counting:
            if self._counted_at >= _now() - AGAIN_SECONDS:
                return  # a concurrent call just did
            await self._list()
            at_once = asyncio.Semaphore(AT_ONCE)

            async def ask(queue: str) -> None:
                async with at_once:
                    await self._partitions.call_all(queue, "Stats")

            try:
                async with asyncio.timeout(COUNT_SECONDS):
                    answers = await asyncio.gather(*map(ask, self._listed), return_exceptions=True)
            except TimeoutError:
                log.warning("tenant %s: not all queues answered in time; their last known sizes are used", self._tenant)
            else:
                for answer in answers:
                    if isinstance(answer, BaseException) and not isinstance(answer, HoldfastError):
                        raise answer
            # Another process may have deleted queues. One that is stored but not listed yet is counted by its next
            # reply.
            self._drop_loads(lambda queue: queue not in self._listed and queue not in self._admitted)
            self._counted_at = _now()

    def _drop_loads(self, is_dropped: Callable[[str], bool]) -> None:
        for actor_id in [actor_id for actor_id in self._loads if is_dropped(split_partition(actor_id)[0])]:
            self.observe(actor_id, 0, 0)
            del self._loads[actor_id]


def _now() -> float:
    return asyncio.get_running_loop().time()
