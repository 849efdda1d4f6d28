"""Recovers instances whose process crashed between saving and dispatching their outbox.

An instance dispatches its outbox and its index entry right after saving them, unless its process crashes. A reminder
per instance would cost a consensus write in Dapr's scheduler and a call later, nearly always for nothing. Instead, the
instances of a process register, before they save, with one rescuer actor in the same process. The single reminder of
the rescuer scans the registered instances a little later, wherever the rescuer is by then, and calls those that have
not settled.

Registering rewrites one page, whatever the number of instances. A scan goes through all registered instances: the new
ones, and those that had not settled at the previous scan.
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
from holdfast.kinds import ORCHESTRATION_TYPE, RESCUER_TYPE
from holdfast.logs import message_of
from holdfast.names import check_actor_id
from holdfast.orchestration.log_fields import about_instance
from holdfast.pushpop.api.requests import Request
from holdfast.runtime.batching import CallBatcher, serve_session
from holdfast.runtime.local_actors import PROCESS_ID, find_local
from holdfast.runtime.serialization import dump
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.unit_of_work import Turn

log = logging.getLogger(__name__)

PAGE = 100
# The time between two scans. A scan makes waiting instances save their arrived effects, so that they can be evicted.
SCAN_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_PAGES = "pages"
_RESCUES_AT_ONCE = 200
# How long a remote rescuer is used before a local one is searched again.
_SEARCH_SECONDS = 10.0


class Tracked(Protocol):
    """An instance in this process that may have an undispatched outbox."""

    @property
    def address(self) -> str: ...

    def is_settled(self) -> bool:
        """Returns whether all state is saved and all effects are dispatched; False if that is not known."""
        ...

    def is_busy(self) -> bool:
        """Returns whether a turn or a dispatch is in progress."""
        ...

    def rests_until(self) -> float:
        """Returns when refused effects are sent again; 0 when the instance has other work to do."""
        ...


class _Registration(NamedTuple):
    instance: weakref.ref[Tracked]
    #: Changes with each registration, so that an outdated reply of the instance is recognised.
    number: int


class RescueList:
    """The registered instances of one process, as known in this process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, RescueList]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # Weak, because the dictionary ties this object to the client: a strong reference would keep the client alive.
        self._client: HostClient = weakref.proxy(client)
        self._actors = CallBatcher.of(client, RESCUER_TYPE)
        self._instances = CallBatcher.of(client, ORCHESTRATION_TYPE)
        self._epoch = client.epoch
        self._actor_id: str | None = None
        self._search_at = 0.0
        self._finding = asyncio.Lock()
        #: The local rescuer that each instance is registered with.
        self._registered: dict[str, str] = {}
        #: Registered instances that were in this process when they registered last.
        self._local: dict[str, _Registration] = {}
        self._numbers = itertools.count()
        #: Registered instances that were settled when they were evicted.
        self._evicted: set[str] = set()
        #: Instances registered ahead that are not started yet.
        self._prepared: set[str] = set()
        #: Busy instances that a scan has skipped, and their numbers at that time.
        self._deferred: dict[str, int] = {}
        #: The running ``Rescue`` calls.
        self._rescues: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(_RESCUES_AT_ONCE)

    @classmethod
    def of(cls, client: HostClient) -> RescueList:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    # For instances

    async def watch(self, instance: Tracked) -> None:
        """Registers an instance for recovery. Call it before saving an outbox; recovery is guaranteed on return."""
        self._check_epoch()
        address = instance.address
        self._evicted.discard(address)
        self._prepared.discard(address)
        if address not in self._registered:
            await self._register(address)
        self.is_back(instance)

    def is_back(self, instance: Tracked) -> None:
        """Notes that a registered instance is in memory and dispatches by itself, so that scans may skip it."""
        if instance.address in self._registered:
            self._local[instance.address] = _Registration(weakref.ref(instance), next(self._numbers))

    async def prepare(self, addresses: Sequence[str]) -> None:
        """Registers instances that will be started soon, together, so that their starts need not wait for it."""
        results = await asyncio.gather(*map(self._register, addresses), return_exceptions=True)
        # Only those registered with a local rescuer: this process cannot see what a remote one removes.
        self._prepared.update(address for address in addresses if address in self._registered)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def is_prepared(self, address: str) -> bool:
        self._check_epoch()
        return address in self._prepared

    def left(self, instance: Tracked) -> None:
        """Notes that a settled instance is evicted."""
        if instance.address in self._registered:
            self._evicted.add(instance.address)

    # For the rescuers

    def note(self, actor_id: str, addresses: Iterable[str]) -> None:
        """Notes that these instances are registered with a rescuer of this process."""
        self._check_epoch()
        for address in addresses:
            # The instance that registered may be in another process.
            self._forget(address)
            self._registered[address] = actor_id

    def release(self, actor_id: str, address: str) -> bool:
        """Returns whether the rescuer can remove an instance, which is forgotten here. Called in that turn."""
        self._check_epoch()
        registered_with = self._registered.get(address)
        if registered_with not in (None, actor_id):
            return True  # it has registered with another rescuer since
        registration = self._local.get(address)
        instance = None if registration is None else registration.instance()
        is_over = address in self._evicted or address in self._prepared
        if not (is_over or (instance is not None and instance.is_settled())):
            return False
        self._forget(address)
        return True

    def defer_once(self, address: str) -> bool:
        """Returns whether this scan skips an instance, because it is in memory and may be dispatching now.

        A busy instance is skipped only once per registration, because its work may never end.
        """
        self._check_epoch()
        registration = self._local.get(address)
        instance = None if registration is None else registration.instance()
        if instance is not None and instance.rests_until() > self._client.now():
            # A queue may be full for hours: calling each instance that waits for it at each scan would be useless.
            return True
        if (
            registration is None
            or instance is None
            or self._deferred.get(address) == registration.number
            or not instance.is_busy()
        ):
            return False
        self._deferred[address] = registration.number
        return True

    def mark_settled(self, actor_id: str, address: str, number: int | None) -> bool:
        """Returns whether a settled instance can be removed: it has not registered again since it had ``number``."""
        self._check_epoch()
        if self._registered.get(address) != actor_id:
            return True  # it has registered again since, with another rescuer or on a later page
        if self._number(address) != number:
            return False
        self._forget(address)
        return True

    def ask(self, actor_id: str, addresses: Iterable[str], before: int) -> None:
        """Calls ``Rescue`` on the instances. Settled ones are removed from the pages before ``before``.

        Each call is a task of its own, so that an instance that does not answer delays no other.
        """
        for address in addresses:
            if address not in self._rescues:
                # In an empty context: the task does not belong to the current turn.
                self._rescues[address] = asyncio.get_running_loop().create_task(
                    self._rescue(actor_id, address, before), context=contextvars.Context()
                )

    def lost(self, actor_id: str) -> None:
        """Forgets the instances of a rescuer that has left this process, which cannot see its removals any more."""
        for address in [address for address, by in self._registered.items() if by == actor_id]:
            self._forget(address)

    async def _rescue(self, actor_id: str, address: str, before: int) -> None:
        try:
            async with self._room, asyncio.timeout(_ANSWER_SECONDS):
                number = self._number(address)
                answer = await self._instances.call(address, "Rescue")
            if answer.get("owes_nothing"):
                settled = {"instance": address, "number": number, "process": PROCESS_ID, "before": before}
                await self._actors.call(actor_id, "Settled", dump(settled))
        except (HoldfastError, TimeoutError) as error:
            log.info(
                "orchestration %s: recovery failed, retrying at the next scan: %s",
                *(address, message_of(error)),
                extra=about_instance(address),
            )
        except ReferenceError:
            pass  # the host has been closed
        finally:
            del self._rescues[address]

    def _number(self, address: str) -> int | None:
        registration = self._local.get(address)
        return None if registration is None else registration.number

    def _forget(self, address: str) -> None:
        self._registered.pop(address, None)
        self._local.pop(address, None)
        self._deferred.pop(address, None)
        self._evicted.discard(address)
        self._prepared.discard(address)

    def _check_epoch(self) -> None:
        if self._epoch != self._client.epoch:
            self._epoch = self._client.epoch
            self._registered.clear()
            self._local.clear()
            self._deferred.clear()
            self._evicted.clear()
            self._prepared.clear()

    async def _register(self, address: str) -> None:
        actor_id = await self._actor()
        try:
            answer = await self._actors.call(actor_id, "Watch", dump({"instance": address}))
        except HoldfastError:
            self._drop_rescuer(actor_id)
            raise
        if answer["process"] != PROCESS_ID and asyncio.get_running_loop().time() >= self._search_at:
            # The rescuer has moved to another process. It keeps its registrations, but we look for a local one.
            self._drop_rescuer(actor_id)

    def _drop_rescuer(self, actor_id: str) -> None:
        if self._actor_id == actor_id:
            self._actor_id = None

    async def _actor(self) -> str:
        async with self._finding:
            if self._actor_id is None:
                nearby = await find_local(self._client, RESCUER_TYPE)
                if nearby is None:
                    # Any rescuer works, but we cannot see what a remote one holds, so we register on every save.
                    self._search_at = asyncio.get_running_loop().time() + _SEARCH_SECONDS
                self._actor_id = nearby or PROCESS_ID
            return self._actor_id


class WatchRequest(Request):
    #: The id of the instance's actor.
    instance: str


class SettledRequest(Request):
    instance: str
    #: The number of its registration in the process that called it.
    number: int | None
    process: str
    before: int


class RescuerInterface(ActorInterface):
    @abstractmethod
    async def ProcessId(self) -> str: ...

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """Makes a batch of calls: ``Watch`` ``{instance}`` and ``Settled`` ``{instance, number, process, before}``.

        Returns ``{process}`` for each: the id of the rescuer's process.
        """


class RescuerActor(InternalActor, RescuerInterface, Remindable):
    """The registered instances of one process, in pages, and the time of the next scan."""

    exact_numbers = False

    serves_turns = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: The first page without instances of an earlier scan: new registrations go there or behind it.
        self._open: int | None = None

    async def ProcessId(self) -> str:
        return PROCESS_ID

    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        return await serve_session(self.host, RESCUER_TYPE, self.id.id, data, self._take)

    async def on_wake(self) -> None:
        async with self.work.turn() as turn:
            first, following, scan_at = await self._pages(turn)
            if scan_at is not None and scan_at > self.now():
                turn.wake_at(scan_at)
                return
            rescue_list = RescueList.of(self.host)
            pages = await self._read(turn, first, following)
            addresses = dict.fromkeys(address for page in pages.values() for address in page)
            unsettled = [address for address in addresses if not rescue_list.release(self.id.id, address)]
            for key in pages:
                turn.delete(key)
            first = following
            following = self._append(turn, first, following, unsettled)
            self._open = following
            self._put(turn, first, following, self.now() + SCAN_SECONDS if unsettled else None)
            await turn.save()
            turn.evict(*pages)
        rescue_list.ask(
            self.id.id, [address for address in unsettled if not rescue_list.defer_once(address)], following
        )

    async def _on_deactivate(self) -> None:
        RescueList.of(self.host).lost(self.id.id)
        self.work.forget()

    async def _take(self, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        watched: dict[str, None] = {}
        settled: list[SettledRequest] = []
        for method, data in calls:
            if method == "Watch":
                watched[check_actor_id(WatchRequest.parse(data).instance)] = None
            elif method == "Settled":
                settled.append(SettledRequest.parse(data))
            else:
                raise InvalidRequest(f"There is no method {method}: only Watch and Settled are supported.")
        async with self.work.turn() as turn:
            await self._remove_settled(turn, settled)
            await self._register(turn, list(watched))
            await turn.save()
            RescueList.of(self.host).note(self.id.id, watched)
        return {"replies": [{"process": PROCESS_ID} for _ in calls]}

    async def _register(self, turn: Turn, addresses: list[str]) -> None:
        if not addresses:
            return
        first, following, scan_at = await self._pages(turn)
        if self._open is None:
            self._open = following
        following = self._append(turn, max(first, self._open), following, addresses)
        turn.evict(*(_key(number) for number in range(first, following - 1)))
        self._put(turn, first, following, self.now() + SCAN_SECONDS if scan_at is None else scan_at)

    async def _remove_settled(self, turn: Turn, settled: Sequence[SettledRequest]) -> None:
        if not settled:
            return
        rescue_list = RescueList.of(self.host)
        first, following, scan_at = await self._pages(turn)
        before = min(max(request.before for request in settled), following)
        removed = {
            request.instance
            for request in settled
            if rescue_list.mark_settled(
                self.id.id, request.instance, request.number if request.process == PROCESS_ID else None
            )
        }
        for key, page in (await self._read(turn, first, before)).items():
            left = [address for address in page if address not in removed]
            if len(left) < len(page):
                turn.put(key, left or None)
        while first < following and not await turn.load(_key(first)):
            first += 1
        self._put(turn, first, following, scan_at if first < following else None)

    def _append(self, turn: Turn, since: int, following: int, addresses: Sequence[str]) -> int:
        """Appends to the last page, if its number is at least ``since``, and to new pages. Returns the next number."""
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
        """Returns the number of the first page, the number after the last page, and the time of the next scan."""
        known = _PAGES in turn.known()
        # Numbers are not reused: a late ``Settled`` for an earlier page must not apply to a new one.
        unused = int(self.now() * 1000)
        first, following, scan_at = await turn.load(_PAGES) or (unused, unused, None)
        if not known:
            turn.owes(scan_at)
        return first, following, scan_at

    def _put(self, turn: Turn, first: int, following: int, scan_at: float | None) -> None:
        # When no instance is registered, the actor deletes its state.
        if scan_at is None:
            self._open = None
        pages = None if scan_at is None else [first, following, scan_at]
        if pages != turn.known_value(_PAGES):
            turn.put(_PAGES, pages)
        turn.wake_at(scan_at)


def _key(number: int) -> str:
    return f"page-{number}"
