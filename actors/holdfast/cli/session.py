"""Shared by the commands that call a server: connection options, output and exit codes."""

from __future__ import annotations

import asyncio
import functools
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.credentials import token_file_option, token_for, token_option
from holdfast.cli.options import option
from holdfast.client.api.connection import Connection
from holdfast.client.api.orchestrations import RunCalls
from holdfast.client.api.queues import QueueCalls, list_queues
from holdfast.client.api.schedules import ScheduleCalls
from holdfast.client.idempotency import IdempotencyCalls
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
    from pathlib import Path

    from holdfast.client.api.queues import Answer

FAILED, WRONG_USAGE, NOTHING_THERE, LOCKED, NOT_REACHABLE, UNCLEAR, NO_ROOM = 1, 2, 3, 4, 5, 6, 7
#: The same code, for orchestrations: it has not ended yet.
NOT_YET = LOCKED

# Click joins the lines of a paragraph unless it begins with \b.
EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused, or failed
  2  wrong usage, or a value the server rejects
  3  nothing there: the queue is empty, or the lock or item does not exist (any more)
  4  locked: the queue's max_locks locks are all held
  5  the server cannot be reached; nothing was done
  6  no clear response; it may or may not have been done
  7  no room: the queue is full, or its push rate is exceeded; nothing was stored
"""

_CODES: tuple[tuple[int, tuple[type[HoldfastError], ...]], ...] = (
    (WRONG_USAGE, (InvalidRequest, SettingsError)),
    (NOTHING_THERE, (LockNotFound, LockExpired, InvalidLockId, NotFound)),
    (LOCKED, (QueueLocked, AlreadyInProgress)),
    (NOT_REACHABLE, (ConnectionFailed,)),
    (UNCLEAR, (AnswerLost, Unavailable, PartitionUnavailable)),
    (NO_ROOM, (Capacity, RateLimited)),
)

# A user is waiting: report an error soon rather than retry for long.
_RETRIES = 2
_AS_JSON = "holdfast.as_json"

Result = TypeVar("Result")


class RemoteGroup(click.Group):
    """A group of commands that print an error as one sentence, and exit with the code of its kind."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.epilog = cmd.epilog or self.epilog
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            if ctx.meta.get(_AS_JSON):
                body = {"success": False, "message": error.message, "error_code": error.code, **error.details}
                click.echo(dump(body), err=True)
            else:
                click.echo(f"holdfast: {error}", err=True)
            sys.exit(exit_code(error))


def exit_code(error: HoldfastError) -> int:
    return next((code for code, kinds in _CODES if isinstance(error, kinds)), FAILED)


@dataclass(frozen=True)
class Session:
    """An open connection for synchronous code."""

    connection: Connection
    runner: asyncio.Runner

    def queue(self, name: str) -> QueueCalls:
        return QueueCalls(self.connection, name)

    def run(self, instance_id: str) -> RunCalls:
        return RunCalls(self.connection, instance_id)

    def record(self, tenant_id: str | None, key: str) -> IdempotencyCalls:
        return IdempotencyCalls(self.connection, tenant_id, key)

    def schedule(self, name: str) -> ScheduleCalls:
        return ScheduleCalls(self.connection, name)

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
    """The server a command calls."""

    url: str
    token: str | None
    tenant: str | None
    timeout: float

    @contextmanager
    def connect(self) -> Iterator[Session]:
        connection = Connection(self.url, token=self.token, tenant=self.tenant, timeout=self.timeout, retries=_RETRIES)
        # A Runner rather than asyncio.run, so that Ctrl-C between two calls is an ordinary KeyboardInterrupt.
        with asyncio.Runner() as runner:
            runner.run(connection.open())
            try:
                yield Session(connection, runner)
            finally:
                runner.run(connection.close())


def server_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the connection options to a command, which is called with ``server`` and ``as_json``."""

    @functools.wraps(function)
    def command(
        *,
        url: str,
        token: str | None,
        token_file: Path | None,
        tenant: str | None,
        timeout: float,
        as_json: bool,
        **arguments: Any,
    ) -> None:
        click.get_current_context().meta[_AS_JSON] = as_json
        server = Server(url, token_for(url, token, token_file), tenant, timeout)
        function(server=server, as_json=as_json, **arguments)

    wrapped: Callable[..., None] = command
    for add_option in (
        option("--json", "as_json", is_flag=True, help="Print the server's response as JSON."),
        option("--timeout", type=click.FloatRange(0.1), default=30.0, help="Limit for one request, in seconds."),
        option("--tenant", help="Tenant whose queues and instances to use; a tenant's token implies it."),
        token_option,
        token_file_option,
        option("--url", default="http://127.0.0.1:8080", help="URL of the server."),
    ):
        wrapped = add_option(wrapped)
    return wrapped


def show_json(answer: Any) -> None:
    click.echo(dump(answer))


def show_done(answer: Any, as_json: bool, text: str) -> None:
    """Prints the response of a call as JSON, or else ``text``."""
    if as_json:
        show_json(answer)
    else:
        click.echo(text)
