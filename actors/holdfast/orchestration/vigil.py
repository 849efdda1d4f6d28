"""Somebody comes for an instance whose process died before it had told others what it owes them.

What an instance owes (its outbox, its line in the index) is told within moments of being saved, unless its process
dies. A reminder of its own would cost each instance a consensus write in Dapr's scheduler, and later a call, nearly
always for nothing. So the instances of a process are written down together, before they save, in an actor that lives
in the process: its one reminder looks after those that still owe something a little later, wherever it is by then.

Writing one down rewrites one page, whatever their number. A look goes through all that are written down: those that
came since the last, and those that still owed something then.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from dapr.actor import ActorInterface, Remindable

from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.identity import check_actor_id
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.pushpop.requests import Request
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
# Between two looks: instances that wait for something leave memory only when they were seen to.
LOOK_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_PAGES = "pages"
_ASKED_AT_ONCE = 200
# How long an actor that was not found nearby is put up with.
_SEARCH_SECONDS = 10.0


class Debtor(Protocol):
    """An instance in this process."""

    @property
    def address(self) -> str: ...

    def owes_nothing(self) -> bool:
        """Whether all of it is saved, and everybody has been told: False where that is not known."""
        ...

    def is_busy(self) -> bool:
        """Whether it does something just now: it may be telling others."""
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
        self._instances = Gatherer.of(client, ORCHESTRATION_TYPE)
        self._epoch = client.epoch
        self._actor_id: str | None = None
        self._search_at = 0.0
        self._finding = asyncio.Lock()
        #: By which actor of this process each of them is written down.
        self._written: dict[str, str] = {}
        #: Those of them that were here when they last came to owe something.
        self._here: dict[str, _Seen] = {}
        self._numbers = itertools.count()
        #: Those of them that left memory, and owed nothing.
        self._left: set[str] = set()
        #: Those of them that nobody has started yet.
        self._spare: set[str] = set()
        #: Those of them that were put off, and what they were known by then.
        self._waited_for: dict[str, int] = {}
        #: Those that are being asked what they owe.
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(_ASKED_AT_ONCE)

    @classmethod
    def of(cls, client: HostClient) -> Vigil:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    # For instances

    async def watch(self, debtor: Debtor) -> None:
        """When this returns, somebody will come for it. Whoever is about to owe something waits for this, and saves."""
        self._trust()
        address = debtor.address
        self._left.discard(address)
        self._spare.discard(address)
        if address not in self._written:
            await self._write_down(address)
        if address in self._written:
            self._here[address] = _Seen(weakref.ref(debtor), next(self._numbers))

    async def prepare(self, addresses: Sequence[str]) -> None:
        """Writes those down that are about to be started, together, so that none of them has to wait for it."""
        results = await asyncio.gather(*map(self._write_down, addresses), return_exceptions=True)
        # Of those that an actor elsewhere has, nobody would come to know here that they are crossed off.
        self._spare.update(address for address in addresses if address in self._written)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def is_prepared(self, address: str) -> bool:
        self._trust()
        return address in self._spare

    def left(self, debtor: Debtor) -> None:
        """It leaves memory, and owes nothing."""
        if debtor.address in self._written:
            self._left.add(debtor.address)

    # For the actors that write them down

    def note(self, actor_id: str, addresses: Iterable[str]) -> None:
        """They are written down by an actor of this process."""
        self._trust()
        for address in addresses:
            # Whoever had it written down may be in another process.
            self._forget(address)
            self._written[address] = actor_id

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

    def put_off(self, address: str) -> bool:
        """Whether nobody comes for it this time: it is here, and may be telling others just now. Only once for what it
        owes: whatever it does may never end."""
        self._trust()
        here = self._here.get(address)
        debtor = None if here is None else here.debtor()
        if here is None or debtor is None or self._waited_for.get(address) == here.number or not debtor.is_busy():
            return False
        self._waited_for[address] = here.number
        return True

    def has_paid(self, actor_id: str, address: str, number: int | None) -> bool:
        """Whether what it said when it had this number still counts. Asked in a turn that then crosses it off."""
        self._trust()
        if self._written.get(address) != actor_id:
            return True  # what it came to owe since then is written down elsewhere, or on a later page
        if self._number(address) != number:
            return False
        self._forget(address)
        return True

    def ask(self, actor_id: str, addresses: Iterable[str], before: int) -> None:
        """Has them tell others what they owe them; those that owe nothing are crossed off the pages before that one.

        Each by itself: one that does not answer keeps nobody from the others.
        """
        for address in addresses:
            if address not in self._asked:
                # In a context of its own: it is outside every turn.
                self._asked[address] = asyncio.get_running_loop().create_task(
                    self._ask(actor_id, address, before), context=contextvars.Context()
                )

    def lost(self, actor_id: str) -> None:
        """The actor is not in this process any more: what it crosses off is not heard of here."""
        for address in [address for address, by in self._written.items() if by == actor_id]:
            self._forget(address)

    async def _ask(self, actor_id: str, address: str, before: int) -> None:
        try:
            async with self._room, asyncio.timeout(_ANSWER_SECONDS):
                number = self._number(address)
                answer = await self._instances.call(address, "Wake")
            if answer.get("owes_nothing"):
                paid = {"instance": address, "number": number, "process": PROCESS, "before": before}
                await self._actors.call(actor_id, "Paid", dump(paid))
        except (HoldfastError, TimeoutError) as error:
            # It is asked again at the next look.
            log.info("%s may owe something, and does not answer: %s", address, error or "it took too long")
        except ReferenceError:
            pass  # its host is gone, and so is all that ran there
        finally:
            del self._asked[address]

    def _number(self, address: str) -> int | None:
        seen = self._here.get(address)
        return None if seen is None else seen.number

    def _forget(self, address: str) -> None:
        self._written.pop(address, None)
        self._here.pop(address, None)
        self._waited_for.pop(address, None)
        self._left.discard(address)
        self._spare.discard(address)

    def _trust(self) -> None:
        if self._epoch != self._client.epoch:
            self._epoch = self._client.epoch
            self._written.clear()
            self._here.clear()
            self._waited_for.clear()
            self._left.clear()
            self._spare.clear()

    async def _write_down(self, address: str) -> None:
        actor_id = await self._actor()
        try:
            answer = await self._actors.call(actor_id, "Watch", dump({"instance": address}))
        except HoldfastError:
            self._give_up(actor_id)
            raise
        if answer["process"] != PROCESS and asyncio.get_running_loop().time() >= self._search_at:
            # It was moved away: it looks after what it was told all the same, but is no longer ours to ask.
            self._give_up(actor_id)

    def _give_up(self, actor_id: str) -> None:
        if self._actor_id == actor_id:
            self._actor_id = None

    async def _actor(self) -> str:
        async with self._finding:
            if self._actor_id is None:
                nearby = await find_nearby(self._client, VIGIL_TYPE)
                if nearby is None:
                    # Any does, though of one elsewhere nobody knows here whom it has, so that it is told each time.
                    self._search_at = asyncio.get_running_loop().time() + _SEARCH_SECONDS
                self._actor_id = nearby or PROCESS
            return self._actor_id


class WatchRequest(Request):
    #: The id of its actor.
    instance: str


class PaidRequest(Request):
    instance: str
    #: What it was known by in the process that asked it.
    number: int | None
    process: str
    before: int


class VigilInterface(ActorInterface):
    @abstractmethod
    async def Where(self) -> str: ...

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """Many at once of ``Watch`` ``{instance}`` and ``Paid`` ``{instance, number, process, before}``.

        Answers ``{process}`` to each, which is where this is.
        """


class VigilActor(DurableActor, VigilInterface, Remindable):
    """Those that one process wrote down, in pages, and when it is to look after them next."""

    serves_turns = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: The first page that has nobody on it who was found owing: those that are written down go from there on.
        self._open: int | None = None

    async def Where(self) -> str:
        return PROCESS

    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        return await attend(self.host, VIGIL_TYPE, self.id.id, data, self._take)

    async def on_wake(self) -> None:
        async with self.work.turn() as turn:
            first, following, look_at = await self._pages(turn)
            if look_at is not None and look_at > self.now():
                turn.wake_at(look_at)
                return
            vigil = Vigil.of(self.host)
            pages = await self._read(turn, first, following)
            addresses = dict.fromkeys(address for page in pages.values() for address in page)
            owing = [address for address in addresses if not vigil.release(self.id.id, address)]
            for key in pages:
                turn.delete(key)
            first = following
            following = self._append(turn, first, following, owing)
            self._open = following
            self._put(turn, first, following, self.now() + LOOK_SECONDS if owing else None)
            await turn.save()
            turn.evict(*pages)
        vigil.ask(self.id.id, [address for address in owing if not vigil.put_off(address)], following)

    async def _on_deactivate(self) -> None:
        Vigil.of(self.host).lost(self.id.id)
        self.work.forget()

    async def _take(self, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        watched: dict[str, None] = {}
        paid: list[PaidRequest] = []
        for method, data in calls:
            if method == "Watch":
                watched[check_actor_id(WatchRequest.parse(data).instance)] = None
            elif method == "Paid":
                paid.append(PaidRequest.parse(data))
            else:
                raise InvalidRequest("Watch and Paid are all that can be asked here.")
        async with self.work.turn() as turn:
            await self._cross_off(turn, paid)
            await self._write_down(turn, list(watched))
            await turn.save()
            Vigil.of(self.host).note(self.id.id, watched)
        return {"replies": [{"process": PROCESS} for _ in calls]}

    async def _write_down(self, turn: Turn, addresses: list[str]) -> None:
        if not addresses:
            return
        first, following, look_at = await self._pages(turn)
        if self._open is None:
            self._open = following
        following = self._append(turn, max(first, self._open), following, addresses)
        turn.evict(*(_key(number) for number in range(first, following - 1)))
        self._put(turn, first, following, self.now() + LOOK_SECONDS if look_at is None else look_at)

    async def _cross_off(self, turn: Turn, paid: Sequence[PaidRequest]) -> None:
        if not paid:
            return
        vigil = Vigil.of(self.host)
        first, following, look_at = await self._pages(turn)
        before = min(max(request.before for request in paid), following)
        gone = {
            request.instance
            for request in paid
            if vigil.has_paid(self.id.id, request.instance, request.number if request.process == PROCESS else None)
        }
        for key, page in (await self._read(turn, first, before)).items():
            left = [address for address in page if address not in gone]
            if len(left) < len(page):
                turn.put(key, left or None)
        while first < following and not await turn.load(_key(first)):
            first += 1
        self._put(turn, first, following, look_at if first < following else None)

    def _append(self, turn: Turn, since: int, following: int, addresses: Sequence[str]) -> int:
        """To the last page, if that is one of those since then, and to new ones. Answers the one after the last."""
        left = list(addresses)
        if following > since:
            page: list[str] = turn.known_value(_key(following - 1)) or []
            room = PAGE - len(page)
            if page and room > 0:
                turn.put(_key(following - 1), page + left[:room])
                left = left[room:]
        for start in range(0, len(left), PAGE):
            turn.put(_key(following), left[start : start + PAGE])
            following += 1
        return following

    async def _read(self, turn: Turn, first: int, following: int) -> dict[str, list[str]]:
        keys = [_key(number) for number in range(first, following)]
        pages = await turn.load_all(*keys) if keys else []
        return {key: page for key, page in zip(keys, pages, strict=True) if page}

    async def _pages(self, turn: Turn) -> tuple[int, int, float | None]:
        """The first that there may be, the one after the last, and when they are looked at."""
        known = _PAGES in turn.known()
        # Numbers are not used again: what is said of an earlier page must not be taken for a later one's.
        unused = int(self.now() * 1000)
        first, following, look_at = await turn.load(_PAGES) or (unused, unused, None)
        if not known:
            turn.owes(look_at)
        return first, following, look_at

    def _put(self, turn: Turn, first: int, following: int, look_at: float | None) -> None:
        # Without any, nothing is left of it.
        if look_at is None:
            self._open = None
        pages = None if look_at is None else [first, following, look_at]
        if pages != turn.known_value(_PAGES):
            turn.put(_PAGES, pages)
        turn.wake_at(look_at)


def _key(number: int) -> str:
    return f"page-{number}"
