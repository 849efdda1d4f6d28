"""``holdfast orchestration bulk``: actions on all instances that match."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import option
from holdfast.cli.orchestration_lists import filter_options
from holdfast.cli.queue_input import from_arguments, steps
from holdfast.cli.session import FAILED, NOTHING_THERE, server_command, show_json
from holdfast.client.api.orchestration_lists import act_on_runs
from holdfast.client.instance_filter import bulk_body
from holdfast.logs import counted
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.orchestration_lists import Answer
    from holdfast.client.instance_filter import BulkAction

# The progress bar moves after each call of this size.
_AT_ONCE = 100
# A call that only counts can have more.
_COUNTED_AT_ONCE = 1000
_MOST_NAMED = 20

_OPTIONS = (
    option("--all", "every", is_flag=True, help="Act on every instance, without an option that selects some."),
    option("--dry-run", is_flag=True, help="Only count the instances."),
    option("--yes", is_flag=True, help="Do not ask for confirmation."),
)
_reason = option("--reason", help="The reason, which is kept in the history.")


@click.group(short_help="Act on all instances that match.")
def bulk() -> None:
    """Act on all instances that match the options, the newest first. Asks first, with their number.

    Exits with 1 when it could not be done for some, which are named, and with 3 when none match.
    """


def _bulk_command(command: Callable[..., Any]) -> Callable[..., Any]:
    for add in (server_command, *reversed(_OPTIONS), filter_options):
        command = add(command)
    return command


@bulk.command()
@_bulk_command
@_reason
def cancel(server: Server, as_json: bool, reason: str | None, **given: Any) -> None:
    """Cancel the instances that match."""
    _act(server, as_json, "cancel", "cancelled", {"reason": reason}, **given)


@bulk.command()
@_bulk_command
@_reason
def suspend(server: Server, as_json: bool, reason: str | None, **given: Any) -> None:
    """Suspend the instances that match."""
    _act(server, as_json, "suspend", "suspended", {"reason": reason}, **given)


@bulk.command()
@_bulk_command
def resume(server: Server, as_json: bool, **given: Any) -> None:
    """Resume the suspended instances that match."""
    _act(server, as_json, "resume", "resumed", {}, **given)


@bulk.command()
@_bulk_command
def delete(server: Server, as_json: bool, **given: Any) -> None:
    """Delete the instances that match, with their histories. Instances that have not ended stay."""
    _act(server, as_json, "delete", "deleted", {}, **given)


@bulk.command()
@_bulk_command
def rerun(server: Server, as_json: bool, **given: Any) -> None:
    """Rerun the instances that match from their last failure. Each failure is rerun once."""
    _act(server, as_json, "rerun", "rerun", {}, **given)


@bulk.command("raise")
@click.argument("event")
@click.argument("data", metavar="[DATA]", required=False)
@_bulk_command
def raise_event(server: Server, as_json: bool, event: str, data: str | None, **given: Any) -> None:
    """Raise an event, with DATA, which is JSON, for the instances that match."""
    value = None if data is None else load(next(from_arguments([data])))
    _act(server, as_json, "raise", "sent the event", {"event": event, "data": value}, **given)


def _act(
    server: Server,
    as_json: bool,
    action: BulkAction,
    done: str,
    fields: Answer,
    *,
    selected: Answer,
    every: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    if not (selected or every):
        raise click.UsageError("Select instances, for example with --status or --tag, or give --all.")
    with server.connect() as session:
        tried = bulk_body(action, selected, every=every, dry_run=True, **fields)
        result = _paged(session, tried, _COUNTED_AT_ONCE, None)
        if not dry_run and result["matched"]:
            if not yes:
                click.confirm(f"{action} {counted(result['matched'], 'instance')}?", abort=True, err=True)
            with steps(done, result["matched"]) as report:
                result = _paged(session, tried | {"dry_run": False}, _AT_ONCE, report)
    if as_json:
        show_json(result)
    elif dry_run:
        click.echo(f"{counted(result['matched'], 'instance')} selected")
    elif result["matched"]:
        click.echo(f"{counted(result['done'], 'instance')} {done}")
    else:
        click.echo("No such instances.", err=True)
    failed = result["failed"]
    if failed and not as_json:
        more = len(failed) - _MOST_NAMED
        names = ", ".join(failed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        click.echo(f"holdfast: not {done}: {names}", err=True)
    if not result["matched"]:
        sys.exit(NOTHING_THERE)
    if failed:
        sys.exit(FAILED)


def _paged(session: Session, body: Answer, limit: int, report: Callable[[int], None] | None) -> Answer:
    """Acts page by page. Returns the sums."""
    result: Answer = {"matched": 0, "done": 0, "failed": []}
    cursor: str | None = None
    while True:
        page = session.ask(act_on_runs(session.connection, body, limit, cursor))
        for name in result:
            result[name] += page[name]
        if report is not None:
            report(result["matched"])
        cursor = page.get("next_cursor")
        if cursor is None:
            return result
