"""``holdfast queue``: the queue calls of the REST interface."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import printing, queue_locks
from holdfast.cli import queue_dead_letters as queue_letters
from holdfast.cli import queue_tables as tables
from holdfast.cli.options import option
from holdfast.cli.queue_input import Lines, field_of, from_arguments, progress
from holdfast.cli.session import EXIT_CODES, NOTHING_THERE, RemoteGroup, server_command, show_done, show_json
from holdfast.cli.watch import interval_option, watch
from holdfast.client.api.push_chunks import Entry, chunked
from holdfast.errors import HoldfastError
from holdfast.logs import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

    from rich.console import RenderableType

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.push_chunks import PushChunk
    from holdfast.client.api.queues import Answer

MOST_MESSAGES = 100
LONGEST_WAIT = 300

_count = option(
    "--count", type=click.IntRange(1, MOST_MESSAGES), default=1, help=f"Largest number of items, 1 to {MOST_MESSAGES}."
)


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def queue() -> None:
    """Push to, pop from, inspect and configure queues of a running server."""


@queue.command(short_help="Push items.")
@click.argument("name", metavar="QUEUE")
@click.argument("items", metavar="[ITEM]...", nargs=-1)
@option("--file", type=click.File("rb"), help="Push the JSON lines of this file; '-' is standard input.")
@option("--priority", type=click.IntRange(0), default=0, help="Priority; the lowest is delivered first.")
@option("--delay", type=click.FloatRange(0), help="Seconds before the items can be delivered.")
@option("--expire-after", type=click.IntRange(1), help="Seconds after which the items expire.")
@option("--dedup-id", help="Dedup id of a single ITEM: pushed again with this id, it is stored once.")
@option("--dedup-field", metavar="FIELD", help="Field of the items that has their dedup id.")
@option("--idempotency-key", help="Idempotency key of a single ITEM, passed to its consumer.")
@option("--for-tenant", "tenant_id", help="Tenant the items are for, passed to their consumer.")
@server_command
def push(
    server: Server,
    as_json: bool,
    name: str,
    items: tuple[str, ...],
    file: BinaryIO | None,
    priority: int,
    delay: float | None,
    expire_after: int | None,
    dedup_id: str | None,
    dedup_field: str | None,
    idempotency_key: str | None,
    tenant_id: str | None,
) -> None:
    """Push items, each of them JSON: arguments, the lines of a file, or the lines of standard input.

    Lines are sent in requests of at most 1000 items and 4 MiB. Each request is stored as a whole or not at all; an
    error says how many items were stored before it. With --json, prints one line per request: its count and ids.
    """
    if items and file is not None:
        raise click.UsageError("Give either items or --file.")
    if dedup_id is not None and dedup_field is not None:
        raise click.UsageError("Give either --dedup-id or --dedup-field.")
    if (dedup_id is not None or idempotency_key is not None) and len(items) != 1:
        raise click.UsageError("--dedup-id and --idempotency-key are for a single ITEM.")

    def entry(item: bytes) -> Entry:
        item_dedup_id = dedup_id if dedup_field is None else field_of(item, dedup_field)
        return Entry(item, priority, item_dedup_id, delay, expire_after, idempotency_key, tenant_id)

    if items:
        _push(server, as_json, name, chunked([entry(item) for item in from_arguments(items)]), None)
        return
    if file is None and sys.stdin.isatty():
        raise click.UsageError("Nothing to push: give an ITEM or --file, or pipe JSON lines in.")
    lines = Lines(file or sys.stdin.buffer)
    _push(server, as_json, name, chunked(entry(line) for line in lines), lines)


def _push(server: Server, as_json: bool, name: str, chunks: Iterable[PushChunk], lines: Lines | None) -> None:
    pushed = stored = 0
    ids: list[str] = []
    try:
        with server.connect() as session, progress(lines) as report:
            calls = session.queue(name)
            for chunk in chunks:
                answer = session.ask(calls.push(chunk))
                pushed += chunk.count
                stored += answer["count"]
                ids = answer["ids"]
                report(pushed)
                if as_json:
                    show_json(answer)
    except (HoldfastError, click.UsageError, KeyboardInterrupt):
        if lines:
            click.echo(f"{pushed:,} items were pushed before this.", err=True)
        raise
    if as_json:
        return
    duplicates = f", {pushed - stored:,} of them duplicates" if stored < pushed else ""
    click.echo(ids[0] if pushed == 1 else f"{pushed:,} items pushed to {name}{duplicates}")


@queue.command(short_help="Pop the first items, for good or under a lock.")
@click.argument("name", metavar="QUEUE")
@option("--ack", is_flag=True, help="Pop under a lock, to be released with 'ack' or 'abandon'.")
@_count
@option("--wait", type=click.FloatRange(0, LONGEST_WAIT), default=0.0, help="Seconds to wait for the first item.")
@option("--ttl", type=click.IntRange(1, 300), default=30, help="Seconds the lock of --ack lasts.")
@server_command
def pop(server: Server, as_json: bool, name: str, ack: bool, count: int, wait: float, ttl: int) -> None:
    """Pop the first items: for good, or under a lock with --ack. Exits with 3 when there are none."""
    with server.connect() as session:
        calls = session.queue(name)
        answer = session.ask(calls.lock(count, ttl, wait) if ack else calls.pop(count, wait))
    _show_messages(answer, name, as_json, whole=True)
    if not as_json and answer.get("lock_id"):
        click.echo(f"Locked for {printing.spoken(ttl)}. When done: holdfast queue ack {name} {answer['lock_id']}")
    _nothing_when_empty(answer)


@queue.command(short_help="Show the next items without removing them.")
@click.argument("name", metavar="QUEUE")
@_count
@server_command
def peek(server: Server, as_json: bool, name: str, count: int) -> None:
    """Show the next items without removing or locking them. Exits with 3 when there are none."""
    with server.connect() as session:
        answer = session.ask(session.queue(name).peek(count))
    _show_messages(answer, name, as_json, whole=False)
    _nothing_when_empty(answer)


@queue.command(short_help="Show the queue's counts, locks and counters.")
@click.argument("name", metavar="QUEUE")
@option("--watch", "watching", is_flag=True, help="Refresh with rates until Ctrl-C.")
@interval_option
@server_command
def stats(server: Server, as_json: bool, name: str, watching: bool, interval: float) -> None:
    """Show the numbers of waiting, locked and delayed items, the locks with their expiry, and the counters.

    With --watch and --json, prints one line per refresh.
    """
    with server.connect() as session:
        if watching:
            _watch(session, as_json, name, interval)
            return
        answer = session.ask(session.queue(name).stats())
    if as_json:
        show_json(answer)
    else:
        printing.console().print(tables.stats(answer))


@queue.command(short_help="Remove one item that is not locked.")
@click.argument("name", metavar="QUEUE")
@click.argument("item_id", metavar="ID")
@server_command
def revoke(server: Server, as_json: bool, name: str, item_id: str) -> None:
    """Remove one item that is not locked, by its id. Exits with 3 when there is no such item."""
    with server.connect() as session:
        answer = session.ask(session.queue(name).revoke(item_id))
    show_done(answer, as_json, f"{item_id} removed")


@queue.command(short_help="Remove all items that are not locked.")
@click.argument("name", metavar="QUEUE")
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
@server_command
def purge(server: Server, as_json: bool, name: str, yes: bool) -> None:
    """Remove all waiting and delayed items. Locked items stay."""
    with server.connect() as session:
        calls = session.queue(name)
        if not yes:
            waiting = session.ask(calls.stats())["count"]
            click.confirm(f"Remove {waiting:,} waiting items of {name} for good?", abort=True, err=True)
        answer = session.ask(calls.purge())
    show_done(answer, as_json, f"{answer['purged']:,} items removed")


@queue.command(short_help="Delete the queue.")
@click.argument("name", metavar="QUEUE")
@option("--force", is_flag=True, help="Delete it with its items, locked ones included.")
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
@server_command
def delete(server: Server, as_json: bool, name: str, force: bool, yes: bool) -> None:
    """Delete the queue: its items, locks, configuration and partitions, and its line in the list.

    Without --force the queue must be empty. Its dead letters are in a queue of their own and stay.
    """
    with server.connect() as session:
        calls = session.queue(name)
        if not yes:
            stats = session.ask(calls.stats())
            items = f" with {counted(stats['count'] + stats['locked'], 'item')}" if force else ""
            click.confirm(f"Delete the queue {name}{items}?", abort=True, err=True)
        answer = session.ask(calls.delete(force=force))
    show_done(answer, as_json, f"{name} deleted" + (f", with {counted(answer['purged'], 'item')}" if force else ""))


@queue.command(short_help="Show or change the configuration.")
@click.argument("name", metavar="QUEUE")
@click.argument("changes", metavar="[KEY=VALUE]...", nargs=-1)
@server_command
def config(server: Server, as_json: bool, name: str, changes: tuple[str, ...]) -> None:
    """Show the configuration, or change the given keys: holdfast queue config orders max_locks=8

    A value is JSON, or else taken as text; null resets a setting to its default, where it can be reset.

    \b
    Keys:
      partitions               number of actors that share the queue; can only grow
      max_locks                locks that may be held at once, in each partition
      max_deliveries           deliveries before an item becomes a dead letter
      dead_letter_queue        queue for dead letters; null: QUEUE-deadletter
      dedup_window_seconds     how long a dedup id is kept
      capacity                 largest number of items, including locked and delayed ones
      default_ttl_seconds      lifetime of items pushed without one
      expired_to_dead_letters  whether expired items become dead letters, or are dropped
      rate_per_second          items that may be pushed per second
      retry_delay_seconds      delay of an item after its first failure: abandoned with an error, or lock expired
      retry_delay_factor       what each further failure multiplies the delay by
      retry_delay_max_seconds  the longest such delay
      paused                   whether pops get nothing; see 'pause' and 'resume'
    """
    wanted = dict(_setting(change) for change in changes)
    with server.connect() as session:
        calls = session.queue(name)
        answer = session.ask(calls.set_config(wanted) if wanted else calls.config())
    if as_json:
        show_json(answer)
    else:
        printing.console().print(tables.config(answer))


@queue.command(short_help="Pause the queue: pops get nothing.")
@click.argument("name", metavar="QUEUE")
@server_command
def pause(server: Server, as_json: bool, name: str) -> None:
    """Pause the queue: pops get nothing until 'resume'. Pushes go on, and so do locks that are held."""
    _set_paused(server, as_json, name, paused=True)


@queue.command(short_help="Resume a paused queue.")
@click.argument("name", metavar="QUEUE")
@server_command
def resume(server: Server, as_json: bool, name: str) -> None:
    """Resume a paused queue: pops get items again, and waiting ones get theirs at once."""
    _set_paused(server, as_json, name, paused=False)


def _set_paused(server: Server, as_json: bool, name: str, *, paused: bool) -> None:
    with server.connect() as session:
        answer = session.ask(session.queue(name).set_config({"paused": paused}))
    show_done(answer, as_json, f"{name} {'paused' if paused else 'resumed'}")


@queue.command("list")
@server_command
def list_them(server: Server, as_json: bool) -> None:
    """List the queues."""
    with server.connect() as session:
        found = list(session.queues())
    if as_json:
        show_json({"queues": found})
    elif found:
        printing.console().print(tables.queues(found))
    else:
        click.echo("There are no queues.")


def _show_messages(answer: Answer, name: str, as_json: bool, *, whole: bool) -> None:
    if as_json:
        show_json(answer)
    elif answer["count"]:
        printing.console().print(tables.messages(answer, whole=whole))
    elif answer.get("paused"):
        click.echo(f"{name} is paused: 'holdfast queue resume {name}' lets its items be popped.", err=True)
    else:
        click.echo(f"{name} has no waiting items.", err=True)


def _nothing_when_empty(answer: Answer) -> None:
    if not answer["count"]:
        sys.exit(NOTHING_THERE)


def _watch(session: Session, as_json: bool, name: str, interval: float) -> None:
    calls = session.queue(name)
    before: tuple[float, Mapping[str, int]] | None = None

    def show(answer: Answer) -> RenderableType:
        nonlocal before
        now = time.monotonic()
        shown = tables.stats(answer, _rates(before, now, answer["counters"]))
        before = now, answer["counters"]
        return shown

    watch(lambda: session.ask(calls.stats()), show, as_json=as_json, interval=interval)


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


for _command in (
    queue_locks.in_flight,
    queue_locks.ack,
    queue_locks.abandon,
    queue_locks.requeue,
    queue_locks.extend,
    queue_locks.dead_letter,
    queue_locks.complete,
    queue_letters.dead_letters,
    queue_letters.redrive,
    queue_letters.delete_dead_letters,
):
    queue.add_command(_command)
