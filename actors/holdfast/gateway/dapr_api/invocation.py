"""Service invocation on the embedded host: calls by app id, which are requests to this server itself.

An app id is given as daprd (1.18) accepts it: in the path ``/v1.0/invoke/APP-ID/method/…``, in the header
``dapr-app-id``, or as the password of the user ``dapr-app-id`` in Basic authentication.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from holdfast.gateway.dapr_api.sidecar import app_id_in, serves
from holdfast.gateway.middleware.access import BY_GRPC, INVOKED

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_APP_ID_HEADER = b"dapr-app-id"
# The namespace that daprd has on one machine; it may follow an app id.
_NAMESPACE = ".default"


class ServiceInvocation:
    """Middleware that turns a call of this server's app id into the request that the app would get from daprd.

    A call of another app id gets a path that is refused when the caller has been authenticated.
    """

    def __init__(self, app: ASGIApp, app_id: str) -> None:
        self._app = app
        self._app_ids = app_ids(app_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not serves(scope["path"]) and BY_GRPC not in scope:
            self._redirect(scope)
        await self._app(scope, receive, send)

    def _redirect(self, scope: Scope) -> None:
        path: bytes = scope["raw_path"].partition(b"?")[0]
        if app_id := _named_in_headers(scope):
            # The app does not get the header from daprd either.
            scope["headers"] = [header for header in scope["headers"] if header[0] != _APP_ID_HEADER]
        elif (found := app_id_in(path)) is not None:
            app_id, path = found
        else:
            return
        if app_id in self._app_ids:
            _set_path(scope, resolved(path))
            scope[INVOKED] = True
        else:
            _set_path(scope, b"/v1.0/invoke/%b/method/" % quote(app_id, safe="").encode())


def app_ids(app_id: str) -> tuple[str, str]:
    """Returns the ids by which an app is called: its own, and the same with its namespace."""
    return app_id, app_id + _NAMESPACE


def resolved(path: bytes) -> bytes:
    """Returns the path without empty and dot segments, as daprd resolves it. Encoded slashes stay encoded."""
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        match unquote_to_bytes(segment):
            case b"" | b".":
                pass
            case b"..":
                del kept[-1:]
            case _:
                kept.append(segment)
    return b"/" + b"/".join(kept)


def _set_path(scope: Scope, path: bytes) -> None:
    # In place: the connection has the same scope.
    scope["raw_path"] = path
    scope["path"] = unquote_to_bytes(path).decode("utf-8", "replace")


def _named_in_headers(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == _APP_ID_HEADER and value:
            return str(value, "latin-1")
        if name == b"authorization" and value.startswith(b"Basic "):
            user, _, app_id = _decoded(value.removeprefix(b"Basic ")).partition(":")
            if user.lower() == _APP_ID_HEADER.decode() and ":" not in app_id:
                return app_id
    return ""


def _decoded(credentials: bytes) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode("latin-1")
    except ValueError:
        return ""
