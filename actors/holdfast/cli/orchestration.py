"""``holdfast orchestration``: the orchestration calls of the REST interface."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import orchestration_tables as tables
from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.orchestration_bulk import bulk
from holdfast.cli.orchestration_check import check
from holdfast.cli.orchestration_history import export, history
from holdfast.cli.orchestration_lists import counts, list_them
from holdfast.cli.orchestration_request import reply, request
from holdfast.cli.orchestration_rerun import rerun
from holdfast.cli.orchestration_start import read_start_options, start_options
from holdfast.cli.queue_input import from_arguments
from holdfast.cli.session import FAILED, NOT_YET, RemoteGroup, server_command, show_done, show_json
from holdfast.cli.watch import interval_option, watch
from holdfast.client.api.orchestrations import LONGEST_WAIT
from holdfast.client.run_models import ended
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import BinaryIO

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.orchestrations import Answer, RunCalls

    Call = Callable[[RunCalls], Coroutine[Any, Any, Answer]]

EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused; or the orchestration failed, was cancelled, or rejected the request
  2  wrong usage, or a value the server rejects
  3  nothing there: no such instance, or no orchestration of that name
  4  not yet: it has not ended, or not replied, in time
  5  the server cannot be reached; nothing was done
  6  no clear response; it may or may not have been done
"""

_instance = click.argument("instance_id", metavar="ID")
_reason = option("--reason", help="The reason, which is kept in the history.")


@click.group(cls=RemoteGroup, epilog=EXIT_CODES)
def orchestration() -> None:
    """Start, inspect and control orchestration instances on a running server."""


@orchestration.command(short_help="Start an instance.")
@click.argument("name")
@click.argument("given", metavar="[INPUT]", required=False)
@option("--file", type=click.File("rb"), help="The input is the JSON in this file; '-' is standard input.")
@option("--instance-id", help="Id of the instance.", show_default="generated")
@option(
    "--version",
    envvar="HOLDFAST_ORCHESTRATION_VERSION",
    help="Version of the orchestration.",
    show_default="the one declared last",
)
@start_options
@option("--within", type=click.FloatRange(0), help="Wait up to this many seconds for its end, and print its output.")
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
    **options: Any,
) -> None:
    """Start an orchestration with an input, which is JSON, and print the id of the instance.

    An --instance-id that exists already is not started again; an --event is raised nevertheless.
    """
    import uuid

    if given is not None and file is not None:
        raise click.UsageError("Give either INPUT or --file.")
    text, fields = _json(given, file), read_start_options(**options)
    with server.connect() as session:
        calls = session.run(instance_id or str(uuid.uuid4()))
        answer = session.ask(calls.start(name, text, version, fields))
        if within is not None:
            _show_end(_wait(session, calls, within), as_json)
            return
    if as_json:
        show_json(answer)
        return
    click.echo(answer["instance_id"])
    if not answer["created"]:
        click.echo("The instance exists already; it was not started again.", err=True)
    if answer.get("delivered") is False:
        click.echo("The event was dropped: the instance does not wait for it.", err=True)


@orchestration.command(short_help="Show the status of an instance.")
@_instance
@option("--watch", "watching", is_flag=True, help="Refresh until it has ended, or Ctrl-C.")
@interval_option
@server_command
def status(server: Server, as_json: bool, instance_id: str, watching: bool, interval: float) -> None:
    """Show the status of an instance, with its input, output and custom status.

    With --watch and --json, prints one line per refresh.
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


@orchestration.command(short_help="Wait for the end of an instance, and print its output.")
@_instance
@option("--within", type=click.FloatRange(0), help="Longest wait in seconds.", show_default="no limit")
@server_command
def wait(server: Server, as_json: bool, instance_id: str, within: float | None) -> None:
    """Wait until an instance has ended, and print its output as JSON.

    Exits with 1 and prints the reason when it failed or was cancelled; exits with 4 when it has not ended in time.
    With --json, always prints its status.
    """
    with server.connect() as session:
        answer = _wait(session, session.run(instance_id), within)
    _show_end(answer, as_json)


@orchestration.command("raise", short_help="Raise an event.")
@_instance
@click.argument("event")
@click.argument("data", metavar="[DATA]", required=False)
@option("--event-id", help="Events with the same id count once; the last 1000 ids are kept.")
@server_command
def raise_event(
    server: Server, as_json: bool, instance_id: str, event: str, data: str | None, event_id: str | None
) -> None:
    """Raise an event, with DATA, which is JSON, for an instance that waits for it.

    The event is dropped when the instance does not wait for it, unless its name is a mailbox.
    """
    import uuid

    text = _json(data, None)
    with server.connect() as session:
        answer = session.ask(session.run(instance_id).raise_event(event, text, event_id or uuid.uuid4().hex))
    dropped = "" if answer["delivered"] else "; not delivered: no code waits for it, and it is no mailbox"
    show_done(answer, as_json, f"{event} raised{dropped}")


@orchestration.command(short_help="Cancel an instance.")
@_instance
@_reason
@server_command
def cancel(server: Server, as_json: bool, instance_id: str, reason: str | None) -> None:
    """Cancel an instance and its sub-orchestrations; their code may clean up first."""
    _call(server, as_json, instance_id, lambda run: run.cancel(reason), f"{instance_id}: cancellation requested")


@orchestration.command(short_help="Suspend an instance.")
@_instance
@_reason
@server_command
def suspend(server: Server, as_json: bool, instance_id: str, reason: str | None) -> None:
    """Suspend an instance until it is resumed; incoming events and results are kept."""
    _call(server, as_json, instance_id, lambda run: run.suspend(reason), f"{instance_id}: suspension requested")


@orchestration.command(short_help="Resume a suspended instance.")
@_instance
@server_command
def resume(server: Server, as_json: bool, instance_id: str) -> None:
    """Resume a suspended instance."""
    _call(server, as_json, instance_id, lambda run: run.resume(), f"{instance_id}: resumption requested")


@orchestration.command(short_help="Delete an instance and its history.")
@_instance
@option("--force", is_flag=True, help="Also delete one that has not ended; its code cannot clean up.")
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
@server_command
def delete(server: Server, as_json: bool, instance_id: str, force: bool, yes: bool) -> None:
    """Delete an instance and its history. Its id can be used again."""
    with server.connect() as session:
        if not yes:
            click.confirm(f"Delete {instance_id} and its history for good?", abort=True, err=True)
        answer = session.ask(session.run(instance_id).delete(force=force))
    show_done(answer, as_json, f"{instance_id} deleted")


for _command in (history, export, check, request, reply, rerun, list_them, counts, bulk):
    orchestration.add_command(_command)


def _wait(session: Session, calls: RunCalls, within: float | None) -> Answer:
    until = None if within is None else time.monotonic() + within
    while True:
        left = LONGEST_WAIT if until is None else max(0.0, until - time.monotonic())
        answer = session.ask(calls.wait(left))
        if ended(answer) or (until is not None and time.monotonic() >= until):
            return answer
        # A server that is shutting down responds at once: do not repeat in a tight loop.
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


def _call(server: Server, as_json: bool, instance_id: str, call: Call, text: str) -> None:
    with server.connect() as session:
        answer = session.ask(call(session.run(instance_id)))
    show_done(answer, as_json, text)


def _json(given: str | None, file: BinaryIO | None) -> bytes:
    if file is not None:
        text = file.read()
        try:
            _: Any = load(text)
        except ValueError as error:
            raise click.UsageError(f"{file.name} is not JSON: {error}.") from error
        return text
    return b"null" if given is None else next(from_arguments([given]))
