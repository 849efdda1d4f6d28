"""The composition root: builds the gateway over a host, runs the server and shuts it down in order."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
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
from holdfast.gateway import error_responses as answers
from holdfast.gateway import health
from holdfast.gateway import ui as page
from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.dapr_api.actors import ActorApi
from holdfast.gateway.dapr_api.invocation import ServiceInvocation
from holdfast.gateway.dapr_api.metadata import SidecarMetadata
from holdfast.gateway.dapr_api.parts import SidecarParts
from holdfast.gateway.dapr_api.sidecar import SidecarApi
from holdfast.gateway.events import route as events
from holdfast.gateway.events.route import Topics
from holdfast.gateway.events.watches import Watches
from holdfast.gateway.idempotency import Idempotency
from holdfast.gateway.inspection import Inspection
from holdfast.gateway.metrics import endpoint as metrics
from holdfast.gateway.metrics.endpoint import RequestsCounted
from holdfast.gateway.metrics.event_loop import EventLoopProbe
from holdfast.gateway.metrics.queue_stats import QueueStats
from holdfast.gateway.middleware.access import Authentication, SameOrigin
from holdfast.gateway.middleware.body_limits import BodyLimits
from holdfast.gateway.middleware.host_names import HostNames
from holdfast.gateway.middleware.http_protocol import with_deadlines
from holdfast.gateway.middleware.inner_calls import InnerCalls
from holdfast.gateway.middleware.rate_limit import RateLimit
from holdfast.gateway.notified_wait import NotifiedWaits
from holdfast.gateway.openapi import document as openapi
from holdfast.gateway.orchestration_bulk import BulkActions
from holdfast.gateway.orchestration_lists import OrchestrationLists
from holdfast.gateway.orchestration_requests import OrchestrationRequests
from holdfast.gateway.orchestration_reruns import Reruns
from holdfast.gateway.orchestrations import Orchestrations
from holdfast.gateway.queues.routes import Queues
from holdfast.gateway.queues.samples import QueueSamples
from holdfast.gateway.quotas.creations import InstanceCreations
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.gateway.routing import Endpoints, PrefixRouter
from holdfast.gateway.schedules import Schedules
from holdfast.idempotency.actor import IdempotencyActor
from holdfast.idempotency.usage_actor import RecordUsageActor
from holdfast.idempotency.usage_reports import UsageReports
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.actor.cache import save_arrivals
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.recheck import Recheck
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.orchestration.registry import Registry
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.garbage_collection import GarbageCollection, PythonCollector, is_incremental
from holdfast.runtime.in_process.host import InProcessHost
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.wake_list import WakeListActor, work_off
from holdfast.schedules.actor import schedule_actor
from holdfast.schedules.declarations import Declarations
from holdfast.schedules.index import ScheduleIndexActor
from holdfast.tracing import environment as tracing
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.thread_exit import leave_tasks
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Sequence

    from dapr.actor import Actor
    from starlette.types import ASGIApp

    from holdfast.app import App
    from holdfast.gateway.auth.token_file import TokenFile
    from holdfast.gateway.auth.tokens import Tokens
    from holdfast.gateway.dapr_api.grpc_server import GrpcServer
    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.gateway.tls import TlsFiles
    from holdfast.gateway.worker_endpoints import WorkerEndpoints
    from holdfast.runtime.contract import Host

log = logging.getLogger(__name__)

#: The actor types that every server hosts.
OWN_ACTORS: tuple[type[Actor], ...] = (
    PushPopActor,
    QueueIndexActor,
    NotifierActor,
    InstanceIndexActor,
    TenantIndexActor,
    RescuerActor,
    IdempotencyActor,
    RecordUsageActor,
    ScheduleIndexActor,
    WakeListActor,
)

# How long a graceful stop waits for loaded instances to save which outbox entries were delivered.
_SETTLE_SECONDS = 1.0

# The kernel's send buffer of a connection. Its default grows to megabytes for a client that does not read, and counts
# as this process' memory in a container.
_SEND_BUFFER = 256 * 1024
# How long the kernel keeps unread data, and a connection that this process has closed.
_UNREAD_SECONDS = 60.0

# glibc's mallopt parameter for the block size from which freed memory returns to the system, and the value we set.
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK = 512 * 1024

# The first path segments of the calls that daprd makes to the app.
_SIDECAR_ROOTS = ("dapr", "actors")


@dataclass(frozen=True)
class Gateway:
    """The ASGI application and its host, before a socket is bound."""

    app: ASGIApp
    host: Host
    audit: AuditLog
    #: Turns readiness off, answers all long polls now, and refuses new pops and waits.
    begin_stop: Callable[[], None]
    #: Finishes background calls whose requests were already answered.
    close: Callable[[], Awaitable[None]]
    #: Shows the deployed code and the worker, which :func:`serve` tells it.
    inspection: Inspection
    samples: QueueSamples
    #: What serves Dapr's API over gRPC; None beside daprd, which serves it.
    sidecar: SidecarParts | None = None


def create_gateway(
    make_host: Callable[[FastAPI], Host],
    *,
    tokens: Callable[[], Tokens] | None = None,
    quotas: Quotas = NO_QUOTAS,
    loopback: bool = False,
    allowed_hosts: Collection[str] = (),
) -> Gateway:
    """Builds the gateway without starting anything.

    ``loopback`` says that only this machine can reach the server. ``tokens`` returns the current tokens, ``quotas`` are
    the limits per tenant, ``allowed_hosts`` the accepted values of the header Host.

    FastAPI is the innermost application: frequent calls are handled by the layers around it and never reach it.
    """
    app = FastAPI(title="Holdfast", version=__version__, docs_url=None, openapi_url=None, redirect_slashes=False)
    answers.install(app)
    host = make_host(app)
    stopping = asyncio.Event()
    health.install(app, host, stopping)
    metrics.install(app, host)
    page.install(app)
    queues = Queues(host.client, quotas, alone=isinstance(host, InProcessHost))
    waits = NotifiedWaits(host.client)
    instance_creations = InstanceCreations(host.client, quotas)
    orchestrations = Orchestrations(host.client, waits, instance_creations)
    requests = OrchestrationRequests(host.client, waits)
    lists, reruns = OrchestrationLists(host.client), Reruns(host.client, instance_creations)
    bulk = BulkActions(host.client, reruns)
    idempotency = Idempotency(host.client, quotas, alone=isinstance(host, InProcessHost))
    schedules = Schedules(host.client, quotas)
    inspection = Inspection()
    queue_stats = QueueStats(host.client, alone=isinstance(host, InProcessHost))
    samples = QueueSamples(queue_stats.take)
    watches = Watches(Topics(host.client, queue_stats, queues.stats_of).look)
    events.install(app, watches)
    audit = AuditLog()
    routes = (queues, orchestrations, requests, reruns, lists, bulk, idempotency, schedules, inspection, samples)
    endpoints = Endpoints([endpoint for part in routes for endpoint in part.endpoints()], audit)
    openapi.install(app, endpoints)
    sidecar_roots = () if host.sidecar_app is None else _SIDECAR_ROOTS
    by_root: dict[str, ASGIApp] = dict.fromkeys(endpoints.roots, endpoints)
    # daprd's calls skip FastAPI's middleware, which costs as much as the route itself, and the body limit: a batch that
    # contains a push of nearly the maximal size is larger than the limit, and daprd has its own --max-body-size.
    if host.sidecar_app is not None:
        by_root |= dict.fromkeys(sidecar_roots, host.sidecar_app)
    front: ASGIApp = PrefixRouter(by_root, app)
    metadata = None
    if isinstance(host, InProcessHost):
        metadata = SidecarMetadata(host)
        front = InnerCalls(ActorApi(SidecarApi(front, host, metadata, audit), host, audit))
    sidecar_paths = [f"/{root}/" for root in sidecar_roots]
    front = BodyLimits(front, audit, [*sidecar_paths, "/v1.0/"])
    if quotas.limit_requests:
        front = RateLimit(front, lambda tenant: quotas.of(tenant).requests_per_second, audit)
    front = authentication = Authentication(front, audit, tokens, sidecar_paths)
    if isinstance(host, InProcessHost):
        front = ServiceInvocation(front, host.app_id)
    front = SameOrigin(front, audit, HostNames(allowed_hosts, loopback=loopback, tokens=tokens is not None))
    front = RequestsCounted(front, host.client.metrics.registry)

    def begin_stop() -> None:
        stopping.set()
        waits.begin_stop()
        watches.begin_stop()
        queues.begin_stop()

    sidecar = None
    if isinstance(host, InProcessHost) and metadata is not None:
        sidecar = SidecarParts(front, host, audit, metadata, authentication.identify)
    return Gateway(front, host, audit, begin_stop, queues.close, inspection, samples, sidecar)


def listen(address: str, port: int) -> socket.socket:
    """Returns a bound socket. Raises SettingsError when the port cannot be used, before anything is started."""
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((address, port), family=family, backlog=2048)
    except OSError as error:
        # Errors of name resolution have their own numbers and texts.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise SettingsError(
            f"Cannot listen on {address} port {port}: {reason}. Choose another with --listen and --port."
        ) from error
    # Accepted connections inherit the options. uvloop sets TCP_NODELAY by itself, asyncio (CPython 3.11) only for
    # sockets with a protocol number. Without it an answer in two parts waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_UNREAD_SECONDS * 1000))
    return listener


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
    retention_seconds: float | None = None,
    tls: TlsFiles | None = None,
    grpc: GrpcServer | None = None,
    until: asyncio.Event | None = None,
) -> None:
    """Runs the server until SIGTERM or SIGINT, then stops gracefully: refuses new work, finishes running work, returns.

    A second SIGINT cancels running work.

    With ``until`` it runs inside another program until that event is set, and leaves the signals, the garbage
    collection and the memory settings of the process as they are.

    The worker abandons its unfinished items while the port is still open: on Dapr every call to an actor, abandoning
    included, comes back in through daprd. The same holds for turns that call other actors.

    SIGHUP reloads ``token_file`` at once; the server also polls the file for changes. Instances whose orchestration
    does not say how long are kept for ``retention_seconds`` after their end, or for good.
    """
    host = gateway.host
    owns_process = until is None
    if gateway.sidecar is not None:
        gateway.sidecar.metadata.address, gateway.sidecar.metadata.port = listener.getsockname()[:2]
    registry = Registry.of(app.registry for app in apps)
    instances = orchestration_actor(registry, retention_seconds=retention_seconds)
    own = (*OWN_ACTORS, instances, schedule_actor(registry))
    for actor_class in (*own, *(actor_class for app in apps for actor_class in app.actors)):
        await host.register(actor_class)
    await host.start()
    if owns_process:
        _return_large_blocks()
    probe = EventLoopProbe(host.client.metrics.registry)
    background = [
        _begin("event loop probe", probe.run()),
        _begin("wake list", work_off(host.client)),
        _begin("instance recheck", Recheck(host.client).run()),
        _begin("declared schedules", Declarations(host.client, registry).run()),
    ]
    if owns_process and not is_incremental():
        background.append(_begin("garbage collection", GarbageCollection(host.release_idle, PythonCollector()).run()))
    gateway.inspection.registry = registry
    background.append(_begin("queue samples", gateway.samples.run()))
    if worker and registry.activities:
        source = LocalWorkSource(host.client, alone=isinstance(host, InProcessHost))
        own_worker = Worker(source, registry, metrics=host.client.metrics.worker, drain_timeout=drain_timeout)
        gateway.inspection.workers.append(own_worker)
        background.append(_begin("worker", own_worker.run()))
    if token_file is not None:
        background.append(_begin("token file watcher", token_file.watch()))
        if owns_process:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, token_file.look_now)
    protocol = with_deadlines(body_timeout, gateway.audit, lambda: _where_grpc_is(gateway, grpc))
    config = uvicorn.Config(
        gateway.app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # Longer than common clients keep an idle connection (aiohttp 15 s, most proxies 60 s): a server that closes
        # first breaks a request that is just being sent. uvicorn's default is 5 s.
        timeout_keep_alive=75,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = _Server(config, host.abort_turns)
    loop = asyncio.get_running_loop()
    try:
        for number in (signal.SIGTERM, signal.SIGINT) if owns_process else ():
            loop.add_signal_handler(number, server.stop_gently, number)
        if grpc is not None:
            await grpc.start()
        ready()
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="server")
        await _either(serving, server.stopping if until is None else until)
        gateway.begin_stop()
        protocol.begin_stop(server.server_state.connections)
        deadline = loop.time() + drain_timeout
        finishing = _begin("graceful stop", _finish(gateway, server, background, deadline, grpc))
        await _either(finishing, server.hurried)
        finishing.cancel()
        await asyncio.gather(finishing, return_exceptions=True)
        remaining = 0.0 if server.hurried.is_set() else deadline - loop.time()
        config.timeout_graceful_shutdown = max(1, int(remaining))
        server.should_exit = True
        await serving
        await gateway.close()
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if grpc is not None:
            await grpc.stop(0.0)
        await host.stop()
    if owns_process:
        await asyncio.to_thread(tracing.shut_down)
        leave_tasks()


@contextlib.asynccontextmanager
async def answering(endpoints: WorkerEndpoints, listener: socket.socket) -> AsyncIterator[None]:
    """A context in which the endpoints of a worker are served."""
    config = uvicorn.Config(
        endpoints,
        http=endpoints.protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    serving = _begin("worker's endpoints", server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)


def _where_grpc_is(gateway: Gateway, grpc: GrpcServer | None) -> str:
    if gateway.sidecar is None:
        return "gRPC is served by daprd, at DAPR_GRPC_PORT."
    if grpc is None:
        return "gRPC is off: start the server with --grpc-port."
    return f"gRPC is served at port {grpc.port}: set DAPR_GRPC_PORT to it."


async def _either(task: asyncio.Task[None], event: asyncio.Event) -> None:
    """Returns when the task has ended or the event is set."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _finish(
    gateway: Gateway,
    server: _Server,
    background: Sequence[asyncio.Task[None]],
    deadline: float,
    grpc: GrpcServer | None,
) -> None:
    """Finishes running work that still needs the server to accept calls."""
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    grace = max(0.0, deadline - asyncio.get_running_loop().time())
    async with asyncio.TaskGroup() as together:
        if grpc is not None:
            together.create_task(grpc.stop(grace))
        # Requests that arrive from now on are not awaited here: a busy server would never stop.
        if requests := set(server.server_state.tasks):
            together.create_task(asyncio.wait(requests, timeout=grace))
    await save_arrivals(gateway.host.client, _SETTLE_SECONDS)
    await gateway.close()
    await UsageReports.of(gateway.host.client).close()
    await gateway.host.finish_turns()


def _begin(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work, name=name, context=contextvars.Context())

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the %s ended with an error and is not restarted", name, exc_info=error)

    task.add_done_callback(ended)
    return task


def _return_large_blocks() -> None:
    """Makes glibc return the memory of large bodies and answers to the system when it is freed.

    By default glibc raises its threshold with every large block, up to 32 MiB, and keeps freed blocks below it: under a
    load of large answers the process held more than twice the memory in use.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, abort_turns: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self._abort_turns = abort_turns
        #: ``stopping`` is set by the first signal, ``hurried`` by a second Ctrl-C.
        self.stopping = asyncio.Event()
        self.hurried = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's version raises the signal again at the end, so the process would not exit with 0.
        yield

    def stop_gently(self, number: int) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        if self.stopping.is_set() and number == signal.SIGINT:
            self.force_exit = True
            self.hurried.set()
            if self._abort_turns is not None:
                self._abort_turns()
        self.stopping.set()
