"""Access checks: refuses requests from pages of other sites and, where tokens are set, requests without a valid one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from holdfast.errors import Forbidden, HoldfastError, InvalidRequest, Unauthorized
from holdfast.gateway import ui as page
from holdfast.gateway.auth.principal import ANONYMOUS, CALLER, Caller
from holdfast.gateway.error_responses import send_error
from holdfast.names import check_tenant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.auth.tokens import Tokens
    from holdfast.gateway.middleware.host_names import HostNames

#: Paths that show no data and need no token: probes and the web UI's files. daprd's health endpoint needs none either,
#: and Dapr SDKs poll it without one.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/v1.0/healthz", "/v1.0/healthz/outbound", *page.FILES})

#: The path prefix of the API that Dapr SDKs call on their sidecar.
SIDECAR_API = "/v1.0/"
#: The same over gRPC.
GRPC_API = "/dapr.proto.runtime.v1.Dapr/"
_SIDECAR_APIS = (SIDECAR_API, GRPC_API)
_INVOCATIONS = "/v1.0/invoke/"
#: The key in the ASGI scope of a request that came as a call of this server's app id.
INVOKED = "holdfast.invoked"
#: The key in the ASGI scope of a call that came over gRPC, which browsers do not speak.
BY_GRPC = "holdfast.grpc"
_IDENTITY_HEADERS = frozenset({b"authorization", b"dapr-api-token", b"holdfast-tenant"})
_WITHOUT_TOKENS = Caller()
# Query parameters that other services use for a token.
_SECRETS = frozenset(
    {"token", "access_token", "auth_token", "api_key", "apikey", "authorization", "bearer", "password"}
)
_OTHER_SITE_VALUES = frozenset({b"cross-site", b"same-site"})
_OTHER_SITES = "Pages of other sites may not call this server."


class SameOrigin:
    """Refuses requests that a browser sends for a page of another site.

    A page may send a plain POST to any server without a preflight, and bodies are parsed as JSON whatever their content
    type. The check is the same with tokens, without them and with ``--insecure``. The header Host must also be one that
    ``host_names`` accepts.

    A service may pass on the headers of a page with its calls by app id (:func:`_is_from_service`).
    """

    def __init__(self, app: ASGIApp, audit: AuditLog, host_names: HostNames) -> None:
        self._app = app
        self._audit = audit
        self._accepts = host_names.accepts
        self._host_refusal = host_names.refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and BY_GRPC not in scope and (error := self._refusal(scope)):
            self._audit.refused(scope, error)
            await send_error(send, error)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> HoldfastError | None:
        refusal = origin = host = None
        from_other_site = False
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    return InvalidRequest("The header Host is given twice: send it once.")
                host = value
                if self._accepts is not None and not self._accepts(value):
                    refusal = self._host_refusal
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site" and value in _OTHER_SITE_VALUES:
                from_other_site = True
        # Browsers that do not send Sec-Fetch-Site still send Origin.
        if origin is not None and origin.partition(b"://")[2] != host:
            from_other_site = True
        if from_other_site and not _is_from_service(scope):
            refusal = _OTHER_SITES
        return None if refusal is None or scope["path"] in OPEN_PATHS else Forbidden(refusal)


class Authentication:
    """Identifies the caller and stores it in the scope. Without tokens every caller is an operator.

    A token is sent as ``Authorization: Bearer TOKEN``. Dapr SDKs only know the header ``dapr-api-token``, which is
    accepted on the paths of the sidecar API and for calls by app id.
    """

    def __init__(
        self, app: ASGIApp, audit: AuditLog, tokens: Callable[[], Tokens] | None, sidecar_paths: Collection[str] = ()
    ) -> None:
        self._app = app
        self._audit = audit
        self._tokens = tokens
        # daprd's calls have a token of their own, which the Dapr host checks.
        self._sidecar_paths = tuple(sidecar_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self.identify(scope)
            except HoldfastError as error:
                self._audit.refused(scope, error)
                await send_error(send, error)
                return
        await self._app(scope, receive, send)

    def identify(self, scope: Scope) -> None:
        """Stores the caller in the scope. Raises HoldfastError for a caller that may not make this request."""
        path: str = scope["path"]
        scope[CALLER] = ANONYMOUS
        if path.startswith(self._sidecar_paths):
            return
        if scope["query_string"]:
            _check_query(scope["query_string"])
        if path in OPEN_PATHS:
            return
        given = _given(scope)
        caller = _WITHOUT_TOKENS if self._tokens is None else self._known(self._tokens(), path, given, INVOKED in scope)
        # Set before the checks below, so that the audit log names the caller of a refused request too.
        scope[CALLER] = caller
        if (named := given.get(b"holdfast-tenant")) is not None:
            scope[CALLER] = caller = _of_tenant(caller, named)
        if path.startswith(_SIDECAR_APIS) and INVOKED not in scope:
            caller.require_operator()

    def _known(self, tokens: Tokens, path: str, given: dict[bytes, bytes], invoked: bool) -> Caller:
        kind, _, bearer = given.get(b"authorization", b"").partition(b" ")
        sent = [bearer.strip()] if kind.lower() == b"bearer" else []
        if path.startswith(_SIDECAR_APIS) or invoked:
            sent.append(given.get(b"dapr-api-token", b""))
        for token in sent:
            if (caller := tokens.caller(token)) is not None:
                return caller
        raise Unauthorized("Unknown token." if any(sent) else None)


def _is_from_service(scope: Scope) -> bool:
    """Returns whether this is a call by app id that no page can send.

    A browser asks before it sends the header ``dapr-app-id`` or a token for a page of another site (a preflight), and
    neither this server nor daprd, which passes the question on, permits it. A call by app id alone proves nothing:
    pages can call any sidecar on their machine.
    """
    by_path = scope["path"].startswith(_INVOCATIONS)
    by_sidecar = bearer = sidecar_token = False
    for name, value in scope["headers"]:
        match name:
            case b"dapr-app-id":
                return True
            case b"dapr-callee-app-id":
                by_sidecar = True
            case b"authorization":
                bearer = value[:7].lower() == b"bearer "
            case b"dapr-api-token":
                sidecar_token = True
    # daprd adds a dapr-api-token to the calls that it passes on.
    return bearer if by_sidecar else by_path and (bearer or sidecar_token)


def _check_query(query: bytes) -> None:
    names = (unquote_to_bytes(part.partition(b"=")[0]) for part in query.split(b"&"))
    if any(name.decode("latin-1").lower() in _SECRETS for name in names):
        raise InvalidRequest(
            "Send the token as 'Authorization: Bearer TOKEN', never in the URL, which proxies log. "
            "If this was a token, replace it."
        )


def _given(scope: Scope) -> dict[bytes, bytes]:
    """Returns the headers that identify the caller. Raises InvalidRequest when one of them is given twice."""
    given: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _IDENTITY_HEADERS:
            if name in given:
                # A proxy before this server may have checked the other value.
                raise InvalidRequest(f"The header {name.decode().title()} is given twice: send it once.")
            given[name] = value
    return given


def _of_tenant(caller: Caller, header: bytes) -> Caller:
    tenant = check_tenant(header.decode("latin-1"))
    if tenant == caller.tenant:
        return caller
    if caller.bound:
        raise Forbidden("This token is bound to another tenant than the one in the header Holdfast-Tenant.")
    return replace(caller, tenant=tenant)
