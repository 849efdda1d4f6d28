"""Who may call: no pages of other sites, and only those with the token, where one is set."""

from __future__ import annotations

import hmac
import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.errors import Forbidden, Unauthorized
from holdfast.gateway import page
from holdfast.gateway.answers import send_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

#: What shows no data: probes, and the page's own files.
OPEN_PATHS = frozenset({"/healthz", "/readyz", *page.FILES})

# Where a Dapr SDK looks for its sidecar.
_SIDECAR_API = "/v1.0/"
_ELSEWHERE = frozenset({b"cross-site", b"same-site"})
_OTHER_SITES = "Pages of other sites may not call this server."


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


class OwnSiteOnly:
    """Refuses what a browser sends for a page of another site.

    A page may send a plain POST anywhere without asking, and bodies are JSON here whatever their type says. With
    ``loopback_names``, a request must also call this server by a name that only this machine can mean: a page
    whose own name suddenly stands for 127.0.0.1 is of the same site to the browser.
    """

    def __init__(self, app: ASGIApp, *, loopback_names: bool) -> None:
        self._app = app
        self._loopback_names = loopback_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)):
            await send_error(send, Forbidden(refusal))
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        refusal = origin = host = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
                if self._loopback_names and not _names_loopback(value):
                    refusal = (
                        "Without a token this server answers only to localhost and loopback addresses: set --token."
                    )
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site" and value in _ELSEWHERE:
                refusal = _OTHER_SITES
        # Browsers that do not say how a request came about still say from where.
        if origin is not None and origin.partition(b"://")[2] != host:
            refusal = _OTHER_SITES
        return None if scope["path"] in OPEN_PATHS else refusal


@lru_cache(maxsize=64)
def _names_loopback(host: bytes) -> bool:
    text = host.decode("latin-1")
    return is_loopback(text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0])


class TokenRequired:
    """Refuses requests without ``Authorization: Bearer TOKEN``. Comparing takes the same time for any token.

    A Dapr SDK knows only its own header, ``dapr-api-token``, which is as good where it looks for a sidecar.
    """

    def __init__(self, app: ASGIApp, token: str, sidecar_paths: Collection[str] = ()) -> None:
        self._app = app
        self._expected = token.encode()
        # What daprd calls has a token of its own, which the Dapr host checks.
        self._sidecar_paths = tuple(sidecar_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._allowed(scope):
            await send_error(send, Unauthorized())
            return
        await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path in OPEN_PATHS or path.startswith(self._sidecar_paths):
            return True
        headers: dict[bytes, bytes] = dict(scope["headers"])
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        if hmac.compare_digest(token.strip(), self._expected) and kind.lower() == b"bearer":
            return True
        return path.startswith(_SIDECAR_API) and hmac.compare_digest(
            headers.get(b"dapr-api-token", b""), self._expected
        )
