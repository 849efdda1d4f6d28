"""Who may call: no pages of other sites, and only those with the token, where one is set."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from holdfast.errors import Forbidden, HoldfastError, InvalidRequest, Unauthorized
from holdfast.gateway import page
from holdfast.gateway.answers import send_error
from holdfast.gateway.callers import CALLER, NOBODY, Caller
from holdfast.identity import check_tenant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.gateway.audit import Audit
    from holdfast.gateway.tokens import Tokens

#: What shows no data: probes, and the page's own files.
OPEN_PATHS = frozenset({"/healthz", "/readyz", *page.FILES})

# Where a Dapr SDK looks for its sidecar.
_SIDECAR_API = "/v1.0/"
_WHO = frozenset({b"authorization", b"dapr-api-token", b"holdfast-tenant"})
_EVERYBODY = Caller()
# Names under which others take a token in the URL.
_SECRETS = frozenset(
    {"token", "access_token", "auth_token", "api_key", "apikey", "authorization", "bearer", "password"}
)
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

    def __init__(self, app: ASGIApp, audit: Audit, *, loopback_names: bool) -> None:
        self._app = app
        self._audit = audit
        self._loopback_names = loopback_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (error := self._refusal(scope)):
            self._audit.refused(scope, error)
            await send_error(send, error)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> HoldfastError | None:
        refusal = origin = host = None
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    return InvalidRequest("The header Host is there twice.")
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
        return None if refusal is None or scope["path"] in OPEN_PATHS else Forbidden(refusal)


@lru_cache(maxsize=64)
def _names_loopback(host: bytes) -> bool:
    text = host.decode("latin-1")
    return is_loopback(text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0])


class Identified:
    """Finds out who calls, and leaves it in the scope. Always there: without tokens everybody is an operator.

    A token comes as ``Authorization: Bearer TOKEN``. A Dapr SDK knows only its own header, ``dapr-api-token``, which is
    as good where it looks for a sidecar.
    """

    def __init__(
        self, app: ASGIApp, audit: Audit, tokens: Callable[[], Tokens] | None, sidecar_paths: Collection[str] = ()
    ) -> None:
        self._app = app
        self._audit = audit
        self._tokens = tokens
        # What daprd calls has a token of its own, which the Dapr host checks.
        self._sidecar_paths = tuple(sidecar_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._identify(scope)
            except HoldfastError as error:
                self._audit.refused(scope, error)
                await send_error(send, error)
                return
        await self._app(scope, receive, send)

    def _identify(self, scope: Scope) -> None:
        path: str = scope["path"]
        scope[CALLER] = NOBODY
        if path.startswith(self._sidecar_paths):
            return
        if scope["query_string"]:
            _check_query(scope["query_string"])
        if path in OPEN_PATHS:
            return
        given = _given(scope)
        caller = _EVERYBODY if self._tokens is None else self._known(self._tokens(), path, given)
        # Also of whoever is refused below, the audit log says who it was.
        scope[CALLER] = caller
        if (named := given.get(b"holdfast-tenant")) is not None:
            scope[CALLER] = caller = _of_tenant(caller, named)
        if path.startswith(_SIDECAR_API):
            caller.must_run_the_server()

    def _known(self, tokens: Tokens, path: str, given: dict[bytes, bytes]) -> Caller:
        kind, _, bearer = given.get(b"authorization", b"").partition(b" ")
        sent = [bearer.strip()] if kind.lower() == b"bearer" else []
        if path.startswith(_SIDECAR_API):
            sent.append(given.get(b"dapr-api-token", b""))
        for token in sent:
            if (caller := tokens.caller(token)) is not None:
                return caller
        raise Unauthorized("This token is not known here." if any(sent) else None)


def _check_query(query: bytes) -> None:
    names = (unquote_to_bytes(part.partition(b"=")[0]) for part in query.split(b"&"))
    if any(name.decode("latin-1").lower() in _SECRETS for name in names):
        raise InvalidRequest(
            "A token is sent as 'Authorization: Bearer TOKEN', never in the URL, which others write down: "
            "if this was one, make a new one."
        )


def _given(scope: Scope) -> dict[bytes, bytes]:
    """The headers that say who calls, each of them once."""
    given: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _WHO:
            if name in given:
                # Whoever stands before this server may have looked at the other one.
                raise InvalidRequest(f"The header {name.decode().title()} is there twice.")
            given[name] = value
    return given


def _of_tenant(caller: Caller, header: bytes) -> Caller:
    tenant = check_tenant(header.decode("latin-1"))
    if tenant == caller.tenant:
        return caller
    if caller.bound:
        raise Forbidden("This token belongs to another tenant than the header Holdfast-Tenant names.")
    return replace(caller, tenant=tenant)
