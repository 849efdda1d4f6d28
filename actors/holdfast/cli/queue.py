"""``holdfast queue``: everything the REST interface can do with queues, for people and for scripts."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import queue_tables as tables
from holdfast.cli.options import option
from holdfast.cli.queue_input import Lines, from_arguments, progress
from holdfast.cli.remote import EXIT_CODES, NOTHING_THERE, RemoteGroup, server_command, show_json
from holdfast.client.parcels import pack
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

    from holdfast.cli.remote import Server, Session
    from holdfast.client.calls import Answer
    from holdfast.client.parcels import Parcel

MOST_MESSAGES = 100
LONGEST_WAIT = 300

_count = option(
    "--count", type=click.IntRange(1, MOST_MESSAGES), default=1, help=f"How many at most, 1 to {MOST_MESSAGES}."
)


# As the server makes them.
_DASHED_LOCK_ID = re.compile(r"-[A-Za-z0-9_-]{10}")


class LockCommand(click.Command):
    """Takes a lock's id for what it is even where it begins with a dash, as one in 64 does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        dashed = [arg for arg in args if _DASHED_LOCK_ID.fullmatch(arg)]
        if dashed and "--" not in args:
            args = [*(arg for arg in args if arg not in dashed), "--", *dashed]
        return super().parse_args(ctx, args)


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def queue() -> None:
    """Push, pop, look at and configure queues of a running server."""


@queue.command(short_help="Put items in.")
@click.argument("name", metavar="QUEUE")
@click.argument("items", metavar="[ITEM]...", nargs=-1)
@option("--file", type=click.File("rb"), help="Push the JSON lines of this file; '-' is standard input.")
@option("--priority", type=click.IntRange(0), default=0, help="Lowest first.")
@server_command
def push(
    server: Server, as_json: bool, name: str, items: tuple[str, ...], file: BinaryIO | None, priority: int
) -> None:
    """Push items, each of them JSON: arguments, the lines of a file, or the lines of standard input.

    Lines travel in requests of at most 1000 items and 4 MiB. Each request is stored as a whole or not at all; an
    error says how many items were stored before it. With --json, a line for each request: its count and ids.
    """
    if items and file is not None:
        raise click.UsageError("Give either items or --file.")
    if items:
        _push(server, as_json, name, pack(list(from_arguments(items)), priority), None)
        return
    if file is None and sys.stdin.isatty():
        raise click.UsageError("Nothing to push: give an ITEM or --file, or pipe JSON lines in.")
    lines = Lines(file or sys.stdin.buffer)
    _push(server, as_json, name, pack(lines, priority), lines)


def _push(server: Server, as_json: bool, name: str, parcels: Iterable[Parcel], lines: Lines | None) -> None:
    pushed = 0
    ids: list[str] = []
    try:
        with server.connect() as session, progress(lines) as report:
            calls = session.queue(name)
            for parcel in parcels:
                answer = session.ask(calls.push(parcel.body))
                pushed += parcel.count
                ids = answer["ids"]
                report(pushed)
                if as_json:
                    show_json(answer)
    except (HoldfastError, click.UsageError, KeyboardInterrupt):
        if lines:
            click.echo(f"{pushed:,} items were pushed before this.", err=True)
        raise
    if not as_json:
        click.echo(ids[0] if pushed == 1 else f"{pushed:,} items pushed to {name}")


@queue.command(short_help="Take the first items, for good or under a lock.")
@click.argument("name", metavar="QUEUE")
@option("--ack", is_flag=True, help="Take under a lock, and answer for it with 'ack' or 'abandon'.")
@_count
@option(
    "--wait", type=click.FloatRange(0, LONGEST_WAIT), default=0.0, help="Seconds to wait for something to be there."
)
@option("--ttl", type=click.IntRange(1, 300), default=30, help="Seconds the lock of --ack lasts.")
@server_command
def pop(server: Server, as_json: bool, name: str, ack: bool, count: int, wait: float, ttl: int) -> None:
    """Take the first items: for good, or under a lock with --ack. Exits with 3 when there are none."""
    with server.connect() as session:
        calls = session.queue(name)
        answer = session.ask(calls.lock(count, ttl, wait) if ack else calls.pop(count, wait))
    _show_messages(answer, name, as_json, whole=True)
    if not as_json and answer.get("lock_id"):
        click.echo(f"Locked for {tables.spoken(ttl)}. When done: holdfast queue ack {name} {answer['lock_id']}")
    _nothing_when_empty(answer)


@queue.command(short_help="Show the next items, and leave them there.")
@click.argument("name", metavar="QUEUE")
@_count
@server_command
def peek(server: Server, as_json: bool, name: str, count: int) -> None:
    """Show the next items and leave them where they are. Exits with 3 when there are none."""
    with server.connect() as session:
        answer = session.ask(session.queue(name).peek(count))
    _show_messages(answer, name, as_json, whole=False)
    _nothing_when_empty(answer)


@queue.command(short_help="Show how much waits, what is locked, what was done.")
@click.argument("name", metavar="QUEUE")
@option("--watch", is_flag=True, help="Show it again and again, with rates, until Ctrl-C.")
@option("--interval", type=click.FloatRange(0.1), default=1.0, help="Seconds between two looks of --watch.")
@server_command
def stats(server: Server, as_json: bool, name: str, watch: bool, interval: float) -> None:
    """Show how much waits, what is locked and until when, and what has been done so far.

    With --watch and --json, a line for each look.
    """
    with server.connect() as session:
        if watch:
            _watch(session, as_json, name, interval)
            return
        answer = session.ask(session.queue(name).stats())
    if as_json:
        show_json(answer)
    else:
        tables.console().print(tables.stats(answer))


@queue.command("in-flight")
@click.argument("name", metavar="QUEUE")
@server_command
def in_flight(server: Server, as_json: bool, name: str) -> None:
    """Show what is locked, and until when."""
    with server.connect() as session:
        answer = session.ask(session.queue(name).in_flight())
    if as_json:
        show_json(answer)
    elif answer["locks"]:
        tables.console().print(tables.locks(answer["locks"]))
    else:
        click.echo(f"Nothing of {name} is locked.")


@queue.command(cls=LockCommand, short_help="Acknowledge what is locked: it is done with.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@server_command
def ack(server: Server, as_json: bool, name: str, lock_id: str) -> None:
    """Acknowledge what is locked: it is done with."""
    with server.connect() as session:
        _show_done(session.ask(session.queue(name).acknowledge(lock_id)), as_json)


@queue.command(cls=LockCommand, short_help="Give back what is locked.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@option("--error", help="What went wrong; whoever gets the items next is told.")
@server_command
def abandon(server: Server, as_json: bool, name: str, lock_id: str, error: str | None) -> None:
    """Give back what is locked, to the front of its priority."""
    with server.connect() as session:
        _show_done(session.ask(session.queue(name).abandon(lock_id, error)), as_json)


@queue.command(cls=LockCommand, short_help="Make a lock last longer.")
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@option("--seconds", type=click.IntRange(1, 300), default=30, help="Seconds to add.")
@server_command
def extend(server: Server, as_json: bool, name: str, lock_id: str, seconds: int) -> None:
    """Make a lock last longer, up to 300 seconds from now."""
    with server.connect() as session:
        answer = session.ask(session.queue(name).extend(lock_id, seconds))
    if as_json:
        show_json(answer)
    else:
        click.echo(f"Locked for {tables.spoken(max(0, answer['lock_expires_at'] - time.time()))} more")


@queue.command("dead-letter", cls=LockCommand)
@click.argument("name", metavar="QUEUE")
@click.argument("lock_id")
@option("--reason", help="Why; kept with the dead letters.")
@server_command
def dead_letter(server: Server, as_json: bool, name: str, lock_id: str, reason: str | None) -> None:
    """Move what is locked to the queue's dead-letter queue."""
    with server.connect() as session:
        _show_done(session.ask(session.queue(name).dead_letter(lock_id, reason)), as_json)


@queue.command(short_help="Remove all that waits.")
@click.argument("name", metavar="QUEUE")
@option("--yes", is_flag=True, help="Do not ask.")
@server_command
def purge(server: Server, as_json: bool, name: str, yes: bool) -> None:
    """Remove all that waits. What is locked stays."""
    with server.connect() as session:
        calls = session.queue(name)
        if not yes:
            waiting = session.ask(calls.stats())["count"]
            click.confirm(f"Remove {waiting:,} waiting items of {name} for good?", abort=True, err=True)
        answer = session.ask(calls.purge())
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{answer['purged']:,} items removed")


@queue.command(short_help="Show or change the configuration.")
@click.argument("name", metavar="QUEUE")
@click.argument("changes", metavar="[KEY=VALUE]...", nargs=-1)
@server_command
def config(server: Server, as_json: bool, name: str, changes: tuple[str, ...]) -> None:
    """Show the configuration, or set the keys that are named: holdfast queue config orders max_locks=8

    A value is JSON, or else a text as it is; null takes a setting back to what it was at first, where it can be.
    """
    wanted = dict(_setting(change) for change in changes)
    with server.connect() as session:
        calls = session.queue(name)
        answer = session.ask(calls.set_config(wanted) if wanted else calls.config())
    if as_json:
        show_json(answer)
    else:
        tables.console().print(tables.config(answer))


@queue.command("list")
@server_command
def list_them(server: Server, as_json: bool) -> None:
    """List the queues there are."""
    with server.connect() as session:
        found = list(session.queues())
    if as_json:
        show_json({"queues": found})
    elif found:
        tables.console().print(tables.queues(found))
    else:
        click.echo("There are no queues.")


def _show_messages(answer: Answer, name: str, as_json: bool, *, whole: bool) -> None:
    if as_json:
        show_json(answer)
    elif answer["count"]:
        tables.console().print(tables.messages(answer, whole=whole))
    else:
        click.echo(f"Nothing waits in {name}.", err=True)


def _nothing_when_empty(answer: Answer) -> None:
    if not answer["count"]:
        sys.exit(NOTHING_THERE)


def _show_done(answer: Answer, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        click.echo(answer["message"])


def _watch(session: Session, as_json: bool, name: str, interval: float) -> None:
    """Ctrl-C is how it ends, and no error."""
    from rich.live import Live

    calls = session.queue(name)
    console = tables.console()
    live = Live(console=console, auto_refresh=False, screen=True) if console.is_terminal and not as_json else None
    before: tuple[float, Mapping[str, int]] | None = None
    try:
        with live or nullcontext():
            while True:
                answer = session.ask(calls.stats())
                now = time.monotonic()
                shown = tables.stats(answer, _rates(before, now, answer["counters"]))
                before = now, answer["counters"]
                if as_json:
                    show_json(answer)
                elif live is not None:
                    live.update(shown, refresh=True)
                else:
                    console.print(shown)
                time.sleep(interval)
    except KeyboardInterrupt:
        return


def _rates(before: tuple[float, Mapping[str, int]] | None, now: float, counters: Mapping[str, int]) -> dict[str, float]:
    if before is None:
        return {}
    then, counted = before
    return {name: (count - counted.get(name, 0)) / (now - then) for name, count in counters.items()}


def _setting(change: str) -> tuple[str, Any]:
    key, found, value = change.partition("=")
    if not found or not key:
        raise click.UsageError(f"{change!r} is not KEY=VALUE.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
