"""Enforces the quota of a tenant's idempotency records. Only the begin of a new record is refused.

An actor counts what is stored (``idempotency/usage_actor.py``). Each gateway adds what went through it since it asked.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from holdfast.errors import Capacity
from holdfast.idempotency.record import RECORD_BYTES
from holdfast.idempotency.usage_reports import PAUSE_SECONDS, UsageReports, stored_bytes
from holdfast.runtime.background import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.runtime.contract import HostClient

RETRY_SECONDS = 60
# With room left, a count older than this is refreshed in the background,
FRESH_SECONDS = 2.0
# and one older than this before the next begin.
STALE_SECONDS = 10.0
# Before a begin is refused, the actor is asked again, unless that was done within this time.
AGAIN_SECONDS = 1.0
MAX_TENANTS = 1000
# Sizes noted within this time are summed.
_NOTE_SECONDS = 0.1

_NEVER = float("-inf")


class RecordUsage:
    """The records of all tenants that have a quota. ``alone`` means that all records change in this process."""

    def __init__(self, client: HostClient, quotas: Quotas, *, alone: bool) -> None:
        self._client = client
        self._quotas = quotas
        self._alone = alone
        self._tenants: OrderedDict[str, _Usage] = OrderedDict()
        self._background = BackgroundTasks("record usage")

    async def check(self, tenant: str, exists: Callable[[], Awaitable[bool]]) -> None:
        """Raises Capacity when one more record would exceed the quota, unless the record ``exists``."""
        most = self._quotas.of(tenant).max_idempotency_bytes
        if most is None:
            return
        usage = self._of(tenant)
        if usage.age > STALE_SECONDS or (usage.age > AGAIN_SECONDS and usage.bytes + RECORD_BYTES > most):
            await usage.refresh()
        elif usage.age > FRESH_SECONDS:
            self._background.start(tenant, usage.refresh)
        if usage.bytes + RECORD_BYTES > most and not await exists():
            raise Capacity(
                f"Quota reached: this tenant may have {most} bytes of idempotency records and has {usage.bytes}.",
                retry_after=RETRY_SECONDS,
            )

    def note(self, tenant: str, size: int) -> None:
        """Counts what a call through this process wrote, until the actor counts it."""
        if self._quotas.of(tenant).max_idempotency_bytes is not None:
            self._of(tenant).note(size)

    def _of(self, tenant: str) -> _Usage:
        usage = self._tenants.get(tenant)
        if usage is None:
            usage = self._tenants[tenant] = _Usage(self._client, tenant, 0.0 if self._alone else PAUSE_SECONDS)
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(tenant)
        return usage


class _Usage:
    """The records of one tenant. Other processes report their changes after at most ``late`` seconds."""

    def __init__(self, client: HostClient, tenant: str, late: float) -> None:
        self._client = client
        self._tenant = tenant
        self._late = late
        self._asked_at = _NEVER
        self._asking = asyncio.Lock()
        self._stored = 0
        #: What went through this process and is not counted by the actor yet: when it was written, and its size.
        self._noted: deque[tuple[float, int]] = deque()
        self._noted_bytes = 0
        #: The part of it that the current request to the actor covers.
        self._covered_bytes = 0

    @property
    def age(self) -> float:
        """How many seconds ago the actor was asked."""
        return _now() - self._asked_at

    @property
    def bytes(self) -> int:
        return self._stored + self._covered_bytes + self._noted_bytes

    def note(self, size: int) -> None:
        now = _now()
        at = now - now % _NOTE_SECONDS
        self._noted_bytes += size
        if self._noted and self._noted[-1][0] == at:
            size += self._noted.pop()[1]
        self._noted.append((at, size))

    async def refresh(self) -> None:
        async with self._asking:
            now = _now()
            if now - self._asked_at <= AGAIN_SECONDS:
                return  # a concurrent call just did
            while self._noted and self._noted[0][0] <= now - self._late:
                _, size = self._noted.popleft()
                self._noted_bytes -= size
                self._covered_bytes += size
            await UsageReports.of(self._client).flush(self._tenant)
            self._stored = await stored_bytes(self._client, self._tenant)
            self._covered_bytes = 0
            self._asked_at = now


def _now() -> float:
    return asyncio.get_running_loop().time()
