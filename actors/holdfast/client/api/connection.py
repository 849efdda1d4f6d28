"""A pooled HTTP connection to a server: turns responses into values or errors, and retries calls that may be."""

from __future__ import annotations

import asyncio
import os
import random
import re
import ssl
from enum import Enum
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from holdfast.errors import (
    AnswerLost,
    Capacity,
    ClientClosed,
    ConnectionFailed,
    HoldfastError,
    PartitionUnavailable,
    RateLimited,
    SettingsError,
    Unavailable,
    by_code,
)
from holdfast.names import VISIBLE, check_tenant
from holdfast.runtime.serialization import load
from holdfast.tracing.spans import current
from holdfast.tracing.traceparent import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

# uvicorn closes connections that were idle for 5 s. We close them sooner, since a request sent while the server
# closes the connection may or may not have arrived.
_KEEP_ALIVE_SECONDS = 4.0


class Repeat(Enum):
    """When a failed call may be repeated."""

    #: Only if nothing of it was sent, since the call is not idempotent. A 503 is not repeated either: the server
    #: also returns it for a save whose outcome it does not know.
    UNLESS_SENT = "unless sent"
    #: The call is idempotent.
    ALWAYS = "always"


#: Transient errors: a later attempt may succeed.
PASSING = (ConnectionFailed, AnswerLost, Unavailable, PartitionUnavailable, Capacity, RateLimited)

# Errors after which it is certain that the request had no effect.
_NOTHING_DONE = (ConnectionFailed, Capacity, RateLimited)


class Connection:
    """Makes the calls of the REST interface, each with a timeout."""

    def __init__(self, url: str, *, token: str | None, timeout: float, retries: int, tenant: str | None = None) -> None:
        self._url = _checked(url)
        self._headers = {"Authorization": f"Bearer {_fit_for_headers(token)}"} if token else {}
        if tenant:
            self._headers["Holdfast-Tenant"] = check_tenant(tenant)
        self._timeout = timeout
        self._retries = retries
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        # No limit on connections: long polls must never keep an acknowledgement waiting.
        # aiohttp (3.14) loads the certificate authorities when it is imported; SSL_CERT_FILE may have been set since.
        trusted: ssl.SSLContext | bool = ssl.create_default_context() if self._url.scheme == "https" else True
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=trusted)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        # aiohttp (3.14) repeats a DELETE or PUT whose response was lost, and has no public switch to turn that off:
        # a repeated purge would remove items that were pushed in between.
        self._session._retry_connection = False

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def leave_to_parent(self) -> object:
        """Returns the open session without closing it, in a forked process: the parent uses its sockets.

        The caller keeps the session, because to collect it would close them.
        """
        session, self._session = self._session, None
        return session

    async def call(
        self,
        method: str,
        path: str,
        *,
        repeat: Repeat,
        params: Mapping[str, str | int | float | list[str]] | None = None,
        body: bytes | None = None,
        wait_seconds: float = 0,
        wait_as: str | None = None,
    ) -> dict[str, Any]:
        """Returns the response. An error after an attempt with unknown outcome has that attempt's error as its cause.

        ``wait_as`` names the query parameter that tells the server how long it may wait.
        """
        clock = asyncio.get_running_loop().time
        wait_until = clock() + wait_seconds
        unclear: HoldfastError | None = None
        pauses = pauses_between_attempts()
        for attempt in range(self._retries + 1):
            left = max(0.0, wait_until - clock())
            query = {**(params or {}), **({} if wait_as is None else {wait_as: left})}
            try:
                return await self._once(method, path, query, body, left)
            except PASSING as error:
                if not isinstance(error, _NOTHING_DONE):
                    unclear = error
                pause = max(next(pauses), error.details.get("retry_after_seconds", 0))
                last = attempt == self._retries or pause > self._timeout
                if last or (unclear and repeat is Repeat.UNLESS_SENT):
                    # ConnectionFailed would say that nothing was done, but an earlier attempt may have done it.
                    raised = unclear or error
                    raise raised from raised.__cause__
                await asyncio.sleep(pause)
            except HoldfastError as error:
                raise error from unclear
        raise AssertionError("the last attempt returns or raises")

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | float | list[str]],
        body: bytes | None,
        wait_seconds: float,
    ) -> dict[str, Any]:
        if self._session is None:
            raise ClientClosed
        timeout = aiohttp.ClientTimeout(total=self._timeout + wait_seconds, sock_connect=CONNECT_SECONDS)
        url = self._url.joinpath(path, encoded=True).with_query(query)
        try:
            async with self._session.request(
                method, url, data=body, headers=_trace_headers(), timeout=timeout, allow_redirects=False
            ) as response:
                data = await response.read()
        except aiohttp.ClientConnectorCertificateError as error:
            raise ConnectionFailed(
                f"The certificate of {self._url} is not trusted, so nothing was done: {error.certificate_error}. "
                "Set SSL_CERT_FILE to a file with the certificate authorities to trust."
            ) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConnectionFailed(f"Cannot reach {self._url}, so nothing was done: {reason}.") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = str(error) or f"none within {timeout.total:g} s"
            raise AnswerLost(
                f"No response from {self._url} ({reason}): the request may or may not have been carried out."
            ) from error
        return self._understood(response, data)

    def _understood(self, response: aiohttp.ClientResponse, data: bytes) -> dict[str, Any]:
        try:
            answer = load(data)
        except ValueError:
            answer = None
        if response.status in (200, 202) and isinstance(answer, dict):
            return answer
        if isinstance(answer, dict) and isinstance(answer.get("error_code"), str):
            details = {key: value for key, value in answer.items() if key not in ("success", "message", "error_code")}
            details |= _retry_after(response)
            raise by_code(answer["error_code"], str(answer.get("message", "")), **details)
        message = f"{self._url} responded with status {response.status}, and not as a Holdfast server: check the URL."
        # A proxy responds with these while the server behind it is down.
        kind = Unavailable if response.status in (502, 503, 504) else HoldfastError
        raise kind(message, **_retry_after(response))


def _trace_headers() -> dict[str, str] | None:
    """Returns the header with the current trace context, if the program makes spans with OpenTelemetry."""
    context = current()
    return None if context is None else {HEADER: context}


def pauses_between_attempts(longest: float = LONGEST_PAUSE) -> Iterator[float]:
    """Yields pauses that double each time, with jitter, so that clients do not retry in step."""
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, longest)


def _checked(url: str) -> URL:
    try:
        parsed = URL(url)
    except ValueError as error:
        raise SettingsError(f"{url} is not a URL: {error}.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise SettingsError(f"{url} is not the URL of a server. An example is http://127.0.0.1:8080.")
    return parsed.with_query(None).with_fragment(None)


def _fit_for_headers(token: str) -> str:
    if not re.fullmatch(f"{VISIBLE}+", token):
        raise SettingsError(
            "The token has characters that are not allowed in tokens: check for spaces, and for the line end of a "
            "file it was read from."
        )
    return token


def _retry_after(response: aiohttp.ClientResponse) -> dict[str, float]:
    seconds = response.headers.get("Retry-After", "")
    return {"retry_after_seconds": float(seconds)} if seconds.isdigit() else {}
