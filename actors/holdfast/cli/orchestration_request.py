"""``holdfast orchestration request`` and ``reply``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import option
from holdfast.cli.queue_input import from_arguments
from holdfast.cli.session import NOT_YET, server_command, show_json
from holdfast.client.api.orchestrations import LONGEST_WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.orchestrations import Answer

    Call = Callable[[float], Coroutine[Any, Any, Answer]]

_within = option("--within", type=click.FloatRange(0), default=30.0, help="Longest wait for the reply, in seconds.")


@click.command(short_help="Make a request, and print the reply.")
@click.argument("instance_id", metavar="ID")
@click.argument("name")
@click.argument("data", metavar="[DATA]", required=False)
@option("--request-id", help="The same id gives the first reply again.", show_default="generated")
@_within
@server_command
def request(
    server: Server,
    as_json: bool,
    instance_id: str,
    name: str,
    data: str | None,
    request_id: str | None,
    within: float,
) -> None:
    """Make a request with DATA, which is JSON, to an instance, and print its reply as JSON.

    Exits with 1 and prints the message when the orchestration rejects it. Exits with 4 and prints the id of the request
    when there is no reply in time: "holdfast orchestration reply" prints it later.
    """
    import uuid

    text = b"null" if data is None else next(from_arguments([data]))
    made_id = request_id or uuid.uuid4().hex
    with server.connect() as session:
        calls = session.run(instance_id)
        answer = _replied(session, within, lambda left: calls.request(name, text, made_id, left))
    _show(answer, as_json)


@click.command(short_help="Print the reply to an earlier request.")
@click.argument("instance_id", metavar="ID")
@click.argument("request_id", metavar="REQUEST_ID")
@_within
@server_command
def reply(server: Server, as_json: bool, instance_id: str, request_id: str, within: float) -> None:
    """Print the reply to an earlier request as JSON. Exits as "holdfast orchestration request" does."""
    with server.connect() as session:
        calls = session.run(instance_id)
        answer = _replied(session, within, lambda left: calls.reply(request_id, left))
    _show(answer, as_json)


def _replied(session: Session, within: float, call: Call) -> Answer:
    until = time.monotonic() + within
    while True:
        answer = session.ask(call(min(LONGEST_WAIT, max(0.0, until - time.monotonic()))))
        if "reply" in answer or time.monotonic() >= until:
            return answer
        # A server that is shutting down responds at once: do not repeat in a tight loop.
        time.sleep(0.2)


def _show(answer: Answer, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    elif "reply" in answer:
        show_json(answer["reply"])
    else:
        click.echo(f"holdfast: There is no reply yet to the request {answer['request_id']}.", err=True)
    if "reply" not in answer:
        sys.exit(NOT_YET)
