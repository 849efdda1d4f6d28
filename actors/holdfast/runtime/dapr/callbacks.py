"""What daprd calls on the app: the actor types it has, turns, reminders, timers, deactivations."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from typing import TYPE_CHECKING, Any

from dapr.ext.fastapi import DaprActor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdfast.errors import InvalidRequest, NotTheSidecar
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.dapr.neighbours import SIGNATURE_HEADER
from holdfast.runtime.dapr.repeats import CALL_ID_HEADER, Repeats
from holdfast.runtime.faults import describe
from holdfast.runtime.rates import Rates
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import APIRouter, FastAPI
    from starlette.types import Receive, Scope, Send

    from holdfast.runtime.dapr.host import DaprHost

log = logging.getLogger(__name__)

_JSON = "application/json"
# Lines in a second: whoever tries again and again shall not fill the log.
_MAX_REFUSALS_TOLD = 1.0
# daprd then forgets the timer.
_CANCEL = {"X-DaprReminderCancel": "true"}


class Callbacks(DaprActor):
    """The SDK's routes with bodies of our own.

    The SDK's (1.18.3) answer every error with its ``repr``, whatever it gives away, take calls from anybody, and know
    one runtime per process.
    """

    def __init__(self, app: FastAPI, host: DaprHost, token: str | None) -> None:
        self._app = app
        self._host = host
        self._repeats = Repeats()
        self._rates = Rates()
        self._token = token.encode() if token else None
        super().__init__(app, router_tags=None)

    def init_routes(self, router: APIRouter) -> None:
        actor = "/actors/{actor_type}/{actor_id}"
        self._answer_turn = self._guarded(actor + "/method/{name}", self._method)
        # Plain routes of the app itself, the busiest first: FastAPI's own look for dependencies and validate, and those
        # of an included router are matched twice, on every turn.
        for path, method, endpoint in (
            (actor + "/method/{name}", "PUT", self._method),
            (actor + "/method/remind/{name}", "PUT", self._reminder),
            (actor + "/method/timer/{name}", "PUT", self._timer),
            (actor, "DELETE", self._deactivate),
            ("/dapr/config", "GET", self._config),
        ):
            self._app.router.add_route(path, self._guarded(path, endpoint), methods=[method], include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What daprd calls, without a search for the route of nearly all of it: a turn."""
        parts = scope["path"].split("/")
        if scope["method"] == "PUT" and len(parts) == 6 and (parts[1], parts[4]) == ("actors", "method"):
            scope["path_params"] = {"actor_type": parts[2], "actor_id": parts[3], "name": parts[5]}
            response = await self._answer_turn(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await self._app.router(scope, receive, send)

    async def _config(self, request: Request) -> Response:
        # Only daprd says whose app it thinks it asks; what others look at changes nothing.
        if app_id := request.headers.get("dapr-app-id"):
            await self._host.meet_sidecar(app_id)
        return Response(self._host.configuration(), media_type=_JSON)

    async def _deactivate(self, request: Request) -> Response:
        await self._host.deactivate(_address(request))
        return Response()

    async def _method(self, request: Request) -> Response:
        address, name, body = _address(request), request.path_params["name"], await request.body()
        if call_id := request.headers.get(CALL_ID_HEADER):
            result = await self._repeats.once(
                (address, name, call_id), lambda: self._host.call(address, name, body), lambda: _is_there(request)
            )
        else:
            result = await self._host.call(address, name, body)
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
            # For whoever counts requests; FastAPI (0.162) says it of its own routes only.
            request.scope["route"] = path
            try:
                self._check_caller(request)
                _check_path(request)
                return await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except NotTheSidecar as error:
                if not self._rates.take("", _MAX_REFUSALS_TOLD, time.monotonic()):
                    log.warning("refused %s %s from %s: %s", request.method, request.url.path, request.client, error)
                return _error(403, error.as_json_safe_dict())
            except Exception as error:
                # Goes to the caller as far as it is meant for one; the rest goes to the log.
                return _error(500, describe(error, _where(request)))

        return answer

    def _check_caller(self, request: Request) -> None:
        if self._token is not None:
            given = request.headers.get("dapr-api-token", "").encode()
            if not hmac.compare_digest(given, self._token):
                self._host.refused_sidecar = True
                raise NotTheSidecar("This app expects another APP_API_TOKEN than its sidecar sends.")
        elif not _on_this_machine(request):
            raise NotTheSidecar("Without an APP_API_TOKEN this app takes calls from a sidecar on its own machine only.")


async def _is_there(request: Request) -> bool:
    return not await request.is_disconnected()


def _address(request: Request) -> ActorAddress:
    return ActorAddress(request.path_params["actor_type"], request.path_params["actor_id"])


def _check_path(request: Request) -> None:
    # daprd (1.18.2) puts ids into this path undecoded: its actor 'x%41' would be our 'xA', which daprd locks and places
    # as another actor. No id of ours needs encoding.
    if b"%" in request.scope["raw_path"]:
        raise InvalidRequest("An actor's id and the name of what is called may not need encoding.")


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
