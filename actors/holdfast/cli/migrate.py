"""``holdfast migrate``: moves everything from one state store to another, with the servers stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.options import option
from holdfast.cli.progress import progress_bar
from holdfast.errors import InvalidRequest
from holdfast.logs import counted

if TYPE_CHECKING:
    from holdfast.state_store.migration import Moved


@click.command(short_help="Move everything to another state store.")
@option(
    "--from",
    "source",
    # A URL may have a password, which the process list would show.
    envvar="HOLDFAST_MIGRATE_FROM",
    metavar="URL",
    required=True,
    help="Database to move from: sqlite:///path or postgresql://…",
)
@option(
    "--to",
    "target",
    envvar="HOLDFAST_MIGRATE_TO",
    metavar="URL",
    required=True,
    help="Database to move to. A file called holdfast.db is an embedded server's, any other one is of Dapr's "
    "state.sqlite.",
)
@option("--app-id", help="App id whose state is moved.", show_default="the only one in the source")
@option("--to-app-id", help="App id of the state in the target.", show_default="the same")
@option("--from-table", default="state", help="Name of the state table of --from.")
@option("--to-table", default="state", help="Name of the state table of --to.")
@option(
    "--create",
    type=click.Choice(["v1", "v2"]),
    help="Create the table in PostgreSQL if there is none, as this version of Dapr's state.postgresql does.",
)
@option(
    "--retention",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="The --retention of the servers that will use the target.",
    show_default="keep ended instances",
)
@click.option("--ignore-connections", is_flag=True, help="Allow other connections to a PostgreSQL database.")
def migrate(
    source: str,
    target: str,
    app_id: str | None,
    to_app_id: str | None,
    from_table: str,
    to_table: str,
    create: str | None,
    retention: float | None,
    ignore_connections: bool,
) -> None:
    """Move queues, instances, schedules, idempotency records and apps' actors to another state store.

    Stop all servers of both, and their daprd, first. The target must have no state of the app. It is written in one
    transaction: if the command fails or is interrupted, the target is unchanged. The source is never changed; do not
    start a server on it again afterwards, or its work is done twice.
    """
    # Imported here: they take longer than the other commands need to start.
    from holdfast.state_store.migration import End
    from holdfast.state_store.migration import migrate as move
    from holdfast.state_store.url import StoreUrl

    ends = (StoreUrl(source), StoreUrl(target))
    for url, name in zip(ends, ("--from", "--to"), strict=True):
        try:
            url.check(name)
        except InvalidRequest as error:
            raise click.UsageError(str(error)) from error
    with progress_bar() as progress:
        moved = move(
            End(ends[0], from_table, ignore_connections=ignore_connections),
            End(ends[1], to_table, create, ignore_connections=ignore_connections),
            app_id=app_id,
            to_app_id=to_app_id,
            retention_seconds=retention,
            progress=progress,
        )
    _show(moved)


def _show(moved: Moved) -> None:
    renamed = "" if moved.app_id == moved.to_app_id else f" to {moved.to_app_id}"
    click.echo(f"Moved {counted(moved.values.total(), 'value')} of {moved.app_id}{renamed}, and verified their number.")
    reminders = f", and {counted(moved.app_reminders, 'reminder')} of apps' actors" if moved.app_reminders else ""
    click.echo(f"The next server registers {counted(moved.to_wake, 'deadline')}{reminders}.")
    for what, number in sorted(moved.skipped.items()):
        click.echo(f"Left behind: {counted(number, 'value')} {what}.", err=True)
    if moved.without_reminders:
        click.echo(
            f"WARNING: reminders of your own actors ({', '.join(moved.without_reminders)}) are in Dapr's scheduler, "
            "which cannot be read. Their state was moved, their reminders were not: register them again.",
            err=True,
        )
    click.echo("Do not start a server on the source again.")
