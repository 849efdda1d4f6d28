"""The last result of a collection for each tenant, which is reused for some seconds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: For how many tenants the last result is kept.
MOST_TENANTS = 100
FRESH_SECONDS = 5.0

Result = TypeVar("Result")


@dataclass(slots=True)
class _Latest(Generic[Result]):
    """The last result of one tenant."""

    result: Result | None = None
    stale_at: float = float("-inf")
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Recent(Generic[Result]):
    """Calls ``collect`` with a tenant at most once in five seconds."""

    def __init__(self, collect: Callable[[str], Awaitable[Result]]) -> None:
        self._collect = collect
        self._latest: OrderedDict[str, _Latest[Result]] = OrderedDict()

    async def take(self, tenant: str) -> Result:
        """Returns the last result if it is recent, else collects anew."""
        clock = asyncio.get_running_loop().time
        latest = self._latest.setdefault(tenant, _Latest())
        self._latest.move_to_end(tenant)
        if len(self._latest) > MOST_TENANTS:
            self._latest.popitem(last=False)
        async with latest.taking:
            if latest.result is None or clock() >= latest.stale_at:
                latest.result = await self._collect(tenant)
                latest.stale_at = clock() + FRESH_SECONDS
            return latest.result
