"""Calls that daprd makes again although they were made.

When placement changes, daprd (1.18.2) breaks off every call to the types of actors concerned, of actors that stay too,
and makes it again a second later. The turn goes on here all the same, and saves: made again it would push twice, or pop
what nobody then gets. Our client numbers its calls, so a call that comes again is given what the first one came to.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import ActorMoved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

#: What names a call, through any number of sidecars, which hand it on.
CALL_ID_HEADER = "holdfast-call-id"

# A call that daprd breaks off was held up: while actors move, the state cannot be reached. Of one that was quicker
# nobody needs to ask whether its caller is still there.
_SHORTEST = 0.02
# daprd repeats five times, a second apart.
_KEPT_SECONDS = 30.0
_KEPT_BYTES = 32 * 1024 * 1024


class _Unheard(NamedTuple):
    result: bytes
    since: float


class Repeats:
    """The calls that run, and those that ended when their caller had gone."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[bytes]] = {}
        self._unheard: OrderedDict[Hashable, _Unheard] = OrderedDict()
        self._bytes = 0

    async def once(
        self, call: Hashable, action: Callable[[], Awaitable[bytes]], was_heard: Callable[[], Awaitable[bool]]
    ) -> bytes:
        """Runs the action, unless it already runs or has succeeded unheard."""
        while (first := self._running.get(call)) is not None:
            try:
                return await asyncio.shield(first)
            except ActorMoved:
                # It was kept from the state while actors moved, and can be tried again. Of other failures nobody
                # knows whether they came before or after the save: they are the answer to both.
                continue
        if call in self._unheard:
            return self._unheard[call].result
        loop = asyncio.get_running_loop()
        outcome = self._running[call] = loop.create_future()
        began = loop.time()
        try:
            result = await action()
        except Exception as error:
            outcome.set_exception(error)
            outcome.exception()  # somebody has seen it: it is raised here too
            raise
        except BaseException:
            outcome.cancel()
            raise
        else:
            outcome.set_result(result)
        finally:
            del self._running[call]
        if loop.time() - began >= _SHORTEST and not await was_heard():
            self._keep(call, result)
        return result

    def _keep(self, call: Hashable, result: bytes) -> None:
        now = asyncio.get_running_loop().time()
        self._unheard[call] = _Unheard(result, now)
        self._bytes += len(result)
        while self._unheard:
            oldest, kept = next(iter(self._unheard.items()))
            if kept.since + _KEPT_SECONDS > now and self._bytes <= _KEPT_BYTES:
                break
            del self._unheard[oldest]
            self._bytes -= len(kept.result)
