"""One pooled connection to a server: answers become values or errors, and what may be repeated is."""

from __future__ import annotations

import asyncio
import os
import random
import re
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
from holdfast.identity import VISIBLE, check_tenant
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

# uvicorn closes a connection that was idle for 5 s. Closing it sooner here keeps a request from meeting that end,
# after which nobody could say whether it arrived.
_KEEP_ALIVE_SECONDS = 4.0


class Repeat(Enum):
    """When a call that failed may be made again."""

    #: Only while nothing of it was sent: done twice, it would count twice. That rules out a 503 too, since a save
    #: whose outcome the server does not know is one.
    UNLESS_SENT = "unless sent"
    #: Done twice, it is as if done once.
    ALWAYS = "always"


#: What passes when one tries again.
PASSING = (ConnectionFailed, AnswerLost, Unavailable, PartitionUnavailable, Capacity, RateLimited)

# After which everything is as it was before.
_NOTHING_DONE = (ConnectionFailed, Capacity, RateLimited)


class Connection:
    """Calls of the REST interface, each with a time-out."""

    def __init__(self, url: str, *, token: str | None, timeout: float, retries: int, tenant: str | None = None) -> None:
        self._url = _checked(url)
        self._headers = {"Authorization": f"Bearer {_fit_for_headers(token)}"} if token else {}
        if tenant:
            self._headers["Holdfast-Tenant"] = check_tenant(tenant)
        self._timeout = timeout
        self._retries = retries
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        # As many connections as there are calls: long polls must never keep an acknowledgement waiting.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        # aiohttp (3.14) repeats a DELETE or a PUT whose answer was lost by itself, and has no public switch for it: a
        # purge that nobody asked for twice would take what was pushed in between.
        self._session._retry_connection = False

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        repeat: Repeat,
        params: Mapping[str, str | int | float] | None = None,
        body: bytes | None = None,
        wait_seconds: float = 0,
        wait_as: str | None = None,
    ) -> dict[str, Any]:
        """The answer. An error that follows an attempt whose outcome is not known has that attempt's as its cause.

        The server is told to wait, for something to come, by the parameter ``wait_as``.
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
                    # Not "nothing was done" when an earlier attempt may have done it.
                    told = unclear or error
                    raise told from told.__cause__
                await asyncio.sleep(pause)
            except HoldfastError as error:
                raise error from unclear
        raise AssertionError("the last attempt returns or raises")

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | float],
        body: bytes | None,
        wait_seconds: float,
    ) -> dict[str, Any]:
        if self._session is None:
            raise ClientClosed
        timeout = aiohttp.ClientTimeout(total=self._timeout + wait_seconds, sock_connect=CONNECT_SECONDS)
        url = self._url.joinpath(path, encoded=True).with_query(query)
        try:
            async with self._session.request(
                method, url, data=body, timeout=timeout, allow_redirects=False
            ) as response:
                data = await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConnectionFailed(f"{self._url} cannot be reached, so nothing was done: {reason}.") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = str(error) or f"there was none within {timeout.total:g} s"
            raise AnswerLost(
                f"The answer of {self._url} did not come ({reason}): what was asked may or may not have been done."
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
        told = f"{self._url} answered with status {response.status} and nothing Holdfast says."
        # What stands before a server, when the server is not there.
        kind = Unavailable if response.status in (502, 503, 504) else HoldfastError
        raise kind(told, **_retry_after(response))


def pauses_between_attempts(longest: float = LONGEST_PAUSE) -> Iterator[float]:
    """Twice as long each time, with jitter, so that those who failed together do not come back together."""
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
        raise SettingsError(f"{url} is not the URL of a server: it looks like http://127.0.0.1:8080.")
    return parsed.with_query(None).with_fragment(None)


def _fit_for_headers(token: str) -> str:
    if not re.fullmatch(f"{VISIBLE}+", token):
        raise SettingsError(
            "The token has characters that no token has: mind spaces, and the line end of a file it was read from."
        )
    return token


def _retry_after(response: aiohttp.ClientResponse) -> dict[str, float]:
    seconds = response.headers.get("Retry-After", "")
    return {"retry_after_seconds": float(seconds)} if seconds.isdigit() else {}
