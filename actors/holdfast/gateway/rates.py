"""How many requests a tenant may send in a second."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from holdfast.errors import RateLimited
from holdfast.gateway.answers import send_error
from holdfast.gateway.callers import CALLER, NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.audit import Audit
    from holdfast.gateway.callers import Caller


class Rates:
    """A bucket of tokens a name, each as one number: when it will be full again (GCRA).

    It holds what comes in a second, and one at least. A full bucket is as good as none, so only those in use are kept,
    and never more than ``room``.
    """

    def __init__(self, room: int = 10_000) -> None:
        self._room = room
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, name: str, rate: float, now: float) -> float:
        """0 when there is one to take, which then is taken; else how many seconds until there is."""
        full_at = max(self._full_at.pop(name, now), now)
        wait = full_at - now - max(1.0, rate) / rate + 1 / rate
        # A millionth of a token: sums of fractions do not come out even.
        if wait * rate > 1e-6:
            self._full_at[name] = full_at
            return wait
        # Put in again at the end: the first is the one that was asked longest ago.
        self._full_at[name] = full_at + 1 / rate
        if len(self._full_at) > self._room:
            self._make_room(now)
        return 0.0

    def _make_room(self, now: float) -> None:
        self._full_at = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
        # Some at once, so that not every request looks through all of them.
        if len(self._full_at) > self._room * 3 // 4:
            for name in list(self._full_at)[: len(self._full_at) - self._room * 3 // 4]:
                del self._full_at[name]


class Paced:
    """Refuses what is more than the caller's tenant may send, before anything reads its body."""

    def __init__(self, app: ASGIApp, rate_of: Callable[[str], float | None], audit: Audit) -> None:
        self._app = app
        self._rate_of = rate_of
        self._audit = audit
        self._rates = Rates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller: Caller = scope[CALLER]
            rate = None if caller is NOBODY else self._rate_of(caller.tenant)
            if rate is not None and (wait := self._rates.take(caller.tenant, rate, time.monotonic())):
                error = RateLimited(
                    f"This tenant may send {rate:g} requests a second. Try again later.", retry_after=math.ceil(wait)
                )
                self._audit.refused(scope, error)
                await send_error(send, error)
                return
        await self._app(scope, receive, send)
