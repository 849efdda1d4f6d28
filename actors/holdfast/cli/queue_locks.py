"""``holdfast queue``: the commands about locks, one's own and other consumers'."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from holdfast.cli import printing
from holdfast.cli import queue_tables as tables
from holdfast.cli.options import option
from holdfast.cli.session import server_command, show_done, show_json
from holdfast.logs import counted

if TYPE_CHECKING:
    from holdfast.cli.session import Server
    from holdfast.client.api.queues import Answer

_error = option("--error", help="What went wrong; shown to the next consumer as the last error.")
_only = option("--only", metavar="ID", multiple=True, help="Only this item of the lock; can be repeated.")
_delay = option(
    "--delay",
    type=click.FloatRange(0),
    help="Seconds before the items are redelivered. Default: the queue's back-off with --error, else 0.",
)

# The form of the server's lock ids.
_DASHED_LOCK_ID = re.compile(r"-[A-Za-z0-9_-]{15}")
_WHOLE_LOCK_ID = re.compile(r"(\d+\.)?[A-Za-z0-9_-]{16}")


class LockCommand(click.Command):
    """Accepts a lock id that begins with a dash, as one in 64 does, and does not take it for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        dashed = [arg for arg in args if _DASHED_LOCK_ID.fullmatch(arg)]
        if dashed and "--" not in args:
            args = [*(arg for arg in args if arg not in dashed), "--", *dashed]
        return super().parse_args(ctx, args)


@click.command("in-flight")
@click.argument("name", metavar="QUEUE")
@server_command
def in_flight(server: Server, as_json: bool, name: str) -> None:
    """Show the locked items, and when their locks expire."""
    with server.connect() as session:
        answer = session.ask(session.queue(name).in_flight())
    if as_json:
        show_json(answer)
    elif answer["locks"]:
        printing.console().print(tables.locks(answer["locks"]))
    else:
        click.echo(f"{name} has no locked items.")


@click.command(cls=LockCommand, short_help="Acknowledge locked items: they were handled.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@server_command
def ack(server: Server, as_json: bool, name: str, lock_id: str) -> None:
    """Acknowledge the locked items: they were handled and are removed."""
    with server.connect() as session:
        _show_message(session.ask(session.queue(name).acknowledge(lock_id)), as_json)


@click.command(cls=LockCommand, short_help="Abandon locked items: they are redelivered.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@_error
@_delay
@_only
@server_command
def abandon(
    server: Server,
    as_json: bool,
    name: str,
    lock_id: str,
    error: str | None,
    delay: float | None,
    only: tuple[str, ...],
) -> None:
    """Abandon locked items: they return to the front of their priority."""
    with server.connect() as session:
        _show_message(session.ask(session.queue(name).abandon(lock_id, error, delay, only or None)), as_json)


@click.command(cls=LockCommand, short_help="Abandon the items of another consumer's lock.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id_prefix", metavar="LOCK_ID_PREFIX")
@_error
@_delay
@server_command
def requeue(
    server: Server, as_json: bool, name: str, lock_id_prefix: str, error: str | None, delay: float | None
) -> None:
    """Abandon the items of another consumer's lock, given the part of its id that 'in-flight' shows."""
    with server.connect() as session:
        _show_message(session.ask(session.queue(name).requeue(lock_id_prefix, error, delay)), as_json)


@click.command(cls=LockCommand, short_help="Extend a lock.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@option("--seconds", type=click.IntRange(1, 300), default=30, help="Seconds to add.")
@server_command
def extend(server: Server, as_json: bool, name: str, lock_id: str, seconds: int) -> None:
    """Extend a lock, at most to 300 seconds from now.

    For another consumer's lock, give the part of its id that 'in-flight' shows.
    """
    with server.connect() as session:
        calls = session.queue(name)
        whole = _WHOLE_LOCK_ID.fullmatch(lock_id)
        answer = session.ask(calls.extend(lock_id, seconds) if whole else calls.extend_in_flight(lock_id, seconds))
    left = printing.spoken(max(0, answer["lock_expires_at"] - time.time()))
    show_done(answer, as_json, f"Locked for {left} more")


@click.command("dead-letter", cls=LockCommand)
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@option("--reason", help="The reason, which is kept with the dead letters.")
@_only
@server_command
def dead_letter(
    server: Server, as_json: bool, name: str, lock_id: str, reason: str | None, only: tuple[str, ...]
) -> None:
    """Move locked items to the queue's dead-letter queue."""
    with server.connect() as session:
        _show_message(session.ask(session.queue(name).dead_letter(lock_id, reason, only or None)), as_json)


@click.command(short_help="Complete locked items by their ids.")
@click.argument("name", metavar="QUEUE")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@server_command
def complete(server: Server, as_json: bool, name: str, ids: tuple[str, ...]) -> None:
    """Complete locked items by their ids, across locks and partitions.

    Safe to repeat: ids that are completed already, or unknown, are ignored.
    """
    with server.connect() as session:
        answer = session.ask(session.queue(name).complete(ids))
    ignored = f", {answer['ignored']:,} ignored" if answer["ignored"] else ""
    show_done(answer, as_json, f"{counted(answer['completed'], 'item')} completed{ignored}")


def _show_message(answer: Answer, as_json: bool) -> None:
    show_done(answer, as_json, answer["message"])
