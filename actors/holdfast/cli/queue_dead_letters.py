"""``holdfast queue dead-letters``, ``redrive`` and ``delete-dead-letters``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import printing
from holdfast.cli import queue_tables as tables
from holdfast.cli.options import option
from holdfast.cli.orchestration_start import read_moment
from holdfast.cli.queue_input import steps
from holdfast.cli.session import NOTHING_THERE, server_command, show_done, show_json
from holdfast.client.api.queues import letters_selected
from holdfast.logs import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.queues import Answer, QueueCalls

MOST_SHOWN = 100
# The progress bar moves after each call of this size.
_AT_ONCE = 1000


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


_ids = click.argument("ids", metavar="[ID]...", nargs=-1)
_reason = option("--reason", help="Only those with this reason, for example max_deliveries.")
_error_contains = option("--error-contains", metavar="TEXT", help="Only those with this text in their last error.")
_before = option("--before", metavar="TIME", help="Only those dead-lettered before this time (ISO 8601, UTC).")


@click.command(short_help="Move dead letters back to their original queue.")
@click.argument("name", metavar="QUEUE")
@_ids
@_reason
@_error_contains
@_before
@option("--max", "most", type=click.IntRange(1), help="Largest number to move.")
@server_command
def redrive(
    server: Server,
    as_json: bool,
    name: str,
    ids: tuple[str, ...],
    reason: str | None,
    error_contains: str | None,
    before: str | None,
    most: int | None,
) -> None:
    """Move dead letters back to their original queue, with a delivery count of 0.

    Moves the dead letters with these ids, as 'dead-letters' shows them, those that the options select, or all. Items
    that fail again in the meantime are not moved a second time.
    """
    selected = _selected(ids, reason, error_contains, before)
    with server.connect() as session:
        calls = session.queue(name)
        count = _in_steps(session, calls, calls.redrive, "redriven", selected, most)
    show_done({"success": True, "redriven": count}, as_json, f"{counted(count, 'dead letter')} redriven")


@click.command("delete-dead-letters", short_help="Delete dead letters.")
@click.argument("name", metavar="QUEUE")
@_ids
@_reason
@_error_contains
@_before
@option("--max", "most", type=click.IntRange(1), help="Largest number to delete.")
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
@server_command
def delete_dead_letters(
    server: Server,
    as_json: bool,
    name: str,
    ids: tuple[str, ...],
    reason: str | None,
    error_contains: str | None,
    before: str | None,
    most: int | None,
    yes: bool,
) -> None:
    """Delete dead letters for good.

    Deletes the dead letters with these ids, as 'dead-letters' shows them, those that the options select, or all.
    """
    selected = _selected(ids, reason, error_contains, before)
    if not yes:
        which = (
            counted(len(ids), "dead letter") if ids else "the selected dead letters" if selected else "ALL dead letters"
        )
        click.confirm(f"Delete {which} of {name} for good?", abort=True, err=True)
    with server.connect() as session:
        calls = session.queue(name)
        count = _in_steps(session, calls, calls.delete_dead_letters, "deleted", selected, most)
    show_done({"success": True, "deleted": count}, as_json, f"{counted(count, 'dead letter')} deleted")


def _selected(ids: tuple[str, ...], reason: str | None, error_contains: str | None, before: str | None) -> Answer:
    moment = read_moment(before, "--before")
    return letters_selected(
        ids or None,
        reason=reason,
        error_contains=error_contains,
        before=None if moment is None else moment.isoformat(),
    )


def _in_steps(
    session: Session,
    calls: QueueCalls,
    call: Callable[[Answer], Coroutine[Any, Any, Answer]],
    done: str,
    selected: Answer,
    most: int | None,
) -> int:
    """Redrives or deletes in steps, to show progress; never more than there were at the beginning."""
    stats = session.ask(calls.stats())
    # A dead-letter queue has no dead letters of its own: its items are them.
    there = stats["dead_letters"] or stats["count"]
    wanted = there if most is None else min(most, there)
    count = 0
    with steps(done, wanted) as report:
        while count < wanted:
            answer = session.ask(call(selected | {"max": min(_AT_ONCE, wanted - count)}))
            count += answer[done]
            report(count)
            if not answer[done] and "more" not in answer:
                break
            if "next_cursor" in answer:
                selected["cursor"] = answer["next_cursor"]
    return count
