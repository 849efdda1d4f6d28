"""The calls of daprd in progress, and their revocation.

daprd moves an actor to another host, or dies and restarts, without waiting for a turn that runs here. Such a turn must
not write any more: the actor may have had other turns on another host meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import TYPE_CHECKING

from holdfast.errors import ActorMoved

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from holdfast.runtime.contract import ActorAddress

_current: contextvars.ContextVar[Call | None] = contextvars.ContextVar("holdfast_dapr_call", default=None)


class Call:
    """One call of daprd to one actor."""

    __slots__ = ("_quiet", "_requests", "ended", "lock", "revoked")

    def __init__(self, lock: asyncio.Lock) -> None:
        #: Held during the turn.
        self.lock = lock
        self.revoked = False
        #: A task that outlives the turn still has the call in its context; it then ignores the call.
        self.ended = False
        self._requests: set[asyncio.Timeout] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def check(self) -> None:
        if self.revoked and not self.ended:
            raise ActorMoved

    def begin(self, request: asyncio.Timeout) -> None:
        self._requests.add(request)
        self._quiet.clear()

    def end(self, request: asyncio.Timeout) -> None:
        self._requests.discard(request)
        if not self._requests:
            self._quiet.set()

    def revoke(self) -> None:
        """Cancels the current requests to the sidecar, and rejects further ones."""
        self.revoked = True
        now = asyncio.get_running_loop().time()
        for request in self._requests:
            if not request.expired():
                request.reschedule(now)

    async def quiesce(self) -> None:
        await self._quiet.wait()


def revoked() -> bool:
    """Returns whether the current call has lost the right to change anything."""
    call = _current.get()
    return call is not None and call.revoked and not call.ended


class SidecarCall:
    """Limits a request to the sidecar to a time-out, and to the lifetime of the call it is a part of."""

    __slots__ = ("_call", "_limit")

    def __init__(self, seconds: float) -> None:
        call = _current.get()
        self._call = None if call is None or call.ended else call
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        if self._call is not None:
            self._call.check()
        await self._limit.__aenter__()
        if self._call is not None:
            self._call.begin(self._limit)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._call is None:
            await self._limit.__aexit__(kind, error, trace)
            return
        self._call.end(self._limit)
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            self._call.check()
            raise
        if isinstance(error, TimeoutError):
            self._call.check()


class Calls:
    """All calls in progress."""

    def __init__(self) -> None:
        self._running: dict[ActorAddress, set[Call]] = {}
        # daprd has turn locks of its own, but its callbacks can also be called directly.
        self._locks: dict[ActorAddress, asyncio.Lock] = {}
        self._none_running = asyncio.Event()
        self._none_running.set()

    def __len__(self) -> int:
        return len(self._all())

    @contextlib.contextmanager
    def running(self, address: ActorAddress) -> Iterator[Call]:
        """Registers a call; its turn begins when it holds its lock."""
        if (lock := self._locks.get(address)) is None:
            lock = self._locks[address] = asyncio.Lock()
        call = Call(lock)
        self._running.setdefault(address, set()).add(call)
        self._none_running.clear()
        token = _current.set(call)
        try:
            yield call
        finally:
            _current.reset(token)
            call.ended = True
            calls = self._running[address]
            calls.discard(call)
            if not calls:
                del self._running[address]
                self._locks.pop(address, None)
            if not self._running:
                self._none_running.set()

    def any(self, address: ActorAddress) -> bool:
        return address in self._running

    def has_no_other_turn(self, address: ActorAddress, call: Call) -> bool:
        """Returns whether no other call is in its turn: a revoked one may still run."""
        return all(other.lock is call.lock for other in self._running[address])

    def only_one(self, address: ActorAddress) -> bool:
        return len(self._running.get(address, ())) == 1

    def revoke(self, address: ActorAddress) -> None:
        # New calls do not wait for a turn that cannot change anything any more.
        self._locks.pop(address, None)
        for call in self._running.get(address, ()):
            call.revoke()

    def revoke_all(self) -> None:
        self._locks.clear()
        for call in self._all():
            call.revoke()

    async def quiesce(self) -> None:
        """Returns when no request of a revoked call is in progress any more."""
        for call in self._all():
            if call.revoked:
                await call.quiesce()

    async def drained(self) -> None:
        await self._none_running.wait()

    def _all(self) -> list[Call]:
        return [call for calls in self._running.values() for call in calls]
