"""The audit log: operators' actions and refused requests. It contains names, but no payloads and no secrets."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.gateway.auth.principal import ANONYMOUS, CALLER
from holdfast.runtime.rate_limit import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Scope

    from holdfast.errors import HoldfastError
    from holdfast.gateway.auth.principal import Caller

log = logging.getLogger("holdfast.audit")

#: Log lines per second about refusals of one token or address for one reason, so that no caller can hide others'.
MAX_REFUSALS = 20.0
#: The same for all known tokens together and for all addresses together: guessing tokens must not fill the disk.
MAX_REFUSALS_OF_ALL = 200.0
_MAX_PATH = 200


class AuditLog:
    """Writes the lines of the audit log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rates = RateLimiter()
        self._suppressed = 0

    def acted(self, caller: Caller, verb: str, route: str, names: Mapping[str, str], status: int) -> None:
        """Logs an operator's call and the status of its answer."""
        named = {what: quote(name, safe=":@") for what, name in names.items()}
        words = "".join(f" {what}={name}" for what, name in named.items())
        log.info(
            *(
                "%s %s%s by %s of %s: %d",
                verb,
                route,
                words,
                caller.name or "an anonymous caller",
                caller.tenant,
                status,
            ),
            extra=_fields(verb=verb, route=route, **_who(caller), status=status, names=named),
        )

    def refused(self, scope: Scope, error: HoldfastError, *, with_message: bool = True) -> None:
        """Logs a refused request, without the message of errors that may repeat what the caller sent."""
        caller: Caller | None = scope.get(CALLER)
        path = quote(scope.get("raw_path", b"").decode("latin-1")[:_MAX_PATH], safe="/%:@")
        why = str(error) if with_message else ""
        client = (scope.get("client") or ("a Unix socket",))[0]
        self.refused_connection(client, error, why, verb=scope.get("method", ""), path=path, **_who(caller))

    def refused_connection(self, client: str, error: HoldfastError, why: str, **known: Any) -> None:
        """Logs a refusal on a connection whose request may be incomplete."""
        token = known.get("token", "")
        if self._is_too_much("token" if token else "address", token or client, error.code):
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        said = " ".join(filter(None, (known.get("verb"), known.get("path")))) or "a request"
        whose = f" by {token} of {known['tenant']}" if token else ""
        also = f" ({suppressed} earlier refusals were not logged)" if suppressed else ""
        log.warning(
            *(
                "refused %s%s from %s: %d %s%s%s",
                said,
                whose,
                client,
                error.status,
                error.code,
                why and f" {why}",
                also,
            ),
            extra=_fields(
                **known,
                client=client,
                status=error.status,
                error_code=error.code,
                suppressed=suppressed or None,
            ),
        )

    def _is_too_much(self, kind: str, who: str, code: str) -> bool:
        now = self._clock()
        return bool(
            self._rates.take(f"{kind} {who} {code}", MAX_REFUSALS, now)
            or self._rates.take(kind, MAX_REFUSALS_OF_ALL, now)
        )


def _who(caller: Caller | None) -> dict[str, str]:
    if caller is None or caller is ANONYMOUS:
        return {}
    return {"token": caller.name, "tenant": caller.tenant, "role": caller.role.word}


def _fields(**fields: Any) -> dict[str, Any]:
    """Returns the fields in the form that the JSON log format expects."""
    return {"fields": {name: value for name, value in fields.items() if value not in (None, "", {})}}
