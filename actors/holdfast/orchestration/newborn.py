"""Instances whose ids this process has just made up: of these nothing can be stored, so nothing has to be read.

Where many are started, ids are made up ahead, and their instances written down together as those that somebody comes
for (:mod:`holdfast.orchestration.vigil`), instead of each by itself while its caller waits.
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
from holdfast.identity import qualify
from holdfast.orchestration.vigil import Vigil

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.runtime.contract import HostClient


log = logging.getLogger(__name__)

# So many starts make it worth it to think of those that will follow, and so many are thought of then, at most.
_FEW, _MANY = 8, 64
# In seconds.
_OF_LATE = 5.0
_BEFORE_A_REPEAT = 0.3


class Newborn:
    """Those of one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Newborn]] = weakref.WeakKeyDictionary()

    def __init__(self, vigil: Vigil) -> None:
        self._vigil = vigil
        #: And when each was made up.
        self._addresses: dict[str, float] = {}
        #: Of each tenant: ids that are ready, and how many were wanted of late.
        self._ready: dict[str, deque[str]] = {}
        self._wanted: Counter[str] = Counter()
        self._counted_from = 0.0
        self._making: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def of(cls, client: HostClient) -> Newborn:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(Vigil.of(client))
        return known

    @contextmanager
    def name(self, tenant: str) -> Iterator[str]:
        """A new id, around the call that starts its instance. Nobody can guess it, or has heard of it before."""
        instance_id = self._next(tenant)
        address = qualify(tenant, instance_id)
        self._addresses[address] = asyncio.get_running_loop().time()
        try:
            yield instance_id
        finally:
            # It may have been started in another process.
            self._addresses.pop(address, None)

    def _next(self, tenant: str) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._counted_from > _OF_LATE:
            self._counted_from = now
            self._wanted.clear()
        self._wanted[tenant] += 1
        ready = self._ready.get(tenant, ())
        while ready:
            instance_id = ready.popleft()
            if self._vigil.is_prepared(qualify(tenant, instance_id)):
                return instance_id
        if self._wanted[tenant] > _FEW and tenant not in self._making:
            # In a context of its own: it is not a part of the request that happens to be the one.
            self._making[tenant] = asyncio.get_running_loop().create_task(
                self._make(tenant, min(self._wanted.pop(tenant), _MANY)), context=contextvars.Context()
            )
        return str(uuid.uuid4())

    async def _make(self, tenant: str, count: int) -> None:
        made = [str(uuid.uuid4()) for _ in range(count)]
        try:
            await self._vigil.prepare([qualify(tenant, instance_id) for instance_id in made])
            self._ready[tenant] = deque(made)
        except HoldfastError as error:
            log.info("no ids were made ahead: %s", error)  # each is written down when it is started
        finally:
            del self._making[tenant]

    def claim(self, address: str) -> bool:
        """Whether it is one of these; once. Whoever asks again has to look: it may have been saved meanwhile.

        Here, or elsewhere: daprd (1.18.2) makes a call that a change of placement broke off again after a second.
        """
        made_up_at = self._addresses.pop(address, None)
        return made_up_at is not None and asyncio.get_running_loop().time() - made_up_at < _BEFORE_A_REPEAT
