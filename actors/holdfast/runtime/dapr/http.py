"""A pool of connections to the sidecar's HTTP API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from dapr.conf import settings
from yarl import URL

from holdfast.errors import Unavailable
from holdfast.runtime.dapr.in_flight import SidecarCall

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class SidecarHttp:
    """Sends requests to the sidecar, and repeats them only if that is safe.

    A refused connection carried nothing, so it is retried for ``connect_retry_seconds``: daprd may be restarting. A
    request that was sent and not answered may have been executed, so only ``repeatable`` requests are sent again.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        timeout: float | None = None,
        connect_timeout: float = 5.0,
        connect_retry_seconds: float = 3.0,
    ) -> None:
        self.endpoint = (endpoint or _endpoint()).rstrip("/")
        self._base = f"{self.endpoint}/{settings.DAPR_API_VERSION}"
        token = token or settings.DAPR_API_TOKEN
        self._headers = {"dapr-api-token": token} if token else {}
        self.timeout = timeout or float(settings.DAPR_HTTP_TIMEOUT_SECONDS)
        self._connect_timeout = connect_timeout
        self._connect_retry_seconds = connect_retry_seconds
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._asking = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    async def ask(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
        connect_retry_seconds: float | None = None,
    ) -> Answer:
        """Sends a request; the path is already encoded. Raises Unavailable if there is no reply."""
        self._asking += 1
        self._all_answered.clear()
        try:
            async with SidecarCall(timeout or self.timeout):
                return await self._ask(
                    verb,
                    path,
                    body,
                    headers,
                    repeatable,
                    self._connect_retry_seconds if connect_retry_seconds is None else connect_retry_seconds,
                )
        except TimeoutError as error:
            raise Unavailable("The sidecar did not reply in time. Try again.") from error
        finally:
            self._asking -= 1
            if self._asking == 0:
                self._all_answered.set()

    async def all_answered(self) -> None:
        await self._all_answered.wait()

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _ask(
        self,
        verb: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        repeatable: bool,
        connect_retry_seconds: float,
    ) -> Answer:
        session = self._open()
        url = URL(self._base + path, encoded=True)
        clock = asyncio.get_running_loop().time
        deadline = clock() + connect_retry_seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                async with session.request(verb, url, data=body, headers=headers) as answer:
                    return Answer(answer.status, await answer.read(), answer.headers)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                if clock() + pause > deadline:
                    raise Unavailable(f"The sidecar at {self.endpoint} cannot be reached. Try again.") from error
            except aiohttp.ClientError as error:
                if not repeatable or clock() + pause > deadline:
                    raise Unavailable("The connection to the sidecar was lost. Try again.") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unavailable("The connection to the sidecar is closed.")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No limit: a call that waits for its actor holds a connection, and that actor, perhaps in this process
                # too, needs one to reach its state. A full pool would be a deadlock.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout),
                headers={"content-type": "application/json", **self._headers},
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _endpoint() -> str:
    return str(settings.DAPR_HTTP_ENDPOINT or f"http://{settings.DAPR_RUNTIME_HOST}:{settings.DAPR_HTTP_PORT}")
