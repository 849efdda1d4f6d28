"""The other calls of Dapr's HTTP API that SDKs make to their sidecar: health and metadata; all others are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.dapr_api.api_errors import ApiError, no_app_id, no_such_app
from holdfast.gateway.dapr_api.bodies import read_body
from holdfast.gateway.dapr_api.metadata import MAX_KEY
from holdfast.gateway.middleware.access import INVOKED, SIDECAR_API
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.dapr_api.metadata import SidecarMetadata
    from holdfast.runtime.in_process.host import InProcessHost

_HEALTH = ("/v1.0/healthz", "/v1.0/healthz/outbound")
_METADATA = "/v1.0/metadata"
_ACTORS = "/v1.0/actors"
_INVOKE = b"/v1.0/invoke/"
_MAX_METADATA = 64 * 1024


def serves(path: str) -> bool:
    """Returns whether the sidecar itself answers this path, also when the request names an app id."""
    return path in (*_HEALTH, _METADATA) or path.startswith((f"{_METADATA}/", f"{_ACTORS}/"))


def app_id_in(path: bytes) -> tuple[str, bytes] | None:
    """Returns the app id and the app's path, if this is the path of a service invocation."""
    if not path.startswith(_INVOKE):
        return None
    app_id, method, rest = path.removeprefix(_INVOKE).partition(b"/method/")
    if not app_id or not method or b"/" in app_id:
        return None
    return unquote_to_bytes(app_id).decode("utf-8", "replace"), rest


class SidecarApi:
    """Middleware that answers the paths below ``/v1.0/``."""

    def __init__(self, app: ASGIApp, host: InProcessHost, metadata: SidecarMetadata, audit: AuditLog) -> None:
        self._app = app
        self._host = host
        self._metadata = metadata
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(SIDECAR_API) or INVOKED in scope:
            await self._app(scope, receive, send)
            return
        try:
            status, body = await self._answer(scope, receive)
        except ApiError as error:
            status, body = error.status, error.body
        headers = [(b"content-type", b"application/json")] if body else []
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        path: str = scope["path"]
        match scope["method"]:
            case "GET" if path in _HEALTH:
                scope["route"] = path
                return 204 if (await self._host.readiness()).ready else 500, b""
            case "GET" if path == _METADATA:
                scope["route"] = path
                return 200, dump(await self._metadata.read())
            case "PUT" as verb if path.startswith(f"{_METADATA}/"):
                scope["route"] = route = f"{_METADATA}/{{key}}"
                key = path.removeprefix(f"{_METADATA}/")
                await self._put(scope, verb, route, key, receive)
                return 204, b""
            case _:
                if (found := app_id_in(scope["raw_path"])) is not None:
                    raise no_such_app(found[0])
                raise no_app_id()

    async def _put(self, scope: Scope, verb: str, route: str, key: str, receive: Receive) -> None:
        status = 400
        try:
            if not key or "/" in key:
                status = 404
                raise no_app_id()
            body = await read_body(receive, _MAX_METADATA)
            self._metadata.put(key, body.decode("utf-8", "replace"))
            status = 204
        finally:
            self._audit.acted(scope[CALLER], verb, route, {"key": key[:MAX_KEY]}, status)
