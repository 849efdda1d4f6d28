"""One server: a host, the gateway in front of it, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import os
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from holdfast import __version__
from holdfast.errors import SettingsError
from holdfast.gateway import answers, health, metrics, openapi, page
from holdfast.gateway.access import Identified, OwnSiteOnly
from holdfast.gateway.actors import ActorApi
from holdfast.gateway.audit import Audit
from holdfast.gateway.connections import impatient
from holdfast.gateway.endpoints import Endpoints, Front
from holdfast.gateway.idempotency import Idempotency
from holdfast.gateway.limits import Announced
from holdfast.gateway.metrics import RequestsCounted
from holdfast.gateway.orchestrations import Orchestrations
from holdfast.gateway.pacing import Paced
from holdfast.gateway.queues import Queues
from holdfast.gateway.quotas import NO_QUOTAS
from holdfast.idempotency.actor import IdempotencyActor
from holdfast.orchestration.actor import orchestration_actor
from holdfast.orchestration.index import InstanceIndexActor
from holdfast.orchestration.registry import Registry
from holdfast.orchestration.tenants import TenantIndexActor
from holdfast.orchestration.vigil import VigilActor
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.doorbell import DoorbellActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.inprocess import InProcessHost
from holdfast.worker.beside import BesideServer
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from dapr.actor import Actor
    from starlette.types import ASGIApp

    from holdfast.app import App
    from holdfast.gateway.quotas import Quotas
    from holdfast.gateway.token_file import TokenFile
    from holdfast.gateway.tokens import Tokens
    from holdfast.runtime.contract import Host

log = logging.getLogger(__name__)

#: What every server hosts.
OWN_ACTORS: tuple[type[Actor], ...] = (
    PushPopActor,
    QueueIndexActor,
    DoorbellActor,
    InstanceIndexActor,
    TenantIndexActor,
    VigilActor,
    IdempotencyActor,
)

# After how many new objects garbage is looked for, and how many such looks come before one at older ones.
_COLLECTION = (3_000, 10, 10)

# The first segment of what daprd itself calls on the app.
_SIDECAR_ROOTS = ("dapr", "actors")


@dataclass(frozen=True)
class Gateway:
    """A server without its socket."""

    app: ASGIApp
    host: Host
    audit: Audit
    #: Answers requests that wait for something to come: they would hold up the stop.
    end_waits: Callable[[], None]
    #: Ends what goes on for callers that were answered already.
    close: Callable[[], Awaitable[None]]


def create_gateway(
    make_host: Callable[[FastAPI], Host],
    *,
    tokens: Callable[[], Tokens] | None = None,
    quotas: Quotas = NO_QUOTAS,
    loopback: bool = False,
) -> Gateway:
    """Nothing of it is started. With ``loopback`` only this machine can reach it.

    ``tokens`` gives those of the moment, ``quotas`` how much each tenant may have.

    FastAPI is the innermost: what is called often is taken by those around it, and never gets there.
    """
    app = FastAPI(title="Holdfast", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    answers.install(app)
    host = make_host(app)
    health.install(app, host)
    metrics.install(app, host)
    page.install(app)
    queues = Queues(host.client, quotas)
    orchestrations = Orchestrations(host.client)
    idempotency = Idempotency(host.client)
    audit = Audit()
    endpoints = Endpoints([*queues.endpoints(), *orchestrations.endpoints(), *idempotency.endpoints()], audit)
    openapi.install(app, endpoints)
    sidecar_roots = () if host.sidecar_app is None else _SIDECAR_ROOTS
    by_root: dict[str, ASGIApp] = dict.fromkeys(endpoints.roots, endpoints)
    # Past FastAPI's middleware, which costs as much as the route itself, and past the limit: a batch around a push of
    # nearly that size is larger, and daprd has a --max-body-size of its own.
    if host.sidecar_app is not None:
        by_root |= dict.fromkeys(sidecar_roots, host.sidecar_app)
    front: ASGIApp = Front(by_root, app)
    if isinstance(host, InProcessHost):
        health.install_dapr_api(app, host)
        front = ActorApi(front, host, audit)
    sidecar_paths = [f"/{root}/" for root in sidecar_roots]
    front = Announced(front, audit, [*sidecar_paths, "/v1.0/"])
    if quotas.limit_requests:
        front = Paced(front, lambda tenant: quotas.of(tenant).requests_per_second, audit)
    front = Identified(front, audit, tokens, sidecar_paths)
    front = OwnSiteOnly(front, audit, loopback_names=loopback and tokens is None)
    front = RequestsCounted(front, host.client.meters.registry)

    def end_waits() -> None:
        orchestrations.end_waits()
        queues.end_waits()

    return Gateway(front, host, audit, end_waits, queues.close)


def listen(address: str, port: int) -> socket.socket:
    """A bound socket, so that a port in use is one sentence and nothing was started."""
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address, port), family=family, backlog=2048)
    except OSError as error:
        # A name that is not found has numbers, and words, of its own.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise SettingsError(
            f"Cannot listen on {address} port {port}: {reason}. Choose another with --listen and --port."
        ) from error


async def serve(
    gateway: Gateway,
    apps: Sequence[App],
    listener: socket.socket,
    *,
    drain_timeout: float,
    body_timeout: float,
    ready: Callable[[], None],
    token_file: TokenFile | None = None,
    worker: bool = True,
) -> None:
    """Runs until SIGTERM or SIGINT: then takes no more, finishes what it has, and returns.

    SIGHUP has it read ``token_file`` at once; it looks by itself, too.
    """
    host = gateway.host
    registry = Registry.of(app.registry for app in apps)
    own = (*OWN_ACTORS, orchestration_actor(registry))
    for actor_class in (*own, *(actor_class for app in apps for actor_class in app.actors)):
        await host.register(actor_class)
    await host.start()
    _collect_rarely()
    beside = [_begin_work(host, registry)] if worker and registry.activities else []
    if token_file is not None:
        beside.append(_begin("watch of the tokens", token_file.watch()))
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, token_file.look_now)
    try:
        config = uvicorn.Config(
            gateway.app,
            http=impatient(body_timeout, gateway.audit),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            # Longer than common clients keep a connection (aiohttp 15 s, most proxies 60 s): one that closes first
            # breaks the request that is just being sent. uvicorn's own is 5 s.
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(drain_timeout),
        )
        server = _Server(config, gateway.end_waits)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop_gently, number)
        ready()
        await server.serve(sockets=[listener])
        await gateway.close()
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await host.stop()


def _begin_work(host: Host, registry: Registry) -> asyncio.Task[None]:
    worker = Worker(BesideServer(host.client, alone=isinstance(host, InProcessHost)), registry)
    return _begin("worker", worker.run())


def _begin(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work, name=name, context=contextvars.Context())

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the %s has ended", name, exc_info=error)

    task.add_done_callback(ended)
    return task


def _collect_rarely() -> None:
    """What is garbage here mostly goes by itself, so looking for the rest every 700 objects was a tenth of all work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again at the end, so that the process would not exit with 0.
        yield

    def stop_gently(self, number: int) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True
        self._on_stop()
