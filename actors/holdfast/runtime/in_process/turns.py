"""Turns: calls to one actor run one at a time, in order of arrival; different actors run concurrently.

For hosts that run actors in this process. The cost of a call does not depend on the number of actors; memory grows with
the active ones, and idle actors are deactivated after a while.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HostStopping, ReentrantCall, Unavailable
from holdfast.logs import counted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.contract import ActorAddress

log = logging.getLogger(__name__)

# Bounds memory: an idle queue takes about 20 kB. Activating one again costs two thirds of a push.
DEFAULT_MAX_IDLE = 4_000
# The same as the time-out of the SDK's own client.
DEFAULT_CALL_TIMEOUT = 60.0

# The most deactivations to begin in one step of the event loop, so that they do not block it.
_EVICTED_AT_ONCE = 64
# The number of longest idle actors to check for one that can be evicted early.
_EVICTION_CANDIDATES = 8


class _Turn(NamedTuple):
    action: Callable[[], Awaitable[Any]]
    outcome: asyncio.Future[Any]
    context: contextvars.Context


class _Mailbox:
    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = False
        # Created for the second call: an empty one takes more memory than the rest of an idle actor.
        self.waiting: deque[_Turn] | None = None


class _Link:
    __slots__ = ("address", "ended")

    def __init__(self, address: ActorAddress) -> None:
        self.address = address
        self.ended = False


# The turns that wait for the current one: with reentrancy off, a call to any of them would never end. A task that
# outlives its turn still has the link, so the link records when the turn has ended.
_chain: contextvars.ContextVar[tuple[_Link, ...]] = contextvars.ContextVar("holdfast_turns", default=())


class Turns:
    """The active actors of this process, and their queued calls.

    An actor is deactivated after ``idle_timeout`` idle seconds, or earlier if more than ``max_idle`` actors are idle
    and ``is_needed`` returns False for it. A call from one turn to another fails after ``call_timeout`` seconds: two
    actors that call each other at the same time would wait for ever.
    """

    def __init__(
        self,
        *,
        deactivate: Callable[[ActorAddress], Awaitable[None]],
        is_needed: Callable[[ActorAddress], bool],
        idle_timeout: float,
        max_idle: int = DEFAULT_MAX_IDLE,
        call_timeout: float = DEFAULT_CALL_TIMEOUT,
    ) -> None:
        self._deactivate = deactivate
        self._is_needed = is_needed
        self._idle_timeout = idle_timeout
        self._max_idle = max_idle
        self._call_timeout = call_timeout
        self._mailboxes: dict[ActorAddress, _Mailbox] = {}
        # When each idle actor ended its last turn, oldest first.
        self._idle: OrderedDict[ActorAddress, float] = OrderedDict()
        # A dictionary, to keep the order of their start: a simulated crash ends them in that order.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        # The calls from one turn to another with their deadlines, oldest first. One timer serves all of them: a timer
        # for each would cost more than the rest of a short call.
        self._pending_calls: dict[asyncio.Future[Any], tuple[float, ActorAddress]] = {}
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._stopping = False
        #: The actor types that turns of other actors depend on.
        self.serving: set[str] = set()

    def active(self) -> list[ActorAddress]:
        return list(self._mailboxes)

    async def run(self, address: ActorAddress, action: Callable[[], Awaitable[Any]]) -> Any:
        """Runs the action as this actor's next turn.

        If the caller is cancelled or times out, a turn that has not begun is dropped, and one that has begun is
        finished.
        """
        callers = [link.address for link in _chain.get() if not link.ended]
        if address in callers:
            raise ReentrantCall(f"{address.type} {address.id} would wait for its own turn: reentrancy is off.")
        if self._stopping and not callers and address.type not in self.serving:
            raise HostStopping
        mailbox = self._mailboxes.get(address)
        if mailbox is None:
            mailbox = self._mailboxes[address] = _Mailbox()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        turn = _Turn(action, outcome, contextvars.copy_context())
        if mailbox.running:
            if mailbox.waiting is None:
                mailbox.waiting = deque()
            mailbox.waiting.append(turn)
        else:
            self._begin(address, mailbox, turn)
        if not callers:
            return await outcome
        self._pending_calls[outcome] = (loop.time() + self._call_timeout, address)
        if self._timeout_timer is None:
            self._plan_timeout()
        try:
            return await outcome
        finally:
            self._pending_calls.pop(outcome, None)

    async def release_idle(self) -> int:
        """Deactivates half of the idle actors, those not used for longest, except those that are needed."""
        leaving = []
        for address in list(itertools.islice(self._idle, (len(self._idle) + 1) // 2)):
            # It may have begun a turn since.
            if address in self._idle and not self._is_needed(address):
                leaving.append(self._evict(address))
                if len(leaving) % _EVICTED_AT_ONCE == 0:
                    await asyncio.sleep(0)
        if leaving:
            await asyncio.wait(leaving)
        return len(leaving)

    async def stop(self, drain_timeout: float) -> None:
        """Rejects new calls from outside, finishes the turns in progress, and deactivates every actor."""
        self._stopping = True
        if self._sweep:
            self._sweep.cancel()
        try:
            async with asyncio.timeout(drain_timeout):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            log.warning("%s did not end within %g s, cancelling", counted(len(self._tasks), "turn"), drain_timeout)
            self.abort()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for address in self.active():
            await self._deactivated(address)
        self._cancel_timers()
        self._mailboxes.clear()
        self._idle.clear()

    def abort(self) -> None:
        """Ends every turn at once, as the end of the process would."""
        self._stopping = True
        self._cancel_timers()
        for mailbox in self._mailboxes.values():
            for turn in mailbox.waiting or ():
                if not turn.outcome.done():
                    turn.outcome.set_exception(HostStopping())
            mailbox.waiting = None
        for task in self._tasks:
            task.cancel()

    def _cancel_timers(self) -> None:
        for timer in (self._sweep, self._timeout_timer):
            if timer:
                timer.cancel()

    def _begin(self, address: ActorAddress, mailbox: _Mailbox, turn: _Turn) -> None:
        mailbox.running = True
        self._idle.pop(address, None)
        task = asyncio.get_running_loop().create_task(self._take(address, mailbox, turn), context=turn.context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _take(self, address: ActorAddress, mailbox: _Mailbox, turn: _Turn) -> None:
        link = _Link(address)
        _chain.set((*(caller for caller in _chain.get() if not caller.ended), link))
        outcome = turn.outcome
        try:
            result = await turn.action()
            if not outcome.done():
                outcome.set_result(result)
        except asyncio.CancelledError:
            if not outcome.done():
                outcome.set_exception(HostStopping())
            raise
        except Exception as error:
            # Passed on to the caller, which logs it if needed.
            if not outcome.done():
                outcome.set_exception(error)
        finally:
            link.ended = True
            self._ended(address, mailbox)

    def _ended(self, address: ActorAddress, mailbox: _Mailbox) -> None:
        mailbox.running = False
        while mailbox.waiting:
            turn = mailbox.waiting.popleft()
            if not turn.outcome.done():
                self._begin(address, mailbox, turn)
                return
        mailbox.waiting = None
        if self._mailboxes.get(address) is not mailbox:
            return  # it has just been deactivated
        self._idle[address] = asyncio.get_running_loop().time()
        if self._stopping:
            return
        if len(self._idle) > self._max_idle:
            self._make_room()
        if self._sweep is None:
            self._plan_sweep()

    def _plan_timeout(self) -> None:
        if self._pending_calls:
            deadline, _ = next(iter(self._pending_calls.values()))
            self._timeout_timer = asyncio.get_running_loop().call_at(deadline, self._fail_overdue)
        else:
            self._timeout_timer = None

    def _fail_overdue(self) -> None:
        now = asyncio.get_running_loop().time()
        for outcome, (deadline, address) in list(self._pending_calls.items()):
            if deadline > now:
                break
            del self._pending_calls[outcome]
            if not outcome.done():
                log.warning(
                    "%s %s did not reply within %g s, call failed", address.type, address.id, self._call_timeout
                )
                # Without the actor's id, which contains the tenant.
                outcome.set_exception(
                    Unavailable(
                        f"{address.type} did not reply within {self._call_timeout:g} s. "
                        "Actors that call each other can deadlock."
                    )
                )
        self._plan_timeout()

    def _plan_sweep(self) -> None:
        if self._idle:
            oldest = next(iter(self._idle.values()))
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_at(oldest + self._idle_timeout, self._sweep_idle)
        else:
            self._sweep = None

    def _sweep_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        for address, since in list(itertools.islice(self._idle.items(), _EVICTED_AT_ONCE)):
            # The same expression as in _plan_sweep: another one could round differently, and not be due yet.
            if since + self._idle_timeout > now:
                break
            self._evict(address)
        self._plan_sweep()

    def _make_room(self) -> None:
        for address in list(itertools.islice(self._idle, _EVICTION_CANDIDATES)):
            if len(self._idle) <= self._max_idle:
                return
            if self._is_needed(address):
                # Considered again after all others, one of which may be evicted in its place.
                del self._idle[address]
                self._idle[address] = asyncio.get_running_loop().time()
            else:
                self._evict(address)

    def _evict(self, address: ActorAddress) -> asyncio.Future[Any]:
        mailbox = self._mailboxes[address]
        turn = self._deactivation_turn(address, mailbox)
        # A turn like any other: a call that arrives meanwhile waits, and then activates the actor again.
        self._begin(address, mailbox, turn)
        return turn.outcome

    def _deactivation_turn(self, address: ActorAddress, mailbox: _Mailbox) -> _Turn:
        async def leave() -> None:
            await self._deactivated(address)
            if not mailbox.waiting:
                del self._mailboxes[address]

        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return _Turn(leave, outcome, contextvars.Context())

    async def _deactivated(self, address: ActorAddress) -> None:
        try:
            await self._deactivate(address)
        except Exception:
            # The actor's own clean-up code failed; the actor is deactivated all the same.
            log.exception("%s %s: deactivation failed", address.type, address.id)
