"""Batches calls to one actor: calls that arrive while it is busy share one call, one turn and one transaction.

No call is delayed for the sake of a batch. A call to an idle actor is sent at once; calls that arrive until it returns
are sent next.
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

from holdfast.errors import InvalidRequest, TooLarge, Unavailable
from holdfast.runtime.serialization import dump, load
from holdfast.wire.deferred import DEFERRED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.contract import HostClient

#: The actor method that runs several calls.
BATCH = "Batch"

# Bounds the work of one turn, and with it how long other calls wait.
MAX_CALLS = 200
MAX_BYTES = 1024 * 1024
# Above this size, other tasks run between reading a batch and its turn.
_SLOW = 256 * 1024
# How long, in seconds, an actor keeps a session open for the next call from its own process: without a call that is
# known to come, and with one.
SESSION_IDLE_SECONDS = 0.05
EXPECTED_CALL_SECONDS = 0.25
# How long a session holds the actor in all. Another process waits at most that long for an actor whose own process
# keeps calling it; with less, many short orchestrations at once would need a second call each.
MAX_SESSION_SECONDS = 0.5


class _Call(NamedTuple):
    method: str
    data: bytes
    answer: asyncio.Future[dict[str, Any]]


def _ignore(actor_id: str, reply: dict[str, Any]) -> None:
    pass


class CallBatcher:
    """Calls actors of one type that have a ``Batch`` method.

    ``on_reply`` is called with the id and the reply of each actor before the callers get their replies.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, dict[str, CallBatcher]]] = weakref.WeakKeyDictionary()

    def __init__(
        self, client: HostClient, actor_type: str, on_reply: Callable[[str, dict[str, Any]], None] = _ignore
    ) -> None:
        self._client = client
        self._actor_type = actor_type
        self._on_reply = on_reply
        self._waiting: dict[str, deque[_Call]] = {}
        self._piggybacked: dict[str, _Call] = {}
        #: Set when a call arrives for an actor whose session waits for one, or when none is expected any more.
        self._wakeups: dict[str, asyncio.Future[None]] = {}
        #: How many tasks of this process will end in a call to an actor, and until when a session waits for them.
        self._expected: Counter[str] = Counter()
        self._expected_until: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, client: HostClient, actor_type: str) -> CallBatcher:
        """Returns the batcher that this process shares for actors of this type."""
        batchers = cls._of.setdefault(client, {})
        if actor_type not in batchers:
            # The dictionary belongs to the client: a strong reference would keep the client alive for ever.
            batchers[actor_type] = cls(weakref.proxy(client), actor_type)
        return batchers[actor_type]

    async def call(self, actor_id: str, method: str, data: bytes = b"null") -> dict[str, Any]:
        """Calls the actor. ``data`` is valid JSON, nested so that a batch around it does not exceed the depth limit."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        call = _Call(method, data, answer)
        waiting = self._waiting.get(actor_id)
        if waiting is None:
            waiting = self._waiting[actor_id] = deque([call])
            # A separate context: the task serves many requests, and is a part of none.
            task = asyncio.get_running_loop().create_task(self._serve(actor_id, waiting), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append(call)
            self._wake(actor_id)
        return await answer

    def expecting(self, actor_id: str) -> _ExpectedCall:
        """Marks work that will end in a call to this actor: a session with it stays open for that, within limits."""
        return _ExpectedCall(self, actor_id)

    def piggyback(self, actor_id: str, method: str, data: bytes) -> asyncio.Future[dict[str, Any]]:
        """Adds a call without a turn of its own: it is sent after the next other calls to this actor.

        At most one for each actor. :meth:`cancel_piggyback` cancels it.
        """
        if actor_id in self._piggybacked:
            raise RuntimeError(f"a piggybacked call to {actor_id} is waiting already")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._piggybacked[actor_id] = _Call(method, data, answer)
        return answer

    def cancel_piggyback(self, actor_id: str, answer: asyncio.Future[dict[str, Any]]) -> bool:
        """Cancels a piggybacked call that was not sent yet; returns False if it is under way."""
        call = self._piggybacked.get(actor_id)
        if call is None or call.answer is not answer:
            return False
        del self._piggybacked[actor_id]
        return True

    def _wake(self, actor_id: str) -> None:
        if (come := self._wakeups.get(actor_id)) is not None:
            _wake(come)

    async def _serve(self, actor_id: str, waiting: deque[_Call]) -> None:
        try:
            while waiting:
                if calls := self._take(actor_id):
                    await self._send(actor_id, calls)
        finally:
            del self._waiting[actor_id]

    async def _send(self, actor_id: str, calls: list[_Call]) -> None:
        if refused := await self._send_together(actor_id, calls):
            # One of them is invalid: sent alone, each caller gets its own error.
            for call in refused:
                await self._send_together(actor_id, [call])

    async def _send_together(self, actor_id: str, calls: list[_Call]) -> list[_Call]:
        """Sends the calls as one batch, and returns the calls that have to be sent one by one."""
        session = _Session(self, actor_id, calls)
        _sessions[session.name] = session
        try:
            body: dict[str, Any] = {
                "calls": [{"method": call.method, "data": orjson.Fragment(call.data)} for call in calls],
                "session": session.name,
            }
            if sum(len(call.data) for call in calls) > _SLOW:
                body["slow"] = True
            answer = await self._client.invoke_method(self._actor_type, actor_id, BATCH, dump(body))
            if not session.resolved:
                session.resolve(load(answer))
        except asyncio.CancelledError:
            if not session.broken_off or session.caller.uncancel():
                raise
        except (InvalidRequest, TooLarge) as error:
            # The batch was rejected as a whole, before its turn.
            if len(calls) > 1 and not session.resolved:
                return session.withdraw()
            session.fail(error)
        except Exception as error:
            # The error is passed on to each caller, which handles it.
            session.fail(error)
        finally:
            del _sessions[session.name]
            # The call ended, but its turn was interrupted.
            session.fail(Unavailable())
        return []

    def _take(self, actor_id: str) -> list[_Call]:
        """Returns the next calls to send together, without those that were cancelled."""
        waiting = self._waiting[actor_id]
        taken: list[_Call] = []
        size = 0
        while waiting and len(taken) < MAX_CALLS:
            size += len(waiting[0].data)
            if taken and size > MAX_BYTES:
                break
            call = waiting.popleft()
            if not call.answer.done():
                taken.append(call)
        if taken and (extra := self._piggybacked.pop(actor_id, None)):
            taken.append(extra)
        return taken


class _ExpectedCall:
    """A class, as every activity comes here twice and a generator would take three times as long."""

    def __init__(self, batcher: CallBatcher, actor_id: str) -> None:
        self._batcher = batcher
        self._actor_id = actor_id

    def __enter__(self) -> None:
        batcher = self._batcher
        batcher._expected[self._actor_id] += 1
        batcher._expected_until[self._actor_id] = asyncio.get_running_loop().time() + EXPECTED_CALL_SECONDS

    def __exit__(self, *failure: object) -> None:
        batcher, actor_id = self._batcher, self._actor_id
        batcher._expected[actor_id] -= 1
        if not batcher._expected[actor_id]:
            del batcher._expected[actor_id], batcher._expected_until[actor_id]
            batcher._wake(actor_id)


class _Session:
    """One call to an actor. Until it returns, an actor in this process gets further calls through it."""

    def __init__(self, batcher: CallBatcher, actor_id: str, calls: list[_Call]) -> None:
        self.name = f"{_SECRET}-{next(_numbers)}"
        self.resolved = False
        self.broken_off = False
        self.caller = cast("asyncio.Task[None]", asyncio.current_task())
        self._batcher = batcher
        self._actor_id = actor_id
        self._calls = calls

    def is_to(self, actor_type: str, actor_id: str) -> bool:
        return (self._batcher._actor_type, self._actor_id) == (actor_type, actor_id)

    def resolve(self, reply: dict[str, Any]) -> None:
        answered = list(zip(self._calls, reply["replies"], strict=True))
        self.resolved = True
        self._batcher._on_reply(self._actor_id, reply)
        self._calls = []
        for call, answer in answered:
            if answer != DEFERRED and not call.answer.done():
                call.answer.set_result(answer)
        waiting = self._batcher._waiting[self._actor_id]
        waiting.extendleft(call for call, answer in reversed(answered) if answer == DEFERRED)

    def fail(self, error: Exception) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(error)

    def withdraw(self) -> list[_Call]:
        """Removes the calls without a reply from the session, and returns them."""
        calls, self._calls = self._calls, []
        return calls

    def read(self) -> list[tuple[str, Any]]:
        """Returns the current calls, parsed. A call that is not JSON gets its error here and is left out."""
        read: list[tuple[_Call, Any]] = []
        for call in self._calls:
            try:
                read.append((call, load(call.data)))
            except ValueError as error:
                if not call.answer.done():
                    call.answer.set_exception(InvalidRequest(f"The body is not JSON: {error}."))
        self._calls = [call for call, _ in read]
        return [(call.method, data) for call, data in read]

    def break_off(self) -> None:
        """Cancels the call because the actor moved. daprd (1.18.2) repeats such a call although it was answered."""
        if self.name in _sessions:
            self.broken_off = True
            self.caller.cancel()

    def decline(self) -> None:
        """Puts the current calls back into the queue, to be sent as ordinary calls."""
        self._batcher._waiting[self._actor_id].extendleft(reversed(self._calls))
        self._calls = []

    async def next_calls(self, until: float, patience: float, holds: Callable[[], bool]) -> list[_Call]:
        """Returns the next calls to the actor, or none when the wait is over."""
        loop = asyncio.get_running_loop()
        batcher, actor_id = self._batcher, self._actor_id
        patient_until = min(until, loop.time() + patience)
        while self.name in _sessions and loop.time() < until:
            if calls := batcher._take(actor_id):
                self._calls = calls
                return calls
            open_until = max(patient_until, min(until, batcher._expected_until.get(actor_id, 0.0)))
            if loop.time() >= open_until or not holds():
                break
            come = batcher._wakeups[actor_id] = loop.create_future()
            # Wakes up regularly to check that the actor is still placed here.
            over = loop.call_at(min(open_until, loop.time() + SESSION_IDLE_SECONDS), _wake, come)
            try:
                await come
            finally:
                over.cancel()
                if batcher._wakeups.get(actor_id) is come:
                    del batcher._wakeups[actor_id]
        return []


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


_sessions: dict[str, _Session] = {}
# A session's name cannot be guessed, so no other process can reply in the actor's place.
_SECRET = secrets.token_hex(16)
_numbers = itertools.count()


# The return value of a call whose callers got their replies through the session.
_RESOLVED: dict[str, Any] = {"replies": []}


def _session_with(actor_type: str, actor_id: str, data: dict[str, Any]) -> _Session | None:
    """Returns the open session of this process with this actor that made the call, if any."""
    session = _sessions.get(str(data.get("session")))
    return session if session is not None and session.is_to(actor_type, actor_id) else None


def _is_call(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("method", ""), str)


async def serve_session(
    client: HostClient,
    actor_type: str,
    actor_id: str,
    data: Any,
    turn: Callable[[list[tuple[str, Any]]], Awaitable[dict[str, Any]]],
    *,
    patience: float = SESSION_IDLE_SECONDS,
    longest: float = MAX_SESSION_SECONDS,
) -> dict[str, Any]:
    """Implements an actor's ``Batch`` method: runs one turn for all these calls.

    Callers in the actor's own process get their replies at once, and their next calls get a turn while the call is
    open, without a call of their own: on Dapr, that costs as much as the turn. Other processes wait meanwhile, so the
    session ends after ``patience`` without an expected call, and starts no turn after ``longest``.
    """
    calls = data.get("calls") if isinstance(data, dict) else None
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        raise InvalidRequest("calls: must be a list of objects with method and data")
    if len(calls) > MAX_CALLS + 1:  # plus one piggybacked call
        raise InvalidRequest(f"calls: at most {MAX_CALLS + 1} at once")
    clock = asyncio.get_running_loop().time
    until = clock() + longest
    if data.get("slow"):
        # Parsing the batch took a while already.
        await asyncio.sleep(0)
    first = await turn([(call.get("method", ""), call.get("data")) for call in calls])
    # Checked before the reply is encoded: that and parsing it again can take a while.
    if _session_with(actor_type, actor_id, data) is None:
        return first
    written = dump(first)
    if len(written) > _SLOW:
        await asyncio.sleep(0)
    session = _session_with(actor_type, actor_id, data)
    if session is None:
        return first
    # Copy through JSON, so that callers cannot mutate the actor's objects.
    session.resolve(load(written))
    # The callers have their replies, so the return value of the call is not read.
    first = _RESOLVED
    while client.holds() and await session.next_calls(until, patience, client.holds):
        if not client.holds():
            session.decline()
            break
        try:
            if next_calls := session.read():
                session.resolve(load(dump(await turn(next_calls))))
        except Exception as error:
            session.fail(error)
            break
    if not client.holds():
        session.break_off()
    return first
