"""Which tenants have orchestrations: whoever runs activities serves the queues of each of them.

Written down once for each tenant and process, by the first instance that tells the index of itself. A process that
hosts such an instance hears of the tenant at once; the others ask now and then for those that came since.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from dapr.actor import ActorInterface

from holdfast.errors import HoldfastError
from holdfast.identity import DEFAULT_TENANT, check_tenant
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.work import DurableActor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.work import Turn

log = logging.getLogger(__name__)

TENANT_INDEX_TYPE = "TenantIndexActor"
REGISTER = "tenants"
# Names in one state value; a new one rewrites the last of these.
PAGE = 500
# How late other processes hear of a new tenant.
POLL_SECONDS = 5.0
_TRY_AGAIN_SECONDS = 1.0


class TenantIndexInterface(ActorInterface):
    @abstractmethod
    async def Add(self, tenant: str) -> None: ...

    @abstractmethod
    async def Since(self, known: int) -> list[str]:
        """Those after the first so many, in the order they came. None is ever forgotten."""


class TenantIndexActor(DurableActor, TenantIndexInterface):
    """One for all: a tenant comes once."""

    async def Add(self, tenant: str) -> None:
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

    async def Since(self, known: int) -> list[str]:
        async with self.work.turn() as turn:
            skipped = known // PAGE
            pages = await self._pages(turn, skipped)
            return [tenant for page in pages for tenant in page][known - skipped * PAGE :]

    async def _pages(self, turn: Turn, first: int = 0) -> list[list[str]]:
        count: int = await turn.load("pages") or 0
        numbers = range(first, count)
        pages: list[Any] = await turn.load_all(*(f"page-{number}" for number in numbers)) if numbers else []
        return [page or [] for page in pages]


class Tenants:
    """What one process knows of them."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Tenants]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # The client keeps this, through the dictionary: held here, it would never go.
        self._client: HostClient = weakref.proxy(client)
        self._heard: dict[str, None] = {DEFAULT_TENANT: None}
        self._written = {DEFAULT_TENANT}
        self._news = asyncio.Event()

    @classmethod
    def of(cls, client: HostClient) -> Tenants:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    async def note(self, tenant: str) -> None:
        """There is an instance of this tenant here. When this returns, all processes will hear of it."""
        self._hear(tenant)
        if tenant not in self._written:
            await self._client.invoke_method(TENANT_INDEX_TYPE, REGISTER, "Add", dump(tenant))
            self._written.add(tenant)

    async def each(self, *, alone: bool) -> AsyncIterator[str]:
        """Every tenant, as it becomes known, without end. Where there is no other process, nobody is asked twice."""
        given = 0
        read = 0
        asks = True
        while True:
            for tenant in list(self._heard)[given:]:
                given += 1
                yield tenant
            pause: float | None = None
            if asks:
                try:
                    read += await self._read(read)
                    asks, pause = not alone, POLL_SECONDS
                except HoldfastError as error:
                    log.warning("which tenants there are is not known: %s", error)
                    pause = _TRY_AGAIN_SECONDS
            if len(self._heard) == given:
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause if asks else None):
                        await self._news.wait()

    async def _read(self, known: int) -> int:
        """Hears of those after the first so many. Answers how many there were."""
        answer = await self._client.invoke_method(TENANT_INDEX_TYPE, REGISTER, "Since", dump(known))
        tenants: list[str] = load(answer)
        for tenant in tenants:
            self._written.add(tenant)
            self._hear(tenant)
        return len(tenants)

    def _hear(self, tenant: str) -> None:
        if tenant not in self._heard:
            self._heard[tenant] = None
            self._news.set()
