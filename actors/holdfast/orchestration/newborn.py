"""Instances whose ids this process has just made up: of these nothing can be stored, so nothing has to be read."""

from __future__ import annotations

import uuid
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from holdfast.identity import qualify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.runtime.contract import HostClient


class Newborn:
    """Those of one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Newborn]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self._addresses: set[str] = set()

    @classmethod
    def of(cls, client: HostClient) -> Newborn:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls()
        return known

    @contextmanager
    def name(self, tenant: str) -> Iterator[str]:
        """A new id, around the call that starts its instance. Nobody can guess it, or has heard of it before."""
        instance_id = str(uuid.uuid4())
        address = qualify(tenant, instance_id)
        self._addresses.add(address)
        try:
            yield instance_id
        finally:
            # It may have been started in another process.
            self._addresses.discard(address)

    def claim(self, address: str) -> bool:
        """Whether it is one of these; once. Whoever asks again has to look: it may have been saved meanwhile."""
        if address not in self._addresses:
            return False
        self._addresses.discard(address)
        return True
