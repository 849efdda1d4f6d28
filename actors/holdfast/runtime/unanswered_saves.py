"""Saves whose outcome is unknown, and how they are settled before the actor continues.

A save that the host gave up on (a time-out, a broken connection) may still be committed: PostgreSQL finishes a commit
that has begun, after the client has disconnected. An actor that read its state meanwhile, and then wrote a part of it,
would mix two versions: its reads are from before that commit, and the values it did not write are from after it.

So the next turn first reads the values that the save would have changed, and writes them back as they were read
(``UnitOfWork``). A save in progress holds the locks of its rows, so that write waits for it, and then undoes it as a
whole; a save that was committed before the read stays as a whole. Afterwards no part of it is in progress in the store.
Dapr 1.18.2 has no fence for this: a transaction of actor state honours an ETag, but no call returns the ETag of a
value.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.runtime.contract import ActorAddress

# In a long outage every actor that is called may have one; beyond this number the oldest are not settled.
MOST = 100_000


class UnansweredSaves:
    """The keys that such saves would have changed, by actor. They outlive the actor's activation."""

    def __init__(self) -> None:
        self._keys: OrderedDict[ActorAddress, dict[str, None]] = OrderedDict()

    def __contains__(self, address: ActorAddress) -> bool:
        return address in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def note(self, address: ActorAddress, keys: Iterable[str]) -> None:
        self._keys.setdefault(address, {}).update(dict.fromkeys(keys))
        while len(self._keys) > MOST:
            self._keys.popitem(last=False)

    def keys_of(self, address: ActorAddress) -> list[str]:
        """Returns the keys in the order of the saves: transactions that lock rows in different orders deadlock."""
        return list(self._keys[address])

    def settled(self, address: ActorAddress) -> None:
        self._keys.pop(address, None)
