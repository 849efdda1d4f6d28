"""Limits the requests per second of each tenant."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from holdfast.errors import RateLimited
from holdfast.gateway.auth.principal import ANONYMOUS, CALLER
from holdfast.gateway.error_responses import send_error
from holdfast.runtime.rate_limit import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.auth.principal import Caller


class RateLimit:
    """Refuses requests above the rate of the caller's tenant, before their bodies are read."""

    def __init__(self, app: ASGIApp, rate_of: Callable[[str], float | None], audit: AuditLog) -> None:
        self._app = app
        self._rate_of = rate_of
        self._audit = audit
        self._rates = RateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller: Caller = scope[CALLER]
            rate = None if caller is ANONYMOUS else self._rate_of(caller.tenant)
            if rate is not None and (wait := self._rates.take(caller.tenant, rate, time.monotonic())):
                error = RateLimited(
                    f"This tenant may send {rate:g} requests per second. Try again later.", retry_after=math.ceil(wait)
                )
                self._audit.refused(scope, error)
                await send_error(send, error)
                return
        await self._app(scope, receive, send)
