"""``holdfast serve``: runs the server on the embedded host or with Dapr."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.app import App
from holdfast.cli.credentials import given_token, token_file_option
from holdfast.cli.options import no_tracebacks_option, option, tenants_table
from holdfast.errors import SettingsError
from holdfast.logs import FORMATS, LEVELS, as_output, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from holdfast.gateway.auth.tokens import Tokens
    from holdfast.runtime.contract import Host
    from holdfast.runtime.dapr.admission import OtherApps


log = logging.getLogger(__name__)


@click.command(short_help="Run the server.")
@click.argument("apps", nargs=-1, metavar="[MODULE:APP]...")
@option(
    "--host",
    "host_name",
    type=click.Choice(["embedded", "dapr"]),
    envvar="HOLDFAST_HOST",
    show_default="embedded; dapr under 'dapr run'",
    help="Host of the actors.",
)
@option(
    "--data",
    type=click.Path(path_type=Path),
    default="./holdfast-data",
    help="Data folder of the embedded host.",
)
@option("--listen", default="127.0.0.1", help="Address to listen on.")
@option("--port", type=click.IntRange(0, 65535), default=8080, help="Port to listen on; 0 picks a free one.")
@option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    help="Port of Dapr's gRPC API on the embedded host, for Dapr SDKs that speak gRPC; 0 picks a free one.",
    show_default="no gRPC",
)
@token_file_option
@option(
    "--token",
    help="Token that callers must send as 'Authorization: Bearer TOKEN'; it has all permissions. "
    "Safer in HOLDFAST_TOKEN or --token-file.",
)
@option(
    "--tokens",
    "tokens_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of tokens with roles and tenants, made with 'holdfast token new'; reloaded when it changes.",
)
@option(
    "--tls-cert",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificate chain in PEM form; the server then accepts HTTPS only.",
)
@option(
    "--tls-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Private key in PEM form, not encrypted.",
    show_default="in the file of --tls-cert",
)
@option("--insecure", is_flag=True, help="Listen beyond loopback without a token.")
@option(
    "--other-apps",
    type=click.Choice(["public", "token", "none"]),
    default="public",
    help="Which actor calls other Dapr apps may make: the public methods of the default tenant's queues and instances "
    "and of the apps' own actors, the same with a token of this server, or none.",
)
@option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Name in the Host header to accept besides loopback, also '*.example.com'; can be repeated. '*': any name.",
)
@option("--app-id", default="holdfast", help="Prefix of the embedded host's state keys, like Dapr's app id.")
@option(
    "--idle-timeout",
    type=click.FloatRange(0.1),
    default=60.0,
    help="Seconds until an idle actor is evicted from memory.",
)
@option(
    "--retention",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Delete instances so long after their end, unless their orchestration says otherwise.",
    show_default="keep them",
)
@option("--no-worker", is_flag=True, help="Do not run activities; 'holdfast worker' does.")
@no_tracebacks_option
@option(
    "--drain-timeout",
    type=click.FloatRange(1.0),
    default=30.0,
    help="Seconds that running turns and activities get to finish at shutdown.",
)
@option(
    "--body-timeout",
    type=click.FloatRange(0.1, 3600),
    default=30.0,
    help="Seconds in which a request must arrive, from its first byte to its last.",
)
@option("--reload", is_flag=True, help="For development: restart the server when a Python file changes.")
@option("--log-format", type=click.Choice(FORMATS), default="text", help="Plain text or JSON lines.")
@option("--log-level", type=click.Choice(LEVELS), default="info", help="Lowest level to log.")
def serve(
    apps: tuple[str, ...],
    host_name: str | None,
    data: Path,
    listen: str,
    port: int,
    grpc_port: int | None,
    token: str | None,
    token_file: Path | None,
    tokens_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    other_apps: OtherApps,
    allowed_hosts: tuple[str, ...],
    app_id: str,
    idle_timeout: float,
    retention: float | None,
    no_worker: bool,
    drain_timeout: float,
    no_tracebacks: bool,
    body_timeout: float,
    reload: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Run the server with the apps named by MODULE:APP (APP defaults to 'app').

    SIGTERM and Ctrl-C stop it gracefully: it accepts no more work, finishes running turns, and exits with 0.
    A second Ctrl-C cancels what still runs; nothing that was acknowledged is lost.
    """
    set_up_logging(log_format, log_level)
    if reload:
        from holdfast.cli.reload import is_supervised, supervise

        if not is_supervised():
            sys.exit(supervise(apps, (port, grpc_port), drain_timeout))

    # Imported here because it is slow; the other commands start without it.
    import uvloop

    from holdfast import server
    from holdfast.gateway.auth.token_file import TokenFile
    from holdfast.gateway.auth.tokens import Tokens
    from holdfast.gateway.middleware.host_names import is_loopback
    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.gateway.tls import TlsFiles
    from holdfast.orchestration.core.tracebacks import keep_tracebacks
    from holdfast.tracing import environment as tracing
    from holdfast.worker.thread_exit import exit_past_threads

    keep_tracebacks(not no_tracebacks)
    loopback = is_loopback(listen)
    token = given_token(token, token_file)
    if not (token or tokens_file or insecure or loopback):
        raise SettingsError(
            f"Listening on {listen} without a token would admit every caller: set a token with --token-file, "
            "HOLDFAST_TOKEN or --tokens, or pass --insecure."
        )
    if token and tokens_file:
        raise SettingsError(
            "Both a token and a file of tokens are given: set --token (or --token-file) or --tokens, not both."
        )
    watched = TokenFile(tokens_file) if tokens_file else None
    tokens = watched.tokens if watched else _always(Tokens.of_one(token)) if token else None
    tls = TlsFiles.checked(tls_cert, tls_key)
    quotas = Quotas.read(tenants_table())
    loaded = [load_app(name) for name in apps]
    tracing.set_up()

    def make_host(app: FastAPI) -> Host:
        if (host_name or ("dapr" if _beside_daprd() else "embedded")) == "dapr":
            from holdfast.gateway.auth.actor_tokens import token_check
            from holdfast.runtime.dapr import DaprHost
            from holdfast.runtime.dapr.admission import VARIABLE, Admission, has_shared_secret

            if tokens is not None and not os.environ.get("APP_API_TOKEN"):
                log.warning(
                    "APP_API_TOKEN is not set: any process on this machine can call actors without a token; set it"
                )
            if not has_shared_secret():
                log.warning(
                    "%s is not set: if this app has other processes, their calls to actors of this process are "
                    "refused; set the same value for all of them",
                    VARIABLE,
                )
            if other_apps == "token" and tokens is None:
                raise SettingsError("--other-apps token needs tokens: set --token or --tokens.")
            admission = Admission(other_apps, token_check(tokens) if tokens is not None else None)
            return DaprHost(app, admission=admission, idle_timeout=idle_timeout, drain_timeout=drain_timeout)
        from holdfast.runtime.embedded import EmbeddedHost

        return EmbeddedHost(data, app_id=app_id, idle_timeout=idle_timeout, drain_timeout=drain_timeout)

    gateway = server.create_gateway(
        make_host, tokens=tokens, quotas=quotas, loopback=loopback, allowed_hosts=allowed_hosts
    )
    listener = server.listen(listen, port)
    grpc_server = None
    if grpc_port is not None:
        if gateway.sidecar is None:
            raise SettingsError("--grpc-port is for the embedded host: beside daprd, daprd serves gRPC.")
        # Imported only here: the server starts faster without it.
        from holdfast.gateway.dapr_api.grpc_server import GrpcServer

        grpc_server = GrpcServer(gateway.sidecar, listen, grpc_port, message_timeout=body_timeout, tls=tls)

    def show_addresses() -> None:
        address, bound = listener.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        click.echo(as_output(f"Holdfast on {'https' if tls else 'http'}://{name}:{bound} ({gateway.host.name})"))
        if grpc_server is not None:
            click.echo(as_output(f"gRPC:  {name}:{grpc_server.port}"))
        if url := getattr(gateway.host, "url", None):
            click.echo(as_output(f"Data:  {url}"))

    uvloop.run(
        server.serve(
            *(gateway, loaded, listener),
            drain_timeout=drain_timeout,
            body_timeout=body_timeout,
            ready=show_addresses,
            token_file=watched,
            worker=not no_worker,
            retention_seconds=retention,
            tls=tls,
            grpc=grpc_server,
        )
    )
    exit_past_threads()


def _always(tokens: Tokens) -> Callable[[], Tokens]:
    return lambda: tokens


def _beside_daprd() -> bool:
    # Dapr's runners set both. The first alone is also set for actor proxies that call an embedded host.
    return "DAPR_HTTP_PORT" in os.environ and "DAPR_GRPC_PORT" in os.environ


def load_app(name: str) -> App:
    """Returns the App named by ``MODULE:APP``; the working directory is importable."""
    module_name, _, attribute = name.partition(":")
    if not all(module_name.split(".")):
        raise SettingsError(f"'{name}' does not name a module: write MODULE:APP, as in shop.orders:app.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise SettingsError(
            f"There is no module {module_name}: modules are imported from the working directory and the Python path."
        ) from error
    found = getattr(module, attribute or "app", None)
    if not isinstance(found, App):
        raise SettingsError(f"{module_name} has no App called {attribute or 'app'}.")
    return found
