"""What commands that talk to a server have in common: where it is, how they print, how they end."""

from __future__ import annotations

import asyncio
import functools
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.options import option
from holdfast.client.calls import QueueCalls, list_queues
from holdfast.client.connection import Connection
from holdfast.client.idempotency import IdempotencyCalls
from holdfast.client.run_calls import RunCalls
from holdfast.errors import (
    AlreadyInProgress,
    AnswerLost,
    Capacity,
    ConnectionFailed,
    HoldfastError,
    InvalidLockId,
    InvalidRequest,
    LockExpired,
    LockNotFound,
    NotFound,
    PartitionUnavailable,
    QueueLocked,
    RateLimited,
    SettingsError,
    Unavailable,
)
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from holdfast.client.calls import Answer

FAILED, WRONG_USAGE, NOTHING_THERE, LOCKED, NOT_REACHABLE, UNCLEAR, NO_ROOM = 1, 2, 3, 4, 5, 6, 7
#: Of an orchestration, which has no locks.
NOT_YET = LOCKED

# Click joins the lines of a paragraph unless it begins with \b.
EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused, or failed
  2  wrong usage, or a value the server does not take
  3  nothing there: the queue is empty, or there is no such lock or item (any more)
  4  locked: all locks the queue allows are taken
  5  the server cannot be reached; nothing was done
  6  no clear answer; it may or may not have been done
  7  no room: the queue is full, or pushes come too fast; nothing was stored
"""

_CODES: tuple[tuple[int, tuple[type[HoldfastError], ...]], ...] = (
    (WRONG_USAGE, (InvalidRequest, SettingsError)),
    (NOTHING_THERE, (LockNotFound, LockExpired, InvalidLockId, NotFound)),
    (LOCKED, (QueueLocked, AlreadyInProgress)),
    (NOT_REACHABLE, (ConnectionFailed,)),
    (UNCLEAR, (AnswerLost, Unavailable, PartitionUnavailable)),
    (NO_ROOM, (Capacity, RateLimited)),
)

# Somebody sits and waits: rather a word soon than success late.
_RETRIES = 2
_AS_JSON = "holdfast.as_json"

Result = TypeVar("Result")


class RemoteGroup(click.Group):
    """Commands whose errors are one sentence and an exit code that says which kind it was."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.epilog = cmd.epilog or self.epilog
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            if ctx.meta.get(_AS_JSON):
                told = {"success": False, "message": error.message, "error_code": error.code, **error.details}
                click.echo(dump(told), err=True)
            else:
                click.echo(f"holdfast: {error}", err=True)
            sys.exit(exit_code(error))


def exit_code(error: HoldfastError) -> int:
    return next((code for code, kinds in _CODES if isinstance(error, kinds)), FAILED)


@dataclass(frozen=True)
class Session:
    """An open connection, used from code that is not asynchronous."""

    connection: Connection
    runner: asyncio.Runner

    def queue(self, name: str) -> QueueCalls:
        return QueueCalls(self.connection, name)

    def run(self, instance_id: str) -> RunCalls:
        return RunCalls(self.connection, instance_id)

    def record(self, tenant_id: str | None, key: str) -> IdempotencyCalls:
        return IdempotencyCalls(self.connection, tenant_id, key)

    def ask(self, call: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(call)

    def queues(self) -> Iterator[Answer]:
        cursor: str | None = None
        while True:
            page = self.ask(list_queues(self.connection, 100, cursor))
            yield from page["queues"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return


@dataclass(frozen=True)
class Server:
    """The server a command is about."""

    url: str
    token: str | None
    tenant: str | None
    timeout: float

    @contextmanager
    def connect(self) -> Iterator[Session]:
        connection = Connection(self.url, token=self.token, tenant=self.tenant, timeout=self.timeout, retries=_RETRIES)
        # A runner rather than asyncio.run: between two calls Ctrl-C is an ordinary KeyboardInterrupt.
        with asyncio.Runner() as runner:
            runner.run(connection.open())
            try:
                yield Session(connection, runner)
            finally:
                runner.run(connection.close())


def server_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every such command; it is called with ``server`` and ``as_json``."""

    @functools.wraps(function)
    def command(
        *, url: str, token: str | None, tenant: str | None, timeout: float, as_json: bool, **arguments: Any
    ) -> None:
        click.get_current_context().meta[_AS_JSON] = as_json
        function(server=Server(url, token, tenant, timeout), as_json=as_json, **arguments)

    wrapped: Callable[..., None] = command
    for add_option in (
        option("--json", "as_json", is_flag=True, help="For programs: the server's answer as JSON."),
        option("--timeout", type=click.FloatRange(0.1), default=30.0, help="Seconds one request may take."),
        option("--tenant", help="Whose queues and instances are meant; a token may say so itself."),
        option("--token", help="What the server asks for, if it does."),
        option("--url", default="http://127.0.0.1:8080", help="Where the server is."),
    ):
        wrapped = add_option(wrapped)
    return wrapped


def show_json(answer: Any) -> None:
    click.echo(dump(answer))


def show_done(answer: Any, as_json: bool, told: str) -> None:
    """The answer to a call that does something, or what it means in words."""
    if as_json:
        show_json(answer)
    else:
        click.echo(told)
