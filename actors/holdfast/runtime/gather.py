"""Requests for one actor that come while it is busy travel together: one call, one turn, one transaction.

Nothing waits to be gathered. A request for an idle actor goes at once; those that come until it returns go next.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import secrets
import weakref
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import orjson

from holdfast.errors import InvalidRequest, Unavailable
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.contract import HostClient

#: Instead of an answer, when that would have grown too large together with those before it: to come again.
LATER = {"later": True}

# Bounds what one turn does, and with it how long the others wait.
MOST_CALLS = 200
MOST_BYTES = 4 * 1024 * 1024
# How long an actor waits for what its own process asks next, in seconds: when nothing is known to be on its way, and
# when something is.
PATIENCE = 0.05
EXPECTING_PATIENCE = 0.25
# How long it is held for others in all. Another process waits that long at worst, for an actor whose own process has
# more for it all the time; with less, many short orchestrations at once would need a second call each.
LONGEST_VISIT = 0.5


class _Call(NamedTuple):
    method: str
    data: bytes
    answer: asyncio.Future[dict[str, Any]]


def _heard_by_nobody(actor_id: str, reply: dict[str, Any]) -> None:
    pass


class Gatherer:
    """Calls actors of one type that have a ``Batch`` method.

    ``heard`` is told, before the callers are, what each reply says of its actor.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, dict[str, Gatherer]]] = weakref.WeakKeyDictionary()

    def __init__(
        self, client: HostClient, actor_type: str, heard: Callable[[str, dict[str, Any]], None] = _heard_by_nobody
    ) -> None:
        self._client = client
        self._actor_type = actor_type
        self._heard = heard
        self._waiting: dict[str, deque[_Call]] = {}
        self._riders: dict[str, _Call] = {}
        #: Set when something comes for an actor that waits for it, or is no longer to be expected.
        self._come: dict[str, asyncio.Future[None]] = {}
        #: How much is under way in this process that ends in a call to an actor, and how long one waits for it.
        self._expected: Counter[str] = Counter()
        self._expected_until: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, client: HostClient, actor_type: str) -> Gatherer:
        """The one that all share who call these actors from inside this process."""
        gatherers = cls._of.setdefault(client, {})
        if actor_type not in gatherers:
            # The client keeps this, through the dictionary: held here, it would never go.
            gatherers[actor_type] = cls(weakref.proxy(client), actor_type)
        return gatherers[actor_type]

    async def call(self, actor_id: str, method: str, data: bytes = b"null") -> dict[str, Any]:
        """``data`` is JSON, already checked to be so: a broken call would break the others."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        call = _Call(method, data, answer)
        waiting = self._waiting.get(actor_id)
        if waiting is None:
            waiting = self._waiting[actor_id] = deque([call])
            # A context of its own: it serves many requests, and belongs to none.
            task = asyncio.get_running_loop().create_task(self._serve(actor_id, waiting), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append(call)
            self._rouse(actor_id)
        return await answer

    def expecting(self, actor_id: str) -> _Expecting:
        """Around work that will end in a call to this actor: a visit to it stays for that, if it does not take long."""
        return _Expecting(self, actor_id)

    def ride(self, actor_id: str, method: str, data: bytes) -> asyncio.Future[dict[str, Any]]:
        """A call that costs no turn of its own: it goes with the next others for this actor, after them.

        One for each actor. Whoever no longer wants it takes it :meth:`back`.
        """
        if actor_id in self._riders:
            raise RuntimeError(f"somebody rides to {actor_id} already")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._riders[actor_id] = _Call(method, data, answer)
        return answer

    def back(self, actor_id: str, answer: asyncio.Future[dict[str, Any]]) -> bool:
        """Takes the call back that waits for others; False when it does not, because it is under way."""
        rider = self._riders.get(actor_id)
        if rider is None or rider.answer is not answer:
            return False
        del self._riders[actor_id]
        return True

    def _rouse(self, actor_id: str) -> None:
        if (come := self._come.get(actor_id)) is not None:
            _rouse(come)

    async def _serve(self, actor_id: str, waiting: deque[_Call]) -> None:
        try:
            while waiting:
                if calls := self._take(actor_id):
                    await self._send(actor_id, calls)
        finally:
            del self._waiting[actor_id]

    async def _send(self, actor_id: str, calls: list[_Call]) -> None:
        visit = _Visit(self, actor_id, calls)
        _visits[visit.name] = visit
        try:
            body = {"calls": [{"method": call.method, "data": orjson.Fragment(call.data)} for call in calls]}
            answer = await self._client.invoke_method(
                self._actor_type, actor_id, "Batch", dump(body | {"visit": visit.name})
            )
            if not visit.heard:
                visit.hear(load(answer))
        except asyncio.CancelledError:
            if not visit.broken_off or visit.caller.uncancel():
                raise
        except Exception as error:
            # Each caller hears of it, and is the one to answer for it.
            visit.fail(error)
        finally:
            del _visits[visit.name]
            # Of a turn that was broken off, though its call came to an end.
            visit.fail(Unavailable())

    def _take(self, actor_id: str) -> list[_Call]:
        """The next to go together; those whose callers went away are left out."""
        waiting = self._waiting[actor_id]
        taken: list[_Call] = []
        size = 0
        while waiting and len(taken) < MOST_CALLS:
            size += len(waiting[0].data)
            if taken and size > MOST_BYTES:
                break
            call = waiting.popleft()
            if not call.answer.done():
                taken.append(call)
        if taken and (rider := self._riders.pop(actor_id, None)):
            taken.append(rider)
        return taken


class _Expecting:
    """A class, as every activity goes through here twice: a generator takes three times as long."""

    def __init__(self, gatherer: Gatherer, actor_id: str) -> None:
        self._gatherer = gatherer
        self._actor_id = actor_id

    def __enter__(self) -> None:
        gatherer = self._gatherer
        gatherer._expected[self._actor_id] += 1
        gatherer._expected_until[self._actor_id] = asyncio.get_running_loop().time() + EXPECTING_PATIENCE

    def __exit__(self, *failure: object) -> None:
        gatherer, actor_id = self._gatherer, self._actor_id
        gatherer._expected[actor_id] -= 1
        if not gatherer._expected[actor_id]:
            del gatherer._expected[actor_id], gatherer._expected_until[actor_id]
            gatherer._rouse(actor_id)


class _Visit:
    """One call to an actor. As long as it has not come back, an actor in this process hears here what comes next."""

    def __init__(self, gatherer: Gatherer, actor_id: str, calls: list[_Call]) -> None:
        self.name = f"{_SECRET}-{next(_numbers)}"
        self.heard = False
        self.broken_off = False
        self.caller = cast("asyncio.Task[None]", asyncio.current_task())
        self._gatherer = gatherer
        self._actor_id = actor_id
        self._calls = calls

    def is_to(self, actor_type: str, actor_id: str) -> bool:
        return (self._gatherer._actor_type, self._actor_id) == (actor_type, actor_id)

    def hear(self, reply: dict[str, Any]) -> None:
        answered = list(zip(self._calls, reply["replies"], strict=True))
        self.heard = True
        self._gatherer._heard(self._actor_id, reply)
        self._calls = []
        for call, answer in answered:
            if answer != LATER and not call.answer.done():
                call.answer.set_result(answer)
        waiting = self._gatherer._waiting[self._actor_id]
        waiting.extendleft(call for call, answer in reversed(answered) if answer == LATER)

    def fail(self, error: Exception) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(error)

    def break_off(self) -> None:
        """The actor was taken away. daprd (1.18.2) makes a call again that this broke off, though it was answered."""
        if self.name in _visits:
            self.broken_off = True
            self.caller.cancel()

    def decline(self) -> None:
        """What was taken last goes the way of all calls."""
        self._gatherer._waiting[self._actor_id].extendleft(reversed(self._calls))
        self._calls = []

    async def more(self, until: float, patience: float, holds: Callable[[], bool]) -> list[_Call]:
        """What has come for the actor meanwhile, or comes in time."""
        loop = asyncio.get_running_loop()
        gatherer, actor_id = self._gatherer, self._actor_id
        patient_until = min(until, loop.time() + patience)
        while self.name in _visits and loop.time() < until:
            if calls := gatherer._take(actor_id):
                self._calls = calls
                return calls
            stays_until = max(patient_until, min(until, gatherer._expected_until.get(actor_id, 0.0)))
            if loop.time() >= stays_until or not holds():
                break
            come = gatherer._come[actor_id] = loop.create_future()
            # Now and then it is seen whether the actor is still here.
            over = loop.call_at(min(stays_until, loop.time() + PATIENCE), _rouse, come)
            try:
                await come
            finally:
                over.cancel()
                if gatherer._come.get(actor_id) is come:
                    del gatherer._come[actor_id]
        return []


def _rouse(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


_visits: dict[str, _Visit] = {}
# Nobody can guess the name of a visit, so nobody else can answer for the actor.
_SECRET = secrets.token_hex(16)
_numbers = itertools.count()


async def attend(
    client: HostClient,
    actor_type: str,
    actor_id: str,
    data: Any,
    turn: Callable[[list[tuple[str, Any]]], Awaitable[dict[str, Any]]],
    *,
    patience: float = PATIENCE,
    longest: float = LONGEST_VISIT,
) -> dict[str, Any]:
    """The ``Batch`` method of an actor: a turn for all these calls.

    Where those who call are in the actor's own process, they are answered at once, and what they ask next, while the
    call is still open, has a turn too, without a call of its own: on Dapr that costs as much as the turn. The actor is
    held for others meanwhile, so it waits no longer than ``patience`` for what nobody says is on its way, and begins
    no turn when it has been held for ``longest``.
    """
    calls = data.get("calls") if isinstance(data, dict) else None
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise InvalidRequest("calls: a list of objects with method and data")
    clock = asyncio.get_running_loop().time
    until = clock() + longest
    first = await turn([(call.get("method", ""), call.get("data")) for call in calls])
    visit = _visits.get(str(data.get("visit")))
    if visit is None or not visit.is_to(actor_type, actor_id):
        return first
    # As one that came over the wire: no answer is whoever gave it's any more.
    visit.hear(load(dump(first)))
    while client.holds() and (more := await visit.more(until, patience, client.holds)):
        if not client.holds():
            visit.decline()
            break
        try:
            visit.hear(load(dump(await turn([(call.method, load(call.data)) for call in more]))))
        except Exception as error:
            visit.fail(error)
            break
    if not client.holds():
        visit.break_off()
    return first
