"""Who may call: a token, where one is set."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from holdfast.errors import Unauthorized
from holdfast.gateway import page
from holdfast.gateway.answers import send_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

#: What shows no data: probes, and the page's own files.
OPEN_PATHS = frozenset({"/healthz", "/readyz", *page.FILES})


class TokenRequired:
    """Refuses requests without ``Authorization: Bearer TOKEN``. Comparing takes the same time for any token."""

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
        given: bytes = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, token = given.partition(b" ")
        return hmac.compare_digest(token.strip(), self._expected) and kind.lower() == b"bearer"
