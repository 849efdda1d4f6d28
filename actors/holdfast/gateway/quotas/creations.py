"""Enforces the quotas of what a tenant creates by name: instances and schedules. Only new ones over REST are refused.

The index of a tenant is counted from time to time. An instance is added to it a moment after its start, so this process
also counts what it created until the index has it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import Capacity, NotFound
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.names import qualify
from holdfast.orchestration.index.finder import count
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.runtime.contract import HostClient

    #: Returns the number of a tenant's entries in the index, and which of the given names it includes.
    Count = Callable[[str, Collection[str]], Awaitable[tuple[int, set[str]]]]

# Bounds memory, whatever the number of tenants; an evicted tenant is counted anew.
MAX_TENANTS = 1000
# An older count is refreshed before the next creation.
STALE_SECONDS = 10.0
# Before a creation is refused, the index is counted again, unless that was done within this time.
AGAIN_SECONDS = 1.0
# How long a name counts although the index does not have it: it may have been deleted again.
LISTED_WITHIN = 60.0
RETRY_SECONDS = 1

_NEVER = float("-inf")


@dataclass(slots=True)
class Creation:
    """One creation. Set ``is_new`` to False when there was one of this name already."""

    is_new: bool = True


class Creations:
    """The instances, or the schedules, of all tenants that have a quota for them."""

    def __init__(self, what: str, quota: Callable[[str], int | None], count: Count) -> None:
        self._what = what
        self._quota = quota
        self._count = count
        self._tenants: OrderedDict[str, _Usage] = OrderedDict()

    @asynccontextmanager
    async def creating(self, tenant: str, name: str, exists: Callable[[], Awaitable[bool]]) -> AsyncIterator[Creation]:
        """A context for the creation. Raises Capacity at the quota, unless one of this name ``exists``."""
        creation = Creation()
        most = self._quota(tenant)
        if most is None:
            yield creation
            return
        usage = self._of(tenant)
        is_first = await usage.admit(name, most)
        if is_first and usage.number > most:
            usage.forget(name)
            number = usage.number
            if not await exists():
                raise Capacity(
                    f"Quota reached: this tenant may have {most} {self._what} and has {number}.",
                    retry_after=RETRY_SECONDS,
                )
        try:
            yield creation
        except BaseException:
            creation.is_new = False
            raise
        finally:
            if is_first and not creation.is_new:
                usage.forget(name)

    def deleted(self, tenant: str, name: str) -> None:
        """Stops counting what was deleted, if the index did not have it yet."""
        if (usage := self._tenants.get(tenant)) is not None:
            usage.forget(name)

    def _of(self, tenant: str) -> _Usage:
        usage = self._tenants.get(tenant)
        if usage is None:
            usage = self._tenants[tenant] = _Usage(tenant, self._count)
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(tenant)
        return usage


class InstanceCreations:
    """The instances of orchestrations."""

    def __init__(self, client: HostClient, quotas: Quotas) -> None:
        self._batcher = CallBatcher.of(client, ORCHESTRATION_TYPE)
        self._creations = Creations(
            "orchestration instances", lambda tenant: quotas.of(tenant).max_instances, partial(count, client)
        )

    def creating(self, tenant: str, instance_id: str) -> AbstractAsyncContextManager[Creation]:
        """A context for the start of an instance. Raises Capacity at the quota, unless the instance exists."""
        return self._creations.creating(tenant, instance_id, partial(self._exists, qualify(tenant, instance_id)))

    def deleted(self, tenant: str, instance_id: str) -> None:
        self._creations.deleted(tenant, instance_id)

    async def _exists(self, address: str) -> bool:
        try:
            raise_for_refusal(await self._batcher.call(address, "State", dump(None)))
        except NotFound:
            return False
        return True


class _Usage:
    """The number of one tenant."""

    def __init__(self, tenant: str, count: Count) -> None:
        self._tenant = tenant
        self._count = count
        self._listed = 0
        self._counted_at = _NEVER
        self._counting = asyncio.Lock()
        #: Names that this process creates or has created and that the index did not have, and since when.
        self._created: dict[str, float] = {}

    @property
    def number(self) -> int:
        return self._listed + len(self._created)

    async def admit(self, name: str, most: int) -> bool:
        """Counts a name. Returns False when this process counts it already."""
        if name in self._created:
            return False
        self._created[name] = _now()
        try:
            age = _now() - self._counted_at
            if age > STALE_SECONDS or (age > AGAIN_SECONDS and self.number > most):
                await self._refresh()
        except BaseException:
            self.forget(name)
            raise
        return True

    def forget(self, name: str) -> None:
        self._created.pop(name, None)

    async def _refresh(self) -> None:
        async with self._counting:
            now = _now()
            if now - self._counted_at <= AGAIN_SECONDS:
                return  # a concurrent call just did
            number, listed = await self._count(self._tenant, list(self._created))
            self._listed = number
            for name in listed:
                self.forget(name)
            since = now - LISTED_WITHIN
            self._created = {name: at for name, at in self._created.items() if at > since}
            self._counted_at = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
