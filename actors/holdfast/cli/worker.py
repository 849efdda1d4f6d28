"""``holdfast worker``: runs the activities of apps for a server in another process."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from holdfast.cli.credentials import token_file_option, token_for, token_option
from holdfast.cli.options import no_tracebacks_option, option
from holdfast.cli.serve import load_app
from holdfast.errors import HoldfastError, SettingsError
from holdfast.logs import FORMATS, LEVELS, as_output, set_up_logging

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

    from holdfast.client.api.connection import Connection
    from holdfast.gateway.worker_endpoints import WorkerEndpoints
    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.metrics import WorkerMetrics


@click.command(short_help="Run activities for a server.")
@click.argument("apps", nargs=-1, required=True, metavar="MODULE:APP...")
@option("--url", default="http://127.0.0.1:8080", help="URL of the server.")
@token_file_option
@token_option
@option("--tenant", help="Tenant whose activities to run; a tenant's token implies it.")
@option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Work for this queue only; can be repeated. Default: all."
)
@option("--slots", type=click.IntRange(1, 1000), default=50, help="Activities of each queue that run at once.")
@option("--timeout", type=click.FloatRange(0.1), default=30.0, help="Limit for one request, in seconds.")
@option(
    "--drain-timeout",
    type=click.FloatRange(1.0),
    default=30.0,
    help="Seconds that activities get to clean up at shutdown.",
)
@option(
    "--port",
    type=click.IntRange(0, 65535),
    envvar="HOLDFAST_WORKER_PORT",
    help="Port of the worker's own /healthz and /metrics; 0 picks a free one.",
    show_default="none",
)
@option("--listen", default="127.0.0.1", envvar="HOLDFAST_WORKER_LISTEN", help="Address to listen on, with --port.")
@option(
    "--insecure",
    is_flag=True,
    envvar="HOLDFAST_WORKER_INSECURE",
    help="Listen beyond loopback without a token, with --port.",
)
@option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    envvar="HOLDFAST_WORKER_ALLOWED_HOST",
    help="Name in the Host header to accept besides loopback, with --port; can be repeated. '*': any name.",
)
@no_tracebacks_option
@option("--log-format", type=click.Choice(FORMATS), default="text", help="Plain text or JSON lines.")
@option("--log-level", type=click.Choice(LEVELS), default="info", help="Lowest level to log.")
def worker(
    apps: tuple[str, ...],
    url: str,
    token: str | None,
    token_file: Path | None,
    tenant: str | None,
    queues: tuple[str, ...],
    slots: int,
    timeout: float,
    drain_timeout: float,
    port: int | None,
    listen: str,
    insecure: bool,
    allowed_hosts: tuple[str, ...],
    no_tracebacks: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Run the activities of the apps named by MODULE:APP for the server at --url, which need not run any itself
    ('holdfast serve --no-worker'). Any number of workers can share the work.

    SIGTERM and Ctrl-C stop it gracefully: it takes no more activities, abandons unfinished ones, and exits with 0.
    """
    # Imported here because it is slow; the other commands start without it.
    import uvloop
    from prometheus_client import CollectorRegistry

    from holdfast.client.api.connection import Connection
    from holdfast.orchestration.core.tracebacks import keep_tracebacks
    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.metrics import WorkerMetrics
    from holdfast.tracing import environment as tracing
    from holdfast.worker.thread_exit import exit_past_threads

    set_up_logging(log_format, log_level)
    keep_tracebacks(not no_tracebacks)
    try:
        registry = Registry.of(load_app(name).registry for name in apps)
    except ValueError as error:
        raise SettingsError(f"These apps cannot be combined: {error}.") from error
    tracing.set_up()
    if not registry.activities:
        raise SettingsError(f"There are no activities in {', '.join(apps)}: name an app that declares some.")
    declared = {activity.queue for activity in registry.activities}
    if unknown := [queue for queue in queues if queue not in declared]:
        raise SettingsError(
            f"No activity uses the queue {unknown[0]}: --queue can be one of {', '.join(sorted(declared))}."
        )
    token = token_for(url, token, token_file)
    metrics = WorkerMetrics(CollectorRegistry())
    answers = _Answers.of(metrics, port, listen, token, insecure=insecure, allowed_hosts=allowed_hosts)
    connection = Connection(url, token=token, tenant=tenant, timeout=timeout, retries=3)
    uvloop.run(_work(registry, connection, url, set(queues) or declared, slots, drain_timeout, metrics, answers))
    exit_past_threads()


@dataclass(frozen=True)
class _Answers:
    """The health and metrics server on the worker's own port, and its socket."""

    endpoints: WorkerEndpoints
    listener: socket.socket

    @classmethod
    def of(
        cls,
        metrics: WorkerMetrics,
        port: int | None,
        listen: str,
        token: str | None,
        *,
        insecure: bool,
        allowed_hosts: Collection[str],
    ) -> _Answers | None:
        """Returns None without a port. Raises SettingsError for an address that needs a token or cannot be used."""
        if port is None:
            return None
        # Imported here because it is slow, and most workers have no port.
        from holdfast import server
        from holdfast.gateway.middleware.host_names import is_loopback
        from holdfast.gateway.worker_endpoints import WorkerEndpoints

        loopback = is_loopback(listen)
        if not (token or insecure or loopback):
            raise SettingsError(
                f"Listening on {listen} without a token would admit every caller: set a token with --token-file or "
                "HOLDFAST_TOKEN, or pass --insecure."
            )
        endpoints = WorkerEndpoints(metrics.registry, token=token, loopback=loopback, allowed_hosts=allowed_hosts)
        return cls(endpoints, server.listen(listen, port))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        from holdfast import server

        async with server.answering(self.endpoints, self.listener):
            address, bound = self.listener.getsockname()[:2]
            name = f"[{address}]" if ":" in address else address
            click.echo(as_output(f"Metrics on http://{name}:{bound}/metrics"))
            yield


async def _work(
    registry: Registry,
    connection: Connection,
    url: str,
    queues: set[str],
    slots: int,
    drain_timeout: float,
    metrics: WorkerMetrics,
    answers: _Answers | None,
) -> None:
    from holdfast.tracing import environment as tracing
    from holdfast.worker.remote_source import RemoteWorkSource
    from holdfast.worker.thread_exit import leave_tasks
    from holdfast.worker.worker import Worker

    await connection.open()
    source = RemoteWorkSource(connection)
    made = Worker(
        *(source, registry),
        slots=slots,
        metrics=metrics,
        gives_up=True,
        drain_timeout=drain_timeout,
        queues=queues,
    )
    working = asyncio.create_task(made.run(), name="worker")
    stopping = False

    def stop(number: int) -> None:
        nonlocal stopping
        # A second Ctrl-C does not wait until activities are abandoned.
        if not stopping or number == signal.SIGINT:
            working.cancel()
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    click.echo(as_output(f"Working for {url} on {', '.join(sorted(queues))}, {slots} activities of each at once"))
    try:
        async with nullcontext() if answers is None else answers.served():
            await working
    except asyncio.CancelledError:
        if not stopping:
            raise
    except BaseExceptionGroup as group:
        raise (_first_refusal(group) or group) from None
    finally:
        await connection.close()
    await asyncio.to_thread(tracing.shut_down)
    leave_tasks()


def _first_refusal(group: BaseExceptionGroup) -> HoldfastError | None:
    for error in group.exceptions:
        found = _first_refusal(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, HoldfastError):
            return found
    return None
