"""Deduplicates calls that daprd repeats although they were made.

When placement changes, daprd (1.18.2) interrupts every call to the actor types concerned, also to actors that stay, and
repeats it a second later. The turn continues here and saves: the repetition would push twice, or pop items that no
consumer gets. Our client gives each call an id, so that a repeated call gets the result of the first one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import ActorMoved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

#: The header with a call's id, which sidecars pass on.
CALL_ID_HEADER = "holdfast-call-id"

# A call that daprd interrupts was delayed: while actors move, the state is unavailable. For a faster call it need not
# be checked whether its caller is still connected.
_SHORTEST = 0.02
# daprd repeats five times, a second apart.
_KEPT_SECONDS = 30.0
_KEPT_BYTES = 32 * 1024 * 1024


class _Undelivered(NamedTuple):
    result: bytes
    since: float


class CallDeduplicator:
    """The running calls, and the results of calls whose caller had disconnected."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[bytes]] = {}
        self._undelivered: OrderedDict[Hashable, _Undelivered] = OrderedDict()
        self._bytes = 0

    async def once(
        self, call: Hashable, action: Callable[[], Awaitable[bytes]], was_delivered: Callable[[], Awaitable[bool]]
    ) -> bytes:
        """Runs the action, unless it is running already or has succeeded undelivered."""
        while (first := self._running.get(call)) is not None:
            try:
                return await asyncio.shield(first)
            except ActorMoved:
                # The state was unavailable while actors moved, so the call can be repeated. For other errors it is
                # unknown whether they came before or after the save: they are the result of both calls.
                continue
        if call in self._undelivered:
            return self._undelivered[call].result
        loop = asyncio.get_running_loop()
        outcome = self._running[call] = loop.create_future()
        began = loop.time()
        try:
            result = await action()
        except Exception as error:
            outcome.set_exception(error)
            outcome.exception()  # marks the exception as retrieved; it is raised here too
            raise
        except BaseException:
            outcome.cancel()
            raise
        else:
            outcome.set_result(result)
        finally:
            del self._running[call]
        if loop.time() - began >= _SHORTEST and not await was_delivered():
            self._keep(call, result)
        return result

    def _keep(self, call: Hashable, result: bytes) -> None:
        now = asyncio.get_running_loop().time()
        self._undelivered[call] = _Undelivered(result, now)
        self._bytes += len(result)
        while self._undelivered:
            oldest, kept = next(iter(self._undelivered.items()))
            if kept.since + _KEPT_SECONDS > now and self._bytes <= _KEPT_BYTES:
                break
            del self._undelivered[oldest]
            self._bytes -= len(kept.result)
