"""Schedules work that computes for milliseconds: one step per iteration of the event loop, round robin over tenants.

Every call needs several iterations of the event loop. Without this, a tenant that sends a hundred large bodies at once
makes each iteration as long as a hundred steps, and all other calls wait for several such iterations.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque


class Turnstile:
    """Admits one step of work per iteration of the event loop. Tenants take turns, however much each has waiting."""

    def __init__(self) -> None:
        #: Waiting steps by tenant; the tenant whose turn it is comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._admitting = False

    async def wait(self, tenant: str) -> None:
        """Returns when the tenant's next step may run: in the next iteration at the earliest."""
        loop = asyncio.get_running_loop()
        admitted: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(tenant, deque()).append(admitted)
        if not self._admitting:
            self._admitting = True
            loop.call_soon(self._admit)
        await admitted

    def _admit(self) -> None:
        while self._waiting:
            tenant, waiting = self._waiting.popitem(last=False)
            admitted = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting
            # Some waiters were cancelled.
            if not admitted.done():
                admitted.set_result(None)
                # Runs after the admitted step, in the same next iteration.
                asyncio.get_running_loop().call_soon(self._admit)
                return
        self._admitting = False
