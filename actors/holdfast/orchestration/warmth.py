"""Which instances stay in memory between their turns: those that were used last.

The others give back all that is saved of them, and their code, which is brought back from its history when it is
wanted. So the memory of a process follows what goes on in it, not how many instances wait for something.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

MOST = 2000
# How many of those used longest ago are looked at for each that is used.
_LOOKED_AT = 4


class Coolable(Protocol):
    def cool(self) -> bool:
        """Gives its memory back; False when something in it is not saved, or goes on just now."""
        ...


class Warmth:
    """Of one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Warmth]] = weakref.WeakKeyDictionary()

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # Weakly: one that leaves memory by itself is not kept by this.
        self._warm: OrderedDict[weakref.ref[Coolable], None] = OrderedDict()

    @classmethod
    def of(cls, client: HostClient) -> Warmth:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls()
        return known

    def used(self, instance: Coolable) -> None:
        mark = weakref.ref(instance)
        self._warm[mark] = None
        self._warm.move_to_end(mark)
        for oldest in list(islice(self._warm, max(0, min(_LOOKED_AT, len(self._warm) - self._most)))):
            warm = oldest()
            if warm is None or warm.cool():
                del self._warm[oldest]
            else:
                # So that it does not keep others from being looked at.
                self._warm.move_to_end(oldest)

    def left(self, instance: Coolable) -> None:
        self._warm.pop(weakref.ref(instance), None)
