"""``holdfast idempotency``: the idempotency calls of the REST interface."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING

import click
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.queue_input import from_arguments
from holdfast.cli.session import NOTHING_THERE, RemoteGroup, server_command, show_done, show_json
from holdfast.cli.watch import interval_option, watch
from holdfast.idempotency.record import DEFAULT_LEASE, DEFAULT_RETENTION, MAX_LEASE, MAX_RETENTION

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.cli.session import Server
    from holdfast.client.idempotency import Answer

EXIT_CODES = """\b
Exit codes:
  0  done; for begin: run it now
  1  refused, or another owner has the lease
  2  wrong usage, or a value the server rejects
  3  nothing to do: it has run; or the key is unknown
  4  in progress: another owner is running it
  5  the server cannot be reached; nothing was done
  6  no clear response; it may or may not have been done
"""

_key = click.argument("key")
_tenant = option("--for-tenant", "tenant_id", help="Tenant of the key.", show_default="your own")
_owner = option("--owner", required=True, help="The owner that begin printed.")
_lease = option(
    "--lease",
    type=click.IntRange(1, MAX_LEASE),
    default=DEFAULT_LEASE,
    help="Seconds until another owner may begin if this one dies.",
)


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def idempotency() -> None:
    """Run an effect once for each key: begin before it, commit or fail after it."""


@idempotency.command(short_help="Show the record of a key.")
@_key
@_tenant
@option("--watch", "watching", is_flag=True, help="Refresh until Ctrl-C.")
@interval_option
@server_command
def show(server: Server, as_json: bool, key: str, tenant_id: str | None, watching: bool, interval: float) -> None:
    """Show the record of a key: its status, owner and result.

    With --watch and --json, prints one line per refresh.
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


@idempotency.command(short_help="Take the lease of a key, or show its result.")
@_key
@_tenant
@option("--owner", help="Your owner id.", show_default="generated")
@_lease
@server_command
def begin(server: Server, as_json: bool, key: str, tenant_id: str | None, owner: str | None, lease: int) -> None:
    """Take the lease of a key. Exits with 0 and prints the owner id when the effect is to be run now.

    When it has run already, prints its result as JSON and exits with 3.
    """
    with server.connect() as session:
        # The owner id is chosen here, so that the call can be repeated when a response is lost.
        answer = session.ask(session.record(tenant_id, key).begin(owner or secrets.token_urlsafe(12), lease))
    runs = answer["outcome"] == "run"
    if as_json:
        show_json(answer)
    elif runs:
        click.echo(answer["owner"])
    else:
        click.echo("It has run already. Its result:", err=True)
        printing.console().print(printing.value(answer["result"], whole=True), soft_wrap=True)
    if not runs:
        sys.exit(NOTHING_THERE)


@idempotency.command(short_help="Record that it has succeeded.")
@_key
@click.argument("result", required=False)
@_tenant
@_owner
@option(
    "--retention",
    # Of the server, HOLDFAST_RETENTION is that of instances.
    envvar="HOLDFAST_IDEMPOTENCY_RETENTION",
    type=click.IntRange(1, MAX_RETENTION),
    default=DEFAULT_RETENTION,
    help="Seconds that the record is kept.",
)
@server_command
def commit(
    server: Server, as_json: bool, key: str, result: str | None, tenant_id: str | None, owner: str, retention: int
) -> None:
    """Record that the effect has succeeded, with RESULT, which is JSON."""
    text = b"null" if result is None else next(from_arguments([result]))
    with server.connect() as session:
        answer = session.ask(session.record(tenant_id, key).commit(owner, text, retention))
    show_done(answer, as_json, "Recorded as done")


@idempotency.command(short_help="Record that it has failed.")
@_key
@_tenant
@_owner
@option("--error", default="", help="The error; shown as the last error of the key.")
@server_command
def fail(server: Server, as_json: bool, key: str, tenant_id: str | None, owner: str, error: str) -> None:
    """Record that the effect has failed: the next begin runs it again."""
    with server.connect() as session:
        answer = session.ask(session.record(tenant_id, key).fail(owner, error))
    show_done(answer, as_json, "Recorded as failed")


@idempotency.command(short_help="Renew the lease.")
@_key
@_tenant
@_owner
@_lease
@server_command
def renew(server: Server, as_json: bool, key: str, tenant_id: str | None, owner: str, lease: int) -> None:
    """Renew the lease while the effect runs, so that no other owner can begin."""
    with server.connect() as session:
        answer = session.ask(session.record(tenant_id, key).renew(owner, lease))
    show_done(answer, as_json, f"Leased until {printing.moment(answer['lease_expires_at'])}")


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
