"""``holdfast schedule``: the schedule calls of the REST interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.queue_input import from_arguments
from holdfast.cli.session import NOTHING_THERE, RemoteGroup, server_command, show_done, show_json
from holdfast.client.api.schedules import list_schedules
from holdfast.logs import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.cli.session import Server
    from holdfast.client.api.schedules import Answer

EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused, or failed
  2  wrong usage, or a value the server rejects
  3  nothing there: no such schedule, no orchestration of that name; or there are no schedules
  5  the server cannot be reached; nothing was done
  6  no clear response; it may or may not have been done
  7  no room: too many instances of the schedule have yet to be started
"""

_PAGE = 50

_name = click.argument("name", metavar="SCHEDULE")


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def schedule() -> None:
    """Start orchestrations at the times of a cron expression, or at an interval."""


@schedule.command("list", short_help="List the schedules.")
@server_command
def list_(server: Server, as_json: bool) -> None:
    """List the schedules, with their next and last ticks."""
    found: list[Answer] = []
    with server.connect() as session:
        cursor: str | None = None
        while True:
            page = session.ask(list_schedules(session.connection, _PAGE, cursor))
            found += page["schedules"]
            cursor = page.get("next_cursor")
            if cursor is None:
                break
    if as_json:
        show_json({"schedules": found})
    elif found:
        printing.console().print(_table(found))
    else:
        click.echo("There are no schedules.", err=True)
    if not found:
        sys.exit(NOTHING_THERE)


@schedule.command(short_help="Show a schedule.")
@_name
@server_command
def show(server: Server, as_json: bool, name: str) -> None:
    """Show a schedule, its next ticks and its last ones."""
    with server.connect() as session:
        answer = session.ask(session.schedule(name).get())
    if as_json:
        show_json(answer)
    else:
        printing.console().print(_details(answer))


@schedule.command(short_help="Make a schedule, or replace it.")
@_name
@click.argument("orchestration")
@click.argument("given", metavar="[INPUT]", required=False)
@option("--cron", help="Minute, hour, day, month and day of week, for example '0 6 * * *'.")
@option("--every", "every_seconds", type=click.IntRange(1), metavar="SECONDS", help="An interval, instead of --cron.")
@option("--timezone", default="UTC", help="Time zone of --cron, for example Europe/Berlin.")
@option(
    "--overlap",
    type=click.Choice(["skip", "allow", "buffer_one", "cancel_previous"]),
    default="skip",
    help="What a tick does while the instance of the last one has not ended.",
)
@option(
    "--catch-up", "catch_up_seconds", type=click.IntRange(0), default=60, help="Seconds after which a tick is missed."
)
@option("--jitter", "jitter_seconds", type=click.IntRange(0), default=0, help="Delay ticks by a random part of this.")
@option("--starts-at", metavar="TIME", help="No tick before this time, in ISO 8601.")
@option("--ends-at", metavar="TIME", help="No tick after this time.")
@option("--paused", is_flag=True, help="Make it paused.")
@server_command
def put(server: Server, as_json: bool, name: str, given: str | None, **definition: Any) -> None:
    """Make a schedule that starts ORCHESTRATION with INPUT, which is JSON, or replace it as a whole."""
    text = b"null" if given is None else next(from_arguments([given]))
    fields = {key: value for key, value in definition.items() if value is not None}
    with server.connect() as session:
        answer = session.ask(session.schedule(name).put(fields, text))
    if as_json:
        show_json(answer)
    else:
        printing.console().print(_details(answer))


@schedule.command(short_help="Stop the ticks for now.")
@_name
@server_command
def pause(server: Server, as_json: bool, name: str) -> None:
    """Stop the ticks of a schedule until it is resumed."""
    with server.connect() as session:
        answer = session.ask(session.schedule(name).pause())
    show_done(answer, as_json, f"{name} paused")


@schedule.command(short_help="Continue a paused schedule.")
@_name
@server_command
def resume(server: Server, as_json: bool, name: str) -> None:
    """Continue a paused schedule. Ticks of the pause do not run."""
    with server.connect() as session:
        answer = session.ask(session.schedule(name).resume())
    show_done(answer, as_json, f"{name} resumed")


@schedule.command(short_help="Start an instance now.")
@_name
@server_command
def trigger(server: Server, as_json: bool, name: str) -> None:
    """Start an instance now, also while the schedule is paused, and print its id."""
    with server.connect() as session:
        answer = session.ask(session.schedule(name).trigger())
    show_done(answer, as_json, answer["instance_id"])


@schedule.command(short_help="Start the instances of past ticks.")
@_name
@option(
    "--from",
    "since",
    envvar="HOLDFAST_BACKFILL_FROM",
    required=True,
    metavar="TIME",
    help="The first tick that may run, in ISO 8601.",
)
@option(
    "--to",
    "until",
    # Of other commands, HOLDFAST_TO is a file.
    envvar="HOLDFAST_BACKFILL_TO",
    required=True,
    metavar="TIME",
    help="Ticks at this time and later do not run.",
)
@server_command
def backfill(server: Server, as_json: bool, name: str, since: str, until: str) -> None:
    """Start the instances of all ticks in a time, each once."""
    with server.connect() as session:
        answer = session.ask(session.schedule(name).backfill(since, until))
    show_done(answer, as_json, f"{counted(answer['ticks'], 'tick')} of {name} will run")


@schedule.command(short_help="Delete a schedule.")
@_name
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
@server_command
def delete(server: Server, as_json: bool, name: str, yes: bool) -> None:
    """Delete a schedule. Its instances stay."""
    if not yes:
        click.confirm(f"Delete the schedule {name} for good?", abort=True, err=True)
    with server.connect() as session:
        answer = session.ask(session.schedule(name).delete())
    show_done(answer, as_json, f"{name} deleted")


def _table(found: list[Answer]) -> RenderableType:
    table = printing.new_table()
    for column in ("schedule", "orchestration", "ticks", "next", "last"):
        table.add_column(column)
    for answer in found:
        upcoming = "paused" if answer["paused"] else next(map(printing.moment, answer["next_at"]), "never")
        last = next((_tick(tick) for tick in answer["last"]), "")
        table.add_row(*map(Text, (answer["name"], answer["orchestration"], _ticks(answer), upcoming, last)))
    return table


def _details(answer: Answer) -> RenderableType:
    table = printing.new_table()
    table.add_column(answer["name"])
    table.add_column("")
    shown = {
        "orchestration": answer["orchestration"],
        "ticks": _ticks(answer),
        "paused": answer.get("paused_reason", "yes") if answer["paused"] else "no",
        "overlap": answer["overlap"],
        "missed": str(answer["missed"]),
        "next": "\n".join(printing.moment(tick, exact=True) for tick in answer["next_at"]),
        "last": "\n".join(map(_tick, answer["last"])),
    }
    for name, text in shown.items():
        table.add_row(Text(name), Text(text))
    return table


def _ticks(answer: Answer) -> str:
    if "cron" in answer:
        return f"{answer['cron']} ({answer['timezone']})"
    return f"every {printing.spoken(answer['every_seconds'])}"


def _tick(tick: Answer) -> str:
    at = printing.moment(tick["at"], exact=True)
    if tick.get("skipped"):
        return f"{at} skipped"
    return f"{at} {tick['instance_id']} {tick.get('error') or tick['status'] or 'deleted'}"
