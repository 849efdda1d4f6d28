"""``holdfast orchestration``: everything the REST interface can do with orchestrations, for people and for scripts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import orchestration_tables as tables
from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.orchestration_history import export, history
from holdfast.cli.queue_input import from_arguments
from holdfast.cli.remote import FAILED, NOT_YET, NOTHING_THERE, RemoteGroup, server_command, show_done, show_json
from holdfast.cli.watching import interval_option, watch
from holdfast.client.run_answers import ended
from holdfast.client.run_calls import LONGEST_WAIT, list_runs
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import BinaryIO

    from holdfast.cli.remote import Server, Session
    from holdfast.client.run_calls import Answer, RunCalls

    Call = Callable[[RunCalls], Coroutine[Any, Any, Answer]]

EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused; or the orchestration failed, or was cancelled
  2  wrong usage, or a value the server does not take
  3  nothing there: no such instance, or no orchestration of that name
  4  not yet: time is up, and it has not ended
  5  the server cannot be reached; nothing was done
  6  no clear answer; it may or may not have been done
"""
STATUSES = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED")
MOST_LISTED = 100

_instance = click.argument("instance_id", metavar="ID")
_reason = option("--reason", help="Why; kept in its history.")


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def orchestration() -> None:
    """Start, look at, talk to and end orchestrations of a running server."""


@orchestration.command(short_help="Start one.")
@click.argument("name")
@click.argument("given", metavar="[INPUT]", required=False)
@option("--file", type=click.File("rb"), help="The input is the JSON in this file; '-' is standard input.")
@option("--instance-id", help="What it is known by; one is made up when left out.")
@option("--version", help="Which version of it; the one that was declared last when left out.")
@option("--within", type=click.FloatRange(0), help="Wait so many seconds for its end, and print what came of it.")
@server_command
def start(
    server: Server,
    as_json: bool,
    name: str,
    given: str | None,
    file: BinaryIO | None,
    instance_id: str | None,
    version: str | None,
    within: float | None,
) -> None:
    """Start an orchestration with an input, which is JSON, and print the id of the instance.

    With an --instance-id that there is already, nothing is run again.
    """
    import uuid

    if given is not None and file is not None:
        raise click.UsageError("Give either INPUT or --file.")
    text = _json(given, file)
    with server.connect() as session:
        calls = session.run(instance_id or str(uuid.uuid4()))
        answer = session.ask(calls.start(name, text, version))
        if within is not None:
            _show_end(_wait(session, calls, within), as_json)
            return
    if as_json:
        show_json(answer)
        return
    click.echo(answer["instance_id"])
    if not answer["created"]:
        click.echo("It had been started before.", err=True)


@orchestration.command(short_help="Show how one stands.")
@_instance
@option("--watch", "watching", is_flag=True, help="Show it again and again, until it has ended, or Ctrl-C.")
@interval_option
@server_command
def status(server: Server, as_json: bool, instance_id: str, watching: bool, interval: float) -> None:
    """Show how an instance stands: its input, what came of it, what it says of itself.

    With --watch and --json, a line for each look.
    """
    with server.connect() as session:
        calls = session.run(instance_id)
        if watching:
            look = lambda: session.ask(calls.status())  # noqa: E731
            watch(look, tables.status, as_json=as_json, interval=interval, over=ended)
            return
        answer = session.ask(calls.status())
    if as_json:
        show_json(answer)
    else:
        printing.console().print(tables.status(answer))


@orchestration.command(short_help="Wait for the end of one, and print its output.")
@_instance
@option("--within", type=click.FloatRange(0), help="Seconds at most.", show_default="as long as it takes")
@server_command
def wait(server: Server, as_json: bool, instance_id: str, within: float | None) -> None:
    """Wait until an instance has ended, and print its output as JSON.

    Exits with 1 when it failed or was cancelled, and says why; with 4 when it has not ended in time. With --json, its
    status in any case.
    """
    with server.connect() as session:
        answer = _wait(session, session.run(instance_id), within)
    _show_end(answer, as_json)


@orchestration.command("raise", short_help="Raise an event.")
@_instance
@click.argument("event")
@click.argument("data", metavar="[DATA]", required=False)
@option("--event-id", help="Raised again with the same, it counts once.")
@server_command
def raise_event(
    server: Server, as_json: bool, instance_id: str, event: str, data: str | None, event_id: str | None
) -> None:
    """Raise an event, with DATA, which is JSON, for an instance that waits for it.

    Dropped when it does not, unless the event's name is one of its mailboxes.
    """
    import uuid

    text, known_by = _json(data, None), event_id or uuid.uuid4().hex
    _tell(server, as_json, instance_id, lambda run: run.raise_event(event, text, known_by), f"{event} raised")


@orchestration.command(short_help="Ask one to end.")
@_instance
@_reason
@server_command
def cancel(server: Server, as_json: bool, instance_id: str, reason: str | None) -> None:
    """Ask an instance to end: its code is told, and may clean up. So are its sub-orchestrations."""
    _tell(server, as_json, instance_id, lambda run: run.cancel(reason), f"{instance_id} was asked to end")


@orchestration.command(short_help="Let one rest.")
@_instance
@_reason
@server_command
def suspend(server: Server, as_json: bool, instance_id: str, reason: str | None) -> None:
    """Let an instance rest until it is resumed; what comes meanwhile is kept."""
    _tell(server, as_json, instance_id, lambda run: run.suspend(reason), f"{instance_id} rests")


@orchestration.command(short_help="Let one that rests go on.")
@_instance
@server_command
def resume(server: Server, as_json: bool, instance_id: str) -> None:
    """Let an instance that rests go on."""
    _tell(server, as_json, instance_id, lambda run: run.resume(), f"{instance_id} goes on")


@orchestration.command(short_help="Forget one.")
@_instance
@option("--force", is_flag=True, help="Also one that has not ended. Its code is not told.")
@option("--yes", is_flag=True, help="Do not ask.")
@server_command
def delete(server: Server, as_json: bool, instance_id: str, force: bool, yes: bool) -> None:
    """Forget an instance, with its history. Its id is free then."""
    with server.connect() as session:
        if not yes:
            click.confirm(f"Forget {instance_id} and its history for good?", abort=True, err=True)
        answer = session.ask(session.run(instance_id).delete(force=force))
    show_done(answer, as_json, f"{instance_id} deleted")


@orchestration.command("list", short_help="List the instances there are.")
@option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only those.")
@option("--name", help="Only those of this orchestration.")
@option("--limit", type=click.IntRange(1), default=50, help="How many at most.")
@server_command
def list_them(server: Server, as_json: bool, status: str | None, name: str | None, limit: int) -> None:
    """List the instances there are, by their ids. Exits with 3 when there are none."""
    found: list[Answer] = []
    cursor: str | None = None
    with server.connect() as session:
        while True:
            most = min(MOST_LISTED, limit - len(found))
            page = session.ask(list_runs(session.connection, most, cursor, status, name))
            found += page["orchestrations"]
            cursor = page.get("next_cursor")
            if cursor is None or len(found) >= limit:
                break
    if as_json:
        show_json({"orchestrations": found} | ({} if cursor is None else {"next_cursor": cursor}))
    elif found:
        printing.console().print(tables.instances(found))
        if cursor is not None:
            click.echo("There may be more; --limit shows them.")
    else:
        click.echo("There are no such instances.", err=True)
    if not found:
        sys.exit(NOTHING_THERE)


for _command in (history, export):
    orchestration.add_command(_command)


def _wait(session: Session, calls: RunCalls, within: float | None) -> Answer:
    until = None if within is None else time.monotonic() + within
    while True:
        left = LONGEST_WAIT if until is None else max(0.0, until - time.monotonic())
        answer = session.ask(calls.wait(left))
        if ended(answer) or (until is not None and time.monotonic() >= until):
            return answer
        # A server that stops answers at once.
        time.sleep(0.2)


def _show_end(answer: Answer, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    elif answer["status"] == "COMPLETED":
        show_json(answer["output"])
    else:
        click.echo(f"holdfast: {tables.in_words(answer)}", err=True)
    if not ended(answer):
        sys.exit(NOT_YET)
    if answer["status"] != "COMPLETED":
        sys.exit(FAILED)


def _tell(server: Server, as_json: bool, instance_id: str, call: Call, told: str) -> None:
    with server.connect() as session:
        answer = session.ask(call(session.run(instance_id)))
    show_done(answer, as_json, told)


def _json(given: str | None, file: BinaryIO | None) -> bytes:
    if file is not None:
        text = file.read()
        try:
            _: Any = load(text)
        except ValueError as error:
            raise click.UsageError(f"{file.name} does not hold JSON: {error}.") from error
        return text
    return b"null" if given is None else next(from_arguments([given]))
