"""Somebody comes for an instance whose process died before it had told others what it owes them.

What an instance owes (its outbox, its line in the index) is told within moments of being saved, unless its process
dies. A reminder of its own would cost each instance a consensus write in Dapr's scheduler, and later a call, nearly
always for nothing. So the instances of a process are written down together, before they save, in an actor that lives
in the process: its one reminder looks after those that still owe something seconds later, wherever it is by then.

Writing one down rewrites one page, whatever their number; a look reads those that came since the last.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import weakref
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from dapr.actor import ActorInterface, Remindable

from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.identity import check_actor_id
from holdfast.orchestration.chronicle import RESEND_SECONDS
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.pushpop.requests import Request
from holdfast.runtime.errands import Errands
from holdfast.runtime.gather import Gatherer, attend
from holdfast.runtime.nearby import PROCESS, find_nearby
from holdfast.runtime.serialization import dump
from holdfast.runtime.work import DurableActor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.work import Turn

log = logging.getLogger(__name__)

VIGIL_TYPE = "VigilActor"
PAGE = 100
_PAGES = "pages"
_ASKED_AT_ONCE = 16


class Debtor(Protocol):
    """An instance in this process."""

    @property
    def address(self) -> str: ...

    def owes_nothing(self) -> bool:
        """Whether all of it is saved, and everybody has been told: False where that is not known."""
        ...


class _Seen(NamedTuple):
    debtor: weakref.ref[Debtor]
    #: Another one each time it is about to owe something.
    number: int


class Vigil:
    """What one process knows of those that are written down."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Vigil]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # The client keeps this, through the dictionary: held here, it would never go.
        self._client: HostClient = weakref.proxy(client)
        self._actors = Gatherer.of(client, VIGIL_TYPE)
        self._epoch = client.epoch
        self._actor_id: str | None = None
        self._finding = asyncio.Lock()
        #: By which actor of this process each of them is written down.
        self._written: dict[str, str] = {}
        #: Those that were here when they last came to owe something.
        self._here: dict[str, _Seen] = {}
        self._numbers = itertools.count()
        #: Those that have owed nothing since, and are not here to be asked.
        self._left: set[str] = set()
        #: Those of them that nobody has started yet.
        self._spare: set[str] = set()

    @classmethod
    def of(cls, client: HostClient) -> Vigil:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    async def watch(self, debtor: Debtor) -> None:
        """When this returns, somebody will come for it. Whoever is about to owe something waits for this, and saves."""
        self._trust()
        address = debtor.address
        self._left.discard(address)
        self._spare.discard(address)
        self._here[address] = _Seen(weakref.ref(debtor), next(self._numbers))
        if address not in self._written:
            await self._write_down(address)

    async def prepare(self, addresses: Sequence[str]) -> None:
        """Writes those down that are about to be started, together, so that none of them has to wait for it."""
        self._trust()
        self._spare.update(addresses)
        try:
            await asyncio.gather(*(self._write_down(address) for address in addresses))
        finally:
            # By an actor elsewhere, or by none: nobody would come to know here that they are crossed off.
            self._spare.intersection_update(self._written)

    def is_prepared(self, address: str) -> bool:
        self._trust()
        return address in self._spare and address in self._written

    def left(self, debtor: Debtor) -> None:
        """It leaves memory, and owes nothing."""
        if debtor.address in self._written:
            self._left.add(debtor.address)

    def seen(self, address: str) -> int | None:
        """What changes when it is about to owe something."""
        seen = self._here.get(address)
        return None if seen is None else seen.number

    def paid(self, address: str, seen: int | None) -> None:
        """It said that it owes nothing; that counts if it came to nothing else since it was asked."""
        if self.seen(address) == seen:
            self._left.add(address)

    def note(self, actor_id: str, addresses: Iterable[str]) -> None:
        """They are written down by an actor of this process."""
        self._trust()
        self._written |= dict.fromkeys(addresses, actor_id)

    def release(self, actor_id: str, address: str) -> bool:
        """Whether this actor need not look after it any more. It is asked in a turn that then crosses it off."""
        self._trust()
        written_by = self._written.get(address)
        if written_by not in (None, actor_id):
            return True  # another has it, which was told later
        here = self._here.get(address)
        debtor = None if here is None else here.debtor()
        is_over = address in self._left or address in self._spare
        if not (is_over or (debtor is not None and debtor.owes_nothing())):
            return False
        self._forget(address)
        return True

    def lost(self, actor_id: str) -> None:
        """The actor is not in this process any more: what it crosses off is not heard of here."""
        for address in [address for address, by in self._written.items() if by == actor_id]:
            self._forget(address)
        self._left.intersection_update(self._written)

    def _forget(self, address: str) -> None:
        self._written.pop(address, None)
        self._here.pop(address, None)
        self._left.discard(address)
        self._spare.discard(address)

    def _trust(self) -> None:
        if self._epoch != self._client.epoch:
            self._epoch = self._client.epoch
            self._written.clear()
            self._here.clear()
            self._left.clear()
            self._spare.clear()

    async def _write_down(self, address: str) -> None:
        answer = await self._actors.call(await self._actor(), "Watch", dump({"instance": address}))
        if answer["process"] != PROCESS:
            # It was moved away: it looks after what it was told all the same, but is no longer ours to ask.
            self._actor_id = None

    async def _actor(self) -> str:
        async with self._finding:
            if self._actor_id is None:
                # Any does: of one elsewhere nobody knows here whom it has, so it is told each time.
                self._actor_id = await find_nearby(self._client, VIGIL_TYPE) or PROCESS
            return self._actor_id


class WatchRequest(Request):
    #: The id of its actor.
    instance: str


class VigilInterface(ActorInterface):
    @abstractmethod
    async def Where(self) -> str: ...

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """``Watch`` ``{instance}``, many at once. Answers ``{process}``, which is where this is."""


class VigilActor(DurableActor, VigilInterface, Remindable):
    """Those that one process wrote down, in pages, and when it is to look after them next."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._errands = Errands(f"vigil {self.id.id}")

    async def Where(self) -> str:
        return PROCESS

    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        return await attend(self.host, VIGIL_TYPE, self.id.id, data, self._write_down)

    async def on_wake(self) -> None:
        async with self.work.turn() as turn:
            first, following, look_at = await self._pages(turn)
            if look_at is not None and look_at > self.now():
                turn.wake_at(look_at)
                return
            keys = [_key(number) for number in range(first, following)]
            pages: list[list[str] | None] = await turn.load_all(*keys) if keys else []
            vigil = Vigil.of(self.host)
            addresses = dict.fromkeys(address for page in pages for address in page or ())
            owing = [address for address in addresses if not vigil.release(self.id.id, address)]
            for key in keys:
                turn.delete(key)
            for start in range(0, len(owing), PAGE):
                turn.put(_key(following), owing[start : start + PAGE])
                following += 1
            kept = -(-len(owing) // PAGE)
            self._put(turn, following - kept, following, self.now() + RESEND_SECONDS if owing else None)
            await turn.save()
            turn.evict(*keys)
        if owing:
            self._errands.start("asking", partial(self._ask_all, owing))

    async def _on_deactivate(self) -> None:
        await self._errands.close()
        Vigil.of(self.host).lost(self.id.id)
        self.work.forget()

    async def _write_down(self, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        if any(method != "Watch" for method, _ in calls):
            raise InvalidRequest("Watch is all that can be asked here.")
        addresses = list(dict.fromkeys(check_actor_id(WatchRequest.parse(data).instance) for _, data in calls))
        async with self.work.turn() as turn:
            first, following, look_at = await self._pages(turn)
            page: list[str] = await turn.load(_key(following - 1)) or [] if following > first else []
            if following == first or len(page) + len(addresses) > PAGE:
                page = []
                following += 1
            turn.put(_key(following - 1), page + addresses)
            self._put(turn, first, following, self.now() + RESEND_SECONDS if look_at is None else look_at)
            await turn.save()
            turn.evict(*(_key(number) for number in range(first, following - 1)))
            Vigil.of(self.host).note(self.id.id, addresses)
        return {"replies": [{"process": PROCESS} for _ in calls]}

    async def _pages(self, turn: Turn) -> tuple[int, int, float | None]:
        """The first that there may be, the one after the last, and when they are looked at."""
        known = _PAGES in turn.known()
        first, following, look_at = await turn.load(_PAGES) or (0, 0, None)
        if not known:
            turn.owes(look_at)
        return first, following, look_at

    def _put(self, turn: Turn, first: int, following: int, look_at: float | None) -> None:
        # Without any, nothing is left of it.
        pages = None if look_at is None else [first, following, look_at]
        if pages != turn.known_value(_PAGES):
            turn.put(_PAGES, pages)
        turn.wake_at(look_at)

    async def _ask_all(self, owing: Sequence[str]) -> None:
        room = asyncio.Semaphore(_ASKED_AT_ONCE)
        await asyncio.gather(*(self._ask(room, address) for address in owing))

    async def _ask(self, room: asyncio.Semaphore, address: str) -> None:
        """It tells others what it owes them. Whoever does not answer is asked at the next look again."""
        vigil = Vigil.of(self.host)
        async with room:
            seen = vigil.seen(address)
            try:
                answer = await Gatherer.of(self.host, ORCHESTRATION_TYPE).call(address, "Wake")
            except HoldfastError as error:
                log.info("%s may owe something, and does not answer: %s", address, error)
                return
        if answer.get("owes_nothing"):
            vigil.paid(address, seen)


def _key(number: int) -> str:
    return f"page-{number}"
