"""The index of tenants that have orchestrations. Workers in servers serve the activity queues of each of them.

The first indexed instance of a tenant in each process adds the tenant. That process knows the tenant at once; other
processes poll for new tenants.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from dapr.actor import ActorInterface

from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.kinds import TENANT_INDEX_TYPE
from holdfast.names import DEFAULT_TENANT, check_tenant
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.unit_of_work import Turn

log = logging.getLogger(__name__)

REGISTER = "tenants"
# Names in one state value; adding a tenant rewrites the last value.
PAGE = 500
# The interval at which other processes poll for new tenants.
POLL_SECONDS = 5.0
_TRY_AGAIN_SECONDS = 1.0


class TenantIndexInterface(ActorInterface):
    @abstractmethod
    async def Add(self, tenant: str) -> None: ...

    @abstractmethod
    async def Since(self, known: int) -> list[str]:
        """Returns the tenants after the first ``known``, in the order they were added. Tenants are never removed."""


class TenantIndexActor(InternalActor, TenantIndexInterface):
    """The single actor that holds the names of all tenants."""

    exact_numbers = False

    async def Add(self, tenant: Any) -> None:
        if not isinstance(tenant, str):
            raise InvalidRequest("This is not the name of a tenant.")
        check_tenant(tenant)
        async with self.work.turn() as turn:
            pages = await self._pages(turn)
            if any(tenant in page for page in pages):
                return
            if not pages or len(pages[-1]) >= PAGE:
                pages.append([])
            pages[-1].append(tenant)
            turn.put(f"page-{len(pages) - 1}", pages[-1])
            turn.put("pages", len(pages))

    async def Since(self, known: Any) -> list[str]:
        if type(known) is not int or known < 0:
            raise InvalidRequest("This is not how many tenants are known: send an integer of 0 or more.")
        async with self.work.turn() as turn:
            skipped = known // PAGE
            pages = await self._pages(turn, skipped)
            return [tenant for page in pages for tenant in page][known - skipped * PAGE :]

    async def _pages(self, turn: Turn, first: int = 0) -> list[list[str]]:
        count: int = await turn.load("pages") or 0
        numbers = range(first, count)
        pages: list[Any] = await turn.load_all(*(f"page-{number}" for number in numbers)) if numbers else []
        return [page or [] for page in pages]


class TenantDirectory:
    """The tenants known in one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, TenantDirectory]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # Weak, because the dictionary ties this object to the client: a strong reference would keep the client alive.
        self._client: HostClient = weakref.proxy(client)
        self._tenants: dict[str, None] = {DEFAULT_TENANT: None}
        self._stored = {DEFAULT_TENANT}
        self._added = asyncio.Event()

    @classmethod
    def of(cls, client: HostClient) -> TenantDirectory:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    async def note(self, tenant: str) -> None:
        """Adds the tenant of an instance in this process. On return the tenant is stored for all processes."""
        self._add(tenant)
        if tenant not in self._stored:
            await self._client.invoke_method(TENANT_INDEX_TYPE, REGISTER, "Add", dump(tenant))
            self._stored.add(tenant)

    async def all(self) -> list[str]:
        """Returns every tenant that has had an instance so far."""
        await self._read(0)
        return list(self._tenants)

    async def each(self, *, alone: bool) -> AsyncIterator[str]:
        """Yields every tenant as it becomes known, without end. With ``alone`` the index is read only once."""
        given = 0
        read = 0
        asks = True
        while True:
            for tenant in list(self._tenants)[given:]:
                given += 1
                yield tenant
            pause: float | None = None
            if asks:
                try:
                    read += await self._read(read)
                    asks, pause = not alone, POLL_SECONDS
                except HoldfastError as error:
                    log.warning("the index of tenants cannot be read, retrying: %s", error)
                    pause = _TRY_AGAIN_SECONDS
            if len(self._tenants) == given:
                self._added.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause if asks else None):
                        await self._added.wait()

    async def _read(self, known: int) -> int:
        """Reads the tenants after the first ``known``. Returns their number."""
        answer = await self._client.invoke_method(TENANT_INDEX_TYPE, REGISTER, "Since", dump(known))
        tenants: list[str] = load(answer)
        for tenant in tenants:
            self._stored.add(tenant)
            self._add(tenant)
        return len(tenants)

    def _add(self, tenant: str) -> None:
        if tenant not in self._tenants:
            self._tenants[tenant] = None
            self._added.set()
