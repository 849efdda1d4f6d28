"""``holdfast queue``: dead letters."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli import printing
from holdfast.cli import queue_tables as tables
from holdfast.cli.options import option
from holdfast.cli.queue_input import steps
from holdfast.cli.remote import NOTHING_THERE, server_command, show_done, show_json

if TYPE_CHECKING:
    from holdfast.cli.remote import Server, Session
    from holdfast.client.calls import Answer, QueueCalls

MOST_SHOWN = 100
# Each of these is a call that shows how far it got.
_REDRIVEN_AT_ONCE = 1000


@click.command("dead-letters", short_help="Show what was given up, and why.")
@click.argument("name", metavar="QUEUE")
@option("--limit", type=click.IntRange(1), default=50, help="How many at most.")
@server_command
def dead_letters(server: Server, as_json: bool, name: str, limit: int) -> None:
    """Show the queue's dead letters, oldest first; of a dead-letter queue, all that it has.

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
            click.echo("There are more; --limit shows them.")
    else:
        click.echo(f"{name} has no dead letters.", err=True)
    if not found:
        sys.exit(NOTHING_THERE)


@click.command(short_help="Put dead letters back where they came from.")
@click.argument("name", metavar="QUEUE")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option("--max", "most", type=click.IntRange(1), help="How many at most.")
@server_command
def redrive(server: Server, as_json: bool, name: str, ids: tuple[str, ...], most: int | None) -> None:
    """Put dead letters back where they came from, with a delivery count from 0 again.

    Those with these ids, as 'dead-letters' shows them, or all. What fails again meanwhile is not put back twice.
    """
    with server.connect() as session:
        calls = session.queue(name)
        answer = session.ask(calls.redrive(ids, most)) if ids else _redrive_all(session, calls, most)
    show_done(answer, as_json, f"{printing.counted(answer['redriven'], 'dead letter')} put back")


def _redrive_all(session: Session, calls: QueueCalls, most: int | None) -> Answer:
    """In steps, so that there is something to see; never more than there are at first."""
    stats = session.ask(calls.stats())
    # A dead-letter queue has none of its own: it is them.
    there = stats["dead_letters"] or stats["count"]
    wanted = there if most is None else min(most, there)
    redriven = 0
    with steps("putting back", wanted) as report:
        while redriven < wanted:
            done = session.ask(calls.redrive(None, min(_REDRIVEN_AT_ONCE, wanted - redriven)))["redriven"]
            if not done:
                break
            redriven += done
            report(redriven)
    return {"success": True, "redriven": redriven}
