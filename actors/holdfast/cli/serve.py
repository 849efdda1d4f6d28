"""``holdfast serve``: the server, on either host."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.app import App
from holdfast.cli.options import option, tenants_table
from holdfast.errors import SettingsError
from holdfast.logs import FORMATS, LEVELS, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from holdfast.gateway.tokens import Tokens
    from holdfast.runtime.contract import Host


log = logging.getLogger(__name__)


@click.command(short_help="Run the server.")
@click.argument("apps", nargs=-1, metavar="[MODULE:APP]...")
@option(
    "--host",
    "host_name",
    type=click.Choice(["embedded", "dapr"]),
    envvar="HOLDFAST_HOST",
    show_default="embedded; dapr under 'dapr run'",
    help="Where the actors run.",
)
@option(
    "--data",
    type=click.Path(path_type=Path),
    default="./holdfast-data",
    help="Folder of the embedded host's data.",
)
@option("--listen", default="127.0.0.1", help="Address to listen on.")
@option("--port", type=click.IntRange(0, 65535), default=8080, help="Port to listen on; 0 takes a free one.")
@option("--token", help="What callers must send as 'Authorization: Bearer TOKEN'; it may do everything.")
@option(
    "--tokens",
    "tokens_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of tokens with roles and tenants, made with 'holdfast token new'; read again when it changes.",
)
@option("--insecure", is_flag=True, help="Listen beyond loopback without a token.")
@option("--app-id", default="holdfast", help="Prefix of the embedded host's keys, as Dapr's app id is.")
@option(
    "--idle-timeout",
    type=click.FloatRange(0.1),
    default=60.0,
    help="Seconds until an idle actor leaves memory.",
)
@option("--no-worker", is_flag=True, help="Run no activities: leave them to 'holdfast worker'.")
@option("--drain-timeout", type=click.FloatRange(1.0), default=30.0, help="Seconds turns get to end at the stop.")
@option(
    "--body-timeout",
    type=click.FloatRange(0.1, 3600),
    default=30.0,
    help="Seconds a request gets to arrive, from its first byte to its last.",
)
@option("--log-format", type=click.Choice(FORMATS), default="text", help="Lines for people, or JSON.")
@option("--log-level", type=click.Choice(LEVELS), default="info", help="How much is logged.")
def serve(
    apps: tuple[str, ...],
    host_name: str | None,
    data: Path,
    listen: str,
    port: int,
    token: str | None,
    tokens_file: Path | None,
    insecure: bool,
    app_id: str,
    idle_timeout: float,
    no_worker: bool,
    drain_timeout: float,
    body_timeout: float,
    log_format: str,
    log_level: str,
) -> None:
    """Run the server with the apps named by MODULE:APP (the attribute is 'app' when left out).

    SIGTERM and Ctrl-C end it in order: it takes no more work, finishes the turns that run, and exits with 0.
    """
    # What serving needs is heavy; the other commands start without it.
    import uvloop

    from holdfast.gateway import server
    from holdfast.gateway.access import is_loopback
    from holdfast.gateway.quotas import Quotas
    from holdfast.gateway.token_file import TokenFile
    from holdfast.gateway.tokens import Tokens
    from holdfast.worker.threads import leave_threads

    set_up_logging(log_format, log_level)
    loopback = is_loopback(listen)
    if not (token or tokens_file or insecure or loopback):
        raise SettingsError(
            f"Listening on {listen} would let anyone in: set a token with --token or --tokens, or say --insecure."
        )
    if token and tokens_file:
        raise SettingsError("There is a token and a file of tokens: set --token or --tokens, not both.")
    token_file = TokenFile(tokens_file) if tokens_file else None
    tokens = token_file.tokens if token_file else _always(Tokens.of_one(token)) if token else None
    quotas = Quotas.read(tenants_table())
    loaded = [load_app(name) for name in apps]

    def make_host(app: FastAPI) -> Host:
        if (host_name or ("dapr" if _beside_daprd() else "embedded")) == "dapr":
            from holdfast.runtime.dapr import DaprHost

            if tokens is not None and not os.environ.get("APP_API_TOKEN"):
                log.warning("there is no APP_API_TOKEN: whoever is on this machine can call actors past all tokens")
            return DaprHost(app, idle_timeout=idle_timeout, drain_timeout=drain_timeout)
        from holdfast.runtime.embedded import EmbeddedHost

        return EmbeddedHost(data, app_id=app_id, idle_timeout=idle_timeout, drain_timeout=drain_timeout)

    gateway = server.create_gateway(make_host, tokens=tokens, quotas=quotas, loopback=loopback)
    listener = server.listen(listen, port)

    def announce() -> None:
        address, bound = listener.getsockname()[:2]
        click.echo(f"Holdfast on http://{f'[{address}]' if ':' in address else address}:{bound} ({gateway.host.name})")
        if url := getattr(gateway.host, "url", None):
            click.echo(f"Data:  {url}")

    uvloop.run(
        server.serve(
            *(gateway, loaded, listener),
            drain_timeout=drain_timeout,
            body_timeout=body_timeout,
            ready=announce,
            token_file=token_file,
            worker=not no_worker,
        )
    )
    leave_threads()


def _always(tokens: Tokens) -> Callable[[], Tokens]:
    return lambda: tokens


def _beside_daprd() -> bool:
    # Whoever starts an app beside daprd sets both. For actor proxies that call an embedded host the first is enough.
    return "DAPR_HTTP_PORT" in os.environ and "DAPR_GRPC_PORT" in os.environ


def load_app(name: str) -> App:
    """The App that ``MODULE:APP`` names; the working directory is importable."""
    module_name, _, attribute = name.partition(":")
    if not all(module_name.split(".")):
        raise SettingsError(f"'{name}' names no module: an app is MODULE:APP, as in shop.orders:app.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise SettingsError(
            f"There is no module {module_name} here: it is looked for from the working directory."
        ) from error
    found = getattr(module, attribute or "app", None)
    if not isinstance(found, App):
        raise SettingsError(f"{module_name} has no App called {attribute or 'app'}.")
    return found
