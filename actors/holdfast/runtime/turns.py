"""Turns: calls to one actor run one at a time, in order of arrival; different actors run side by side.

For hosts that run actors in this process. What a call costs does not depend on how many actors there are; memory
follows the actors that are active, and those that have been idle for a while are deactivated.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HostStopping, ReentrantCall, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.runtime.contract import ActorAddress

log = logging.getLogger(__name__)

DEFAULT_MAX_IDLE = 20_000
# As long as the SDK's own client waits for an answer.
DEFAULT_CALL_TIMEOUT = 60.0

# Deactivations begun in one step of the event loop, so that many at once hold nobody up.
_LEAVING_AT_ONCE = 256
# How many of those idle for longest are looked at for one that may leave early.
_LOOKED_AT_TO_MAKE_ROOM = 8


class _Turn(NamedTuple):
    action: Callable[[], Awaitable[Any]]
    outcome: asyncio.Future[Any]
    context: contextvars.Context


class _Mailbox:
    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = False
        # Made when a second call comes: an empty one takes more memory than all else that an idle actor has.
        self.waiting: deque[_Turn] | None = None


class _Link:
    __slots__ = ("address", "ended")

    def __init__(self, address: ActorAddress) -> None:
        self.address = address
        self.ended = False


# The turns that wait for the current one: with reentrancy off, a call to any of them would never end. A task that
# outlives its turn still carries the link, so a link says when it has ended.
_chain: contextvars.ContextVar[tuple[_Link, ...]] = contextvars.ContextVar("holdfast_turns", default=())


class Turns:
    """The actors that are active in this process, and what they have to do.

    An actor leaves when it was idle for ``idle_timeout`` seconds, and sooner when more than ``max_idle`` are idle and
    nothing would be lost with it: then ``is_needed`` says no. A call from one turn to another is given up after
    ``call_timeout`` seconds: two actors that call each other at the same moment would wait for ever.
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
        # Since when each actor has had nothing to do, oldest first.
        self._idle: OrderedDict[ActorAddress, float] = OrderedDict()
        # In the order of their beginning, which a set does not keep: a simulated crash ends them in that order.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        # The calls from one turn to another and until when they wait, oldest first. One timer for them all: one for
        # each would cost more than all else of a short call.
        self._awaited: dict[asyncio.Future[Any], tuple[float, ActorAddress]] = {}
        self._patience: asyncio.TimerHandle | None = None
        self._stopping = False
        #: The types of actors without which turns of others cannot end.
        self.serving: set[str] = set()

    def active(self) -> list[ActorAddress]:
        return list(self._mailboxes)

    async def run(self, address: ActorAddress, action: Callable[[], Awaitable[Any]]) -> Any:
        """Runs the action as this actor's next turn.

        A caller that goes away, or has waited for too long, takes back a turn that has not begun; one that has begun
        is finished.
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
        self._awaited[outcome] = (loop.time() + self._call_timeout, address)
        if self._patience is None:
            self._plan_patience()
        try:
            return await outcome
        finally:
            self._awaited.pop(outcome, None)

    async def stop(self, drain_timeout: float) -> None:
        """Takes no more calls from outside, finishes the turns there are, deactivates every actor."""
        self._stopping = True
        if self._sweep:
            self._sweep.cancel()
        try:
            async with asyncio.timeout(drain_timeout):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            log.warning("%d turns did not end within %g s and are cancelled", len(self._tasks), drain_timeout)
            self.abort()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for address in self.active():
            await self._deactivated(address)
        self._cancel_timers()
        self._mailboxes.clear()
        self._idle.clear()

    def abort(self) -> None:
        """Ends every turn where it stands, as the end of the process would."""
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
        for timer in (self._sweep, self._patience):
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
            # Goes to the caller, whoever that is; it is the caller's to log.
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

    def _plan_patience(self) -> None:
        if self._awaited:
            deadline, _ = next(iter(self._awaited.values()))
            self._patience = asyncio.get_running_loop().call_at(deadline, self._give_up)
        else:
            self._patience = None

    def _give_up(self) -> None:
        now = asyncio.get_running_loop().time()
        for outcome, (deadline, address) in list(self._awaited.items()):
            if deadline > now:
                break
            del self._awaited[outcome]
            if not outcome.done():
                log.warning("%s %s did not answer within %g s", address.type, address.id, self._call_timeout)
                # Without its id, which says more than callers may know: whose it is.
                outcome.set_exception(
                    Unavailable(
                        f"{address.type} did not answer within {self._call_timeout:g} s. "
                        "Two actors that call each other wait for each other."
                    )
                )
        self._plan_patience()

    def _plan_sweep(self) -> None:
        if self._idle:
            oldest = next(iter(self._idle.values()))
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_at(oldest + self._idle_timeout, self._sweep_idle)
        else:
            self._sweep = None

    def _sweep_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        for address, since in list(itertools.islice(self._idle.items(), _LEAVING_AT_ONCE)):
            # The same sum as when it was planned: another would be rounded differently, and not be due yet.
            if since + self._idle_timeout > now:
                break
            self._dismiss(address)
        self._plan_sweep()

    def _make_room(self) -> None:
        for address in itertools.islice(self._idle, _LOOKED_AT_TO_MAKE_ROOM):
            if not self._is_needed(address):
                self._dismiss(address)
                return

    def _dismiss(self, address: ActorAddress) -> None:
        mailbox = self._mailboxes[address]
        # A turn like any other: a call that comes meanwhile waits, and finds the actor newly activated.
        self._begin(address, mailbox, self._farewell(address, mailbox))

    def _farewell(self, address: ActorAddress, mailbox: _Mailbox) -> _Turn:
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
            # An actor's own clean-up code failed; it is gone all the same.
            log.exception("deactivating %s %s", address.type, address.id)
