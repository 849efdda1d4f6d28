"""``holdfast orchestration``: what happened to an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.remote import server_command, show_json
from holdfast.cli.timeline import timeline
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from typing import BinaryIO

    from holdfast.cli.remote import Server, Session
    from holdfast.client.run_calls import Answer, RunCalls

MOST_EVENTS = 1000
EXPORT_FORMAT = 1

_execution = option(
    "--execution", type=click.IntRange(1), help="An earlier one, before it continued as new.", show_default="the last"
)


@click.command(short_help="Show what happened to one, as a timeline.")
@click.argument("instance_id", metavar="ID")
@option("--limit", type=click.IntRange(1), default=1000, help="How many events at most.")
@_execution
@server_command
def history(server: Server, as_json: bool, instance_id: str, limit: int, execution: int | None) -> None:
    """Show what happened to an instance, event by event: what was decided, what came of it, and how long it took."""
    with server.connect() as session:
        calls = session.run(instance_id)
        events, cursor = _events(session, calls, limit, execution, recorded=False)
        status = None if as_json else session.ask(calls.status())
    if status is None:
        show_json({"events": events} | ({} if cursor is None else {"next_cursor": cursor}))
        return
    printing.console().print(timeline(status, events))
    if cursor is not None:
        click.echo("There are more; --limit shows them.")


@click.command(short_help="Write the history of one, for replays in tests.")
@click.argument("instance_id", metavar="ID")
@option("--to", type=click.File("wb"), default="-", help="Where to; '-' is standard output.")
@_execution
@server_command
def export(server: Server, as_json: bool, instance_id: str, to: BinaryIO, execution: int | None) -> None:
    """Write the whole history of an instance as it is kept, one JSON document: a test can replay today's code
    against it, and fails when the code would no longer do what it did. --json changes nothing.
    """
    with server.connect() as session:
        calls = session.run(instance_id)
        status = session.ask(calls.status())
        events, _ = _events(session, calls, None, execution, recorded=True)
    told: dict[str, Any] = {key: status[key] for key in ("instance_id", "name", "version")}
    to.write(dump({"format": EXPORT_FORMAT, **told, "events": events}) + b"\n")


def _events(
    session: Session, calls: RunCalls, limit: int | None, execution: int | None, *, recorded: bool
) -> tuple[list[Answer], str | None]:
    """And where the others begin, when there are more."""
    found: list[Answer] = []
    cursor: str | None = None
    while True:
        most = MOST_EVENTS if limit is None else min(MOST_EVENTS, limit - len(found))
        page = session.ask(calls.history(most, cursor, execution, recorded=recorded))
        found += page["events"]
        cursor = page.get("next_cursor")
        if cursor is None or len(found) == limit:
            return found, cursor
