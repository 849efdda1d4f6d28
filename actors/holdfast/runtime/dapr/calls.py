"""The calls that daprd has made and that still run here, and what ends their right to change anything.

daprd gives an actor to another host, or dies and comes back, without waiting for a turn that runs here. Such a turn
must not write any more: the actor may have had other turns elsewhere meanwhile.
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

    __slots__ = ("_questions", "_silent", "ended", "revoked")

    def __init__(self) -> None:
        self.revoked = False
        #: A task that outlives the turn still carries it in its context, and is then free of it.
        self.ended = False
        self._questions: set[asyncio.Timeout] = set()
        self._silent = asyncio.Event()
        self._silent.set()

    def check(self) -> None:
        if self.revoked and not self.ended:
            raise ActorMoved

    def begin(self, question: asyncio.Timeout) -> None:
        self._questions.add(question)
        self._silent.clear()

    def end(self, question: asyncio.Timeout) -> None:
        self._questions.discard(question)
        if not self._questions:
            self._silent.set()

    def revoke(self) -> None:
        """What it asks of the sidecar just now is broken off, and from now on refused."""
        self.revoked = True
        now = asyncio.get_running_loop().time()
        for question in self._questions:
            if not question.expired():
                question.reschedule(now)

    async def silent(self) -> None:
        await self._silent.wait()


def revoked() -> bool:
    """Whether the call that runs here may not change anything any more."""
    call = _current.get()
    return call is not None and call.revoked and not call.ended


class Asking:
    """Around every question to the sidecar: it ends in time, and with the call it is part of."""

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
    """All calls that run here."""

    def __init__(self) -> None:
        self._running: dict[ActorAddress, set[Call]] = {}
        self._none_running = asyncio.Event()
        self._none_running.set()

    def __len__(self) -> int:
        return len(self._all())

    @contextlib.contextmanager
    def running(self, address: ActorAddress) -> Iterator[None]:
        call = Call()
        self._running.setdefault(address, set()).add(call)
        self._none_running.clear()
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            call.ended = True
            calls = self._running[address]
            calls.discard(call)
            if not calls:
                del self._running[address]
            if not self._running:
                self._none_running.set()

    def any(self, address: ActorAddress) -> bool:
        return address in self._running

    def only_one(self, address: ActorAddress) -> bool:
        return len(self._running.get(address, ())) == 1

    def revoke(self, address: ActorAddress) -> None:
        for call in self._running.get(address, ()):
            call.revoke()

    def revoke_all(self) -> None:
        for call in self._all():
            call.revoke()

    async def silent(self) -> None:
        """Returns when nothing is under way any more that a revoked call asked."""
        for call in self._all():
            if call.revoked:
                await call.silent()

    async def drained(self) -> None:
        await self._none_running.wait()

    def _all(self) -> list[Call]:
        return [call for calls in self._running.values() for call in calls]
