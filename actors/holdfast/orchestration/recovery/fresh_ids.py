"""Generated instance ids. An instance with a fresh id cannot be stored yet, so its actor skips the first read.

Where many instances are started, ids are generated ahead and registered for recovery in one call
(:mod:`holdfast.orchestration.recovery.rescuer`), instead of one by one while their callers wait. A host that saves
reminders together with state needs no such call, and so no ids ahead.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import uuid
import weakref
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import HoldfastError
from holdfast.names import qualify
from holdfast.orchestration.recovery.rescuer import RescueList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.runtime.contract import HostClient


log = logging.getLogger(__name__)

# Ids are generated ahead after more than _FEW recent starts, and at most _MANY at a time.
_FEW, _MANY = 8, 64
# The period of "recent" starts, and the time after which a call may be a repeat, in seconds.
_OF_LATE = 5.0
_BEFORE_A_REPEAT = 0.3


class FreshIds:
    """The fresh ids of one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, FreshIds]] = weakref.WeakKeyDictionary()

    def __init__(self, rescue_list: RescueList | None) -> None:
        self._rescue_list = rescue_list
        #: The actors of fresh ids, and when each id was generated.
        self._addresses: dict[str, float] = {}
        #: For each tenant, the ids generated ahead and the number of recent starts.
        self._ready: dict[str, deque[str]] = {}
        self._wanted: Counter[str] = Counter()
        self._counted_from = 0.0
        self._making: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def of(cls, client: HostClient) -> FreshIds:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(None if client.saves_reminders else RescueList.of(client))
        return known

    @contextmanager
    def name(self, tenant: str) -> Iterator[str]:
        """A context that gives a new, unguessable id, for the call that starts its instance."""
        instance_id = self._next(tenant)
        address = qualify(tenant, instance_id)
        self._addresses[address] = asyncio.get_running_loop().time()
        try:
            yield instance_id
        finally:
            # The instance may have been started in another process, which did not claim it.
            self._addresses.pop(address, None)

    def _next(self, tenant: str) -> str:
        rescue_list = self._rescue_list
        if rescue_list is None:
            return str(uuid.uuid4())
        now = asyncio.get_running_loop().time()
        if now - self._counted_from > _OF_LATE:
            self._counted_from = now
            self._wanted.clear()
        self._wanted[tenant] += 1
        ready = self._ready.get(tenant, ())
        while ready:
            instance_id = ready.popleft()
            if rescue_list.is_prepared(qualify(tenant, instance_id)):
                return instance_id
        if self._wanted[tenant] > _FEW and tenant not in self._making:
            # In an empty context: the task does not belong to the request that triggers it.
            self._making[tenant] = asyncio.get_running_loop().create_task(
                self._make(tenant, min(self._wanted.pop(tenant), _MANY), rescue_list), context=contextvars.Context()
            )
        return str(uuid.uuid4())

    async def _make(self, tenant: str, count: int, rescue_list: RescueList) -> None:
        made = [str(uuid.uuid4()) for _ in range(count)]
        try:
            await rescue_list.prepare([qualify(tenant, instance_id) for instance_id in made])
            self._ready[tenant] = deque(made)
        except HoldfastError as error:
            log.info("no ids were generated ahead; each instance is registered at its start: %s", error)
        finally:
            del self._making[tenant]

    def claim(self, address: str) -> bool:
        """Returns True once for the actor of a fresh id. Later calls must read: it may be saved meanwhile.

        That may be in another process: daprd (1.18.2) repeats a call a second after a placement change broke it off.
        """
        made_up_at = self._addresses.pop(address, None)
        return made_up_at is not None and asyncio.get_running_loop().time() - made_up_at < _BEFORE_A_REPEAT
