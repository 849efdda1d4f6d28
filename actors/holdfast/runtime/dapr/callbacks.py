"""The app's endpoints that daprd calls: configuration, turns, reminders, timers, deactivations."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from typing import TYPE_CHECKING, Any

from dapr.ext.fastapi import DaprActor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdfast.errors import Forbidden, InvalidRequest, NotTheSidecar, Unauthorized
from holdfast.runtime.actor_api.errors import error_body
from holdfast.runtime.arguments import argument_of, without_nothing
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.dapr.admission import PROOF_HEADER
from holdfast.runtime.dapr.app_id_conflicts import SIGNATURE_HEADER
from holdfast.runtime.dapr.call_dedup import CALL_ID_HEADER, CallDeduplicator
from holdfast.runtime.rate_limit import RateLimiter
from holdfast.runtime.serialization import check_depth, dump
from holdfast.tracing.spans import incoming
from holdfast.tracing.traceparent import in_headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import APIRouter, FastAPI
    from starlette.types import Receive, Scope, Send

    from holdfast.errors import HoldfastError
    from holdfast.runtime.dapr.host import DaprHost

log = logging.getLogger(__name__)

_JSON = "application/json"
# The app that called its own daprd. daprd sets it on actor calls and service invocation, whatever the caller sent.
_CALLER_HEADER = "dapr-caller-app-id"
# The app that was called by its id. daprd sets it on service invocation only.
_CALLEE_HEADER = "dapr-callee-app-id"
# Log lines per second: repeated attempts must not fill the log.
_MAX_REFUSALS_LOGGED = 1.0
# Makes daprd drop the timer.
_CANCEL = {"X-DaprReminderCancel": "true"}


class Callbacks(DaprActor):
    """The SDK's routes with our own implementation.

    The SDK's (1.18.3) reply to every error with its ``repr``, which may leak internals, accept calls from any client,
    and support one runtime per process.
    """

    def __init__(self, app: FastAPI, host: DaprHost, token: str | None) -> None:
        self._app = app
        self._host = host
        self._dedup = CallDeduplicator()
        self._rates = RateLimiter()
        self._token = token.encode() if token else None
        super().__init__(app, router_tags=None)

    def init_routes(self, router: APIRouter) -> None:
        actor = "/actors/{actor_type}/{actor_id}"
        self._answer_turn = self._guarded(actor + "/method/{name}", self._method)
        # Plain routes of the app itself, the busiest first: FastAPI's own resolve dependencies and validate, and routes
        # of an included router are matched twice, on every turn.
        for path, method, endpoint in (
            (actor + "/method/{name}", "PUT", self._method),
            (actor + "/method/remind/{name}", "PUT", _by_daprd_itself(self._reminder)),
            (actor + "/method/timer/{name}", "PUT", _by_daprd_itself(self._timer)),
            (actor, "DELETE", _by_daprd_itself(self._deactivate)),
            ("/dapr/config", "GET", _by_daprd_itself(self._config)),
        ):
            self._app.router.add_route(path, self._guarded(path, endpoint), methods=[method], include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatches daprd's calls; turns, nearly all of them, skip the route search."""
        parts = scope["path"].split("/")
        if scope["method"] == "PUT" and len(parts) == 6 and (parts[1], parts[4]) == ("actors", "method"):
            scope["path_params"] = {"actor_type": parts[2], "actor_id": parts[3], "name": parts[5]}
            response = await self._answer_turn(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await self._app.router(scope, receive, send)

    async def _config(self, request: Request) -> Response:
        # Only daprd sends its app-id; a request by any other client changes nothing.
        if app_id := request.headers.get("dapr-app-id"):
            await self._host.meet_sidecar(app_id)
        return Response(self._host.configuration(), media_type=_JSON)

    async def _deactivate(self, request: Request) -> Response:
        await self._host.deactivate(_address(request))
        return Response()

    async def _method(self, request: Request) -> Response:
        address, name, sent = _address(request), request.path_params["name"], await request.body()
        call_id = request.headers.get(CALL_ID_HEADER, "")
        proof = request.headers.get(PROOF_HEADER, "")
        is_ours = self._host.client.proofs.prove(proof, address, name, call_id, sent)
        body = sent
        if not is_ours:
            self._host.admission.check(address, name, request.headers)
            body = argument_of(address.type, sent)
            incoming.set(in_headers(request.scope["headers"]))
        if not self._host.admission.knows(address.type):
            # Holdfast's own actors reject it themselves, with a reply that an actor proxy understands.
            check_depth(body)
        if is_ours and call_id:
            result = await self._dedup.once(
                (address, name, call_id), lambda: self._host.call(address, name, body), lambda: _is_connected(request)
            )
        else:
            result = await self._host.call(address, name, body)
        if not is_ours:
            result = without_nothing(result, plain=not sent and "content-type" not in request.headers)
        return Response(result, media_type=_JSON, headers={SIGNATURE_HEADER: self._host.app_id})

    async def _reminder(self, request: Request) -> Response:
        await self._host.remind(_address(request), request.path_params["name"], await request.body())
        return Response()

    async def _timer(self, request: Request) -> Response:
        wanted = await self._host.fire_timer(_address(request), request.path_params["name"], await request.body())
        return Response(headers={} if wanted else _CANCEL)

    def _guarded(
        self, path: str, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            # For the request metrics; FastAPI (0.162) sets it for its own routes only.
            request.scope["route"] = path
            try:
                self._check_caller(request)
                _check_path(request)
                return await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except NotTheSidecar as error:
                self._log_refusal(request, error)
                return _error(403, error.as_dict())
            except (Forbidden, Unauthorized) as error:
                self._log_refusal(request, error)
                return _error(500, error_body(error, _where(request)))
            except Exception as error:
                # The caller gets a HoldfastError in full; other errors are logged.
                return _error(500, error_body(error, _where(request)))

        return answer

    def _log_refusal(self, request: Request, error: HoldfastError) -> None:
        if not self._rates.take("", _MAX_REFUSALS_LOGGED, time.monotonic()):
            caller = request.headers.get(_CALLER_HEADER) or request.client
            log.warning("refused %s %s from %s: %s", request.method, request.url.path, caller, error)

    def _check_caller(self, request: Request) -> None:
        if self._token is not None:
            given = request.headers.get("dapr-api-token", "").encode()
            if not hmac.compare_digest(given, self._token):
                self._host.refused_sidecar = True
                raise NotTheSidecar("The sidecar sends another APP_API_TOKEN than this app expects.")
        elif not _on_this_machine(request):
            raise NotTheSidecar("Without an APP_API_TOKEN this app accepts only calls of a sidecar on its own machine.")
        # daprd sends its APP_API_TOKEN with service invocations too.
        if _CALLEE_HEADER in request.headers:
            raise NotTheSidecar("Service invocation does not reach actors: call them through the actor API.")


def _by_daprd_itself(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Rejects calls of apps: over gRPC, an app could call an actor method named ``remind/wake``."""

    async def answer(request: Request) -> Response:
        if _CALLER_HEADER in request.headers:
            raise NotTheSidecar("Only daprd may fire reminders and timers and deactivate actors.")
        return await endpoint(request)

    return answer


async def _is_connected(request: Request) -> bool:
    return not await request.is_disconnected()


def _address(request: Request) -> ActorAddress:
    return ActorAddress(request.path_params["actor_type"], request.path_params["actor_id"])


def _check_path(request: Request) -> None:
    # daprd (1.18.2) puts ids into this path undecoded: its actor 'x%41' would be our 'xA', which daprd locks and places
    # as another actor. Our ids need no encoding.
    if b"%" in request.scope["raw_path"]:
        raise InvalidRequest("Actor ids and method names must not contain characters that need URL encoding.")


def _on_this_machine(request: Request) -> bool:
    if request.client is None:
        return True  # a Unix socket
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _where(request: Request) -> str:
    parameters = request.path_params
    parts = (parameters.get("actor_type"), parameters.get("actor_id"), parameters.get("name"))
    return ".".join(part for part in parts if part) or request.url.path


def _error(status: int, body: dict[str, Any]) -> Response:
    return Response(dump(body), status_code=status, media_type=_JSON)
