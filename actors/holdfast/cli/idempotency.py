"""``holdfast idempotency``: everything the REST interface can do with effects that must happen once."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING

import click
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.queue_input import from_arguments
from holdfast.cli.remote import NOTHING_THERE, RemoteGroup, server_command, show_done, show_json
from holdfast.cli.watching import interval_option, watch
from holdfast.idempotency.record import DEFAULT_LEASE, DEFAULT_RETENTION, MAX_LEASE, MAX_RETENTION

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.cli.remote import Server
    from holdfast.client.idempotency import Answer

EXIT_CODES = """\b
Exit codes:
  0  done; of begin: run it
  1  refused, or the lease is somebody else's
  2  wrong usage, or a value the server does not take
  3  nothing to do, it has run; or nothing is known of the key
  4  not now: somebody else is running it
  5  the server cannot be reached; nothing was done
  6  no clear answer; it may or may not have been done
"""

_key = click.argument("key")
_tenant = option("--for-tenant", "tenant_id", help="Whose key it is.", show_default="your own")
_owner = option("--owner", required=True, help="As begin printed it.")
_lease = option(
    "--lease",
    type=click.IntRange(1, MAX_LEASE),
    default=DEFAULT_LEASE,
    help="Seconds that others wait when you are gone.",
)


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def idempotency() -> None:
    """Run what must happen once: ask first, tell afterwards."""


@idempotency.command(short_help="Show what is known of a key.")
@_key
@_tenant
@option("--watch", "watching", is_flag=True, help="Show it again and again, until Ctrl-C.")
@interval_option
@server_command
def show(server: Server, as_json: bool, key: str, tenant_id: str | None, watching: bool, interval: float) -> None:
    """Show what is known of a key: whether it has run, who runs it, what came of it.

    With --watch and --json, a line for each look.
    """
    with server.connect() as session:
        calls = session.record(tenant_id, key)
        if watching:
            watch(lambda: session.ask(calls.get()), _record, as_json=as_json, interval=interval)
            return
        answer = session.ask(calls.get())
    if as_json:
        show_json(answer)
    else:
        printing.console().print(_record(answer))


@idempotency.command(short_help="Ask whether to run it.")
@_key
@_tenant
@option("--owner", help="What you are known by; one is made up when left out.")
@_lease
@server_command
def begin(server: Server, as_json: bool, key: str, tenant_id: str | None, owner: str | None, lease: int) -> None:
    """Ask whether to run what this key stands for. Exits with 0 when you are to, and prints who you are.

    When it has run, prints what came of it, as JSON, and exits with 3.
    """
    with server.connect() as session:
        # An owner of our own makes it safe to ask again when an answer was lost.
        answer = session.ask(session.record(tenant_id, key).begin(owner or secrets.token_urlsafe(12), lease))
    runs = answer["outcome"] == "run"
    if as_json:
        show_json(answer)
    elif runs:
        click.echo(answer["owner"])
    else:
        click.echo("It has run.", err=True)
        printing.console().print(printing.value(answer["result"], whole=True), soft_wrap=True)
    if not runs:
        sys.exit(NOTHING_THERE)


@idempotency.command(short_help="Tell that it has happened.")
@_key
@click.argument("result", required=False)
@_tenant
@_owner
@option(
    "--retention",
    type=click.IntRange(1, MAX_RETENTION),
    default=DEFAULT_RETENTION,
    help="Seconds that it is remembered.",
)
@server_command
def commit(
    server: Server, as_json: bool, key: str, result: str | None, tenant_id: str | None, owner: str, retention: int
) -> None:
    """Tell that it has happened, and what came of it: RESULT, which is JSON."""
    text = b"null" if result is None else next(from_arguments([result]))
    with server.connect() as session:
        answer = session.ask(session.record(tenant_id, key).commit(owner, text, retention))
    show_done(answer, as_json, "recorded: it has happened")


@idempotency.command(short_help="Tell that it has not happened.")
@_key
@_tenant
@_owner
@option("--error", default="", help="Why; the next one sees it.")
@server_command
def fail(server: Server, as_json: bool, key: str, tenant_id: str | None, owner: str, error: str) -> None:
    """Tell that it has not happened: whoever begins next runs it."""
    with server.connect() as session:
        answer = session.ask(session.record(tenant_id, key).fail(owner, error))
    show_done(answer, as_json, "recorded: it has not happened")


@idempotency.command(short_help="Tell that it still runs.")
@_key
@_tenant
@_owner
@_lease
@server_command
def renew(server: Server, as_json: bool, key: str, tenant_id: str | None, owner: str, lease: int) -> None:
    """Tell that it still runs, so that nobody else begins."""
    with server.connect() as session:
        answer = session.ask(session.record(tenant_id, key).renew(owner, lease))
    show_done(answer, as_json, f"yours until {printing.moment(answer['lease_expires_at'])}")


def _record(answer: Answer) -> RenderableType:
    table = printing.new_table()
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    lease, error = answer.get("lease_expires_at"), answer.get("last_error")
    rows = {
        "status": Text(answer["status"]),
        "owner": printing.printable(answer["owner"]),
        "lease until": None if lease is None else Text(printing.moment(lease)),
        "attempts": Text(f"{answer['attempts']:,}"),
        "result": printing.value(answer["result"], whole=True) if "result" in answer else None,
        "last error": None if error is None else printing.printable(error),
        "changed": Text(printing.moment(answer["updated_at"])),
    }
    for name, shown in rows.items():
        if shown is not None:
            table.add_row(name, shown)
    return table
