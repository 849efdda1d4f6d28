"""How many requests a tenant may send in a second."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from holdfast.errors import RateLimited
from holdfast.gateway.answers import send_error
from holdfast.gateway.callers import CALLER, NOBODY
from holdfast.runtime.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.audit import Audit
    from holdfast.gateway.callers import Caller


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
