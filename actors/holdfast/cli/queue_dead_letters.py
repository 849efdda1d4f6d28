"""``holdfast queue dead-letters`` and ``redrive``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli import printing
from holdfast.cli import queue_tables as tables
from holdfast.cli.options import option
from holdfast.cli.queue_input import steps
from holdfast.cli.session import NOTHING_THERE, server_command, show_done, show_json
from holdfast.logs import counted

if TYPE_CHECKING:
    from holdfast.cli.session import Server, Session
    from holdfast.client.api.queues import Answer, QueueCalls

MOST_SHOWN = 100
# The progress bar moves after each call of this size.
_REDRIVEN_AT_ONCE = 1000


@click.command("dead-letters", short_help="Show the dead letters, with their reasons.")
@click.argument("name", metavar="QUEUE")
@option("--limit", type=click.IntRange(1), default=50, help="Largest number to show.")
@server_command
def dead_letters(server: Server, as_json: bool, name: str, limit: int) -> None:
    """Show the queue's dead letters, oldest first; for a dead-letter queue, all its items.

    Exits with 3 when there are none.
    """
    found: list[Answer] = []
    with server.connect() as session:
        calls = session.queue(name)
        cursor: str | None = None
        while True:
            page = session.ask(calls.dead_letters(min(MOST_SHOWN, limit - len(found)), cursor))
            found += page["dead_letters"]
            cursor = page.get("next_cursor")
            if cursor is None or len(found) >= limit:
                break
    if as_json:
        show_json({"dead_letters": found} | ({} if cursor is None else {"next_cursor": cursor}))
    elif found:
        printing.console().print(tables.dead_letters(found))
        if cursor is not None:
            click.echo("There are more; raise --limit to see them.")
    else:
        click.echo(f"{name} has no dead letters.", err=True)
    if not found:
        sys.exit(NOTHING_THERE)


@click.command(short_help="Move dead letters back to their original queue.")
@click.argument("name", metavar="QUEUE")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option("--max", "most", type=click.IntRange(1), help="Largest number to move.")
@server_command
def redrive(server: Server, as_json: bool, name: str, ids: tuple[str, ...], most: int | None) -> None:
    """Move dead letters back to their original queue, with a delivery count of 0.

    Moves the dead letters with these ids, as 'dead-letters' shows them, or all. Items that fail again in the meantime
    are not moved a second time.
    """
    with server.connect() as session:
        calls = session.queue(name)
        answer = session.ask(calls.redrive(ids, most)) if ids else _redrive_all(session, calls, most)
    show_done(answer, as_json, f"{counted(answer['redriven'], 'dead letter')} redriven")


def _redrive_all(session: Session, calls: QueueCalls, most: int | None) -> Answer:
    """Redrives in steps, to show progress; never more than there were at the beginning."""
    stats = session.ask(calls.stats())
    # A dead-letter queue has no dead letters of its own: its items are them.
    there = stats["dead_letters"] or stats["count"]
    wanted = there if most is None else min(most, there)
    redriven = 0
    with steps("redriving", wanted) as report:
        while redriven < wanted:
            done = session.ask(calls.redrive(None, min(_REDRIVEN_AT_ONCE, wanted - redriven)))["redriven"]
            if not done:
                break
            redriven += done
            report(redriven)
    return {"success": True, "redriven": redriven}
