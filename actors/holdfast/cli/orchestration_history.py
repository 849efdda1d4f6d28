"""``holdfast orchestration history`` and ``export``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.session import server_command, show_json
from holdfast.cli.timeline import timeline
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from typing import BinaryIO

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.orchestrations import Answer, RunCalls

MOST_EVENTS = 1000
EXPORT_FORMAT = 1

_execution = option(
    "--execution", type=click.IntRange(1), help="An earlier execution, before continue_as_new.", show_default="the last"
)


@click.command(short_help="Show the history of an instance as a timeline.")
@click.argument("instance_id", metavar="ID")
@option("--limit", type=click.IntRange(1), default=1000, help="Largest number of events.")
@_execution
@server_command
def history(server: Server, as_json: bool, instance_id: str, limit: int, execution: int | None) -> None:
    """Show the history of an instance as a timeline of events, with results and durations."""
    with server.connect() as session:
        calls = session.run(instance_id)
        events, cursor = _events(session, calls, limit, execution, recorded=False)
        status = None if as_json else session.ask(calls.status())
    if status is None:
        show_json({"events": events} | ({} if cursor is None else {"next_cursor": cursor}))
        return
    printing.console().print(timeline(status, events))
    if cursor is not None:
        click.echo("There are more; raise --limit to see them.")


@click.command(short_help="Write the history of an instance, for replays in tests.")
@click.argument("instance_id", metavar="ID")
@option("--to", type=click.File("wb"), default="-", help="Output file; '-' is standard output.")
@_execution
@server_command
def export(server: Server, as_json: bool, instance_id: str, to: BinaryIO, execution: int | None) -> None:
    """Write the whole history of an instance, in its stored form, as one JSON document. A test can replay the current
    code against it, and fails when the code no longer matches the history. --json has no effect.
    """
    with server.connect() as session:
        calls = session.run(instance_id)
        status = session.ask(calls.status())
        events, _ = _events(session, calls, None, execution, recorded=True)
    header: dict[str, Any] = {key: status[key] for key in ("instance_id", "name", "version")}
    to.write(dump({"format": EXPORT_FORMAT, **header, "events": events}) + b"\n")


def _events(
    session: Session, calls: RunCalls, limit: int | None, execution: int | None, *, recorded: bool
) -> tuple[list[Answer], str | None]:
    """Returns up to ``limit`` events, and the cursor of the next page if there are more."""
    found: list[Answer] = []
    cursor: str | None = None
    while True:
        most = MOST_EVENTS if limit is None else min(MOST_EVENTS, limit - len(found))
        page = session.ask(calls.history(most, cursor, execution, recorded=recorded))
        found += page["events"]
        cursor = page.get("next_cursor")
        if cursor is None or len(found) == limit:
            return found, cursor
