"""The Python client of a Holdfast server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from holdfast.client import answers, run_answers
from holdfast.client.answers import Completion, DeadLetter, LockInfo, Message, QueueStats, QueueSummary
from holdfast.client.batch import Batch
from holdfast.client.calls import list_queues
from holdfast.client.connection import Connection
from holdfast.client.idempotency import IdempotencyCalls, Outcome, result_of, run_once
from holdfast.client.once import Idempotency
from holdfast.client.queue import Queue
from holdfast.client.run import Run, named, start
from holdfast.client.run_answers import HistoryEvent, OrchestrationStatus, OrchestrationSummary
from holdfast.client.run_calls import RunCalls, list_runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from types import TracebackType

    from holdfast.orchestration.context import Context

Input = TypeVar("Input")
Output = TypeVar("Output")

__all__ = [
    "Batch",
    "Client",
    "Completion",
    "DeadLetter",
    "HistoryEvent",
    "Idempotency",
    "LockInfo",
    "Message",
    "OrchestrationStatus",
    "OrchestrationSummary",
    "Outcome",
    "Queue",
    "QueueStats",
    "QueueSummary",
    "Run",
]


class Client:
    """A connection to a server: ``async with Client("http://127.0.0.1:8080") as client``.

    ``tenant`` says whose queues, instances and keys are meant; a token that belongs to a tenant says so itself.
    ``timeout`` is how many seconds one request may take, not counting what it was asked to wait. What is safe to
    repeat is repeated up to ``retries`` times when the server cannot be reached or asks for it.

    Every refusal is an error of ``holdfast.errors``, with the ``error_code`` of the answer. ``ConnectionFailed``
    means that nothing was sent; ``AnswerLost`` that it may have been done.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        tenant: str | None = None,
        timeout: float = 30.0,
        retries: int = 8,
    ) -> None:
        self._connection = Connection(url, token=token, tenant=tenant, timeout=timeout, retries=retries)

    def queue(self, name: str) -> Queue:
        """A queue by its name; nothing is asked of the server yet."""
        return Queue(self._connection, name)

    @overload
    async def idempotent(
        self,
        *,
        key: str,
        run: Callable[[], Awaitable[Output]],
        tenant_id: str | None = None,
        lease_seconds: int = 30,
        retention_seconds: int | None = None,
        wait_seconds: float = 0,
    ) -> Outcome[Output]: ...
    @overload
    async def idempotent(
        self,
        *,
        key: str,
        run: Callable[[], Output],
        tenant_id: str | None = None,
        lease_seconds: int = 30,
        retention_seconds: int | None = None,
        wait_seconds: float = 0,
    ) -> Outcome[Output]: ...
    async def idempotent(
        self,
        *,
        key: str,
        run: Callable[[], Any],
        tenant_id: str | None = None,
        lease_seconds: int = 30,
        retention_seconds: int | None = None,
        wait_seconds: float = 0,
    ) -> Outcome[Any]:
        """Runs it, unless it has run for this tenant and key: then gives the result it had, as JSON keeps it.

        The lease is renewed while it runs. When somebody else runs it, waits up to ``wait_seconds`` for what comes of
        that, and raises AlreadyInProgress then. An error of ``run`` is recorded and raised; the next attempt runs it
        again. Without a key it is just run; without a tenant it is that of this client.

        The effect and the record are two things: when this process dies between them, the effect has happened and the
        next attempt runs it again. An effect that takes the same key itself is exactly once; others are nearly so.
        """
        if not key:
            return Outcome(await result_of(run), ran=True)
        calls = IdempotencyCalls(self._connection, tenant_id, key)
        return await run_once(
            calls,
            run,
            lease_seconds=lease_seconds,
            retention_seconds=retention_seconds,
            wait_seconds=wait_seconds,
        )

    async def queues(self, *, page_size: int = 50) -> AsyncIterator[QueueSummary]:
        """The queues there are, by name."""
        cursor: str | None = None
        while True:
            page = await list_queues(self._connection, page_size, cursor)
            for queue in page["queues"]:
                yield answers.summary(queue)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    @overload
    async def start(
        self, orchestration: str, input: Any = None, *, instance_id: str | None = None, version: str | None = None
    ) -> Run[Any]: ...
    @overload
    async def start(
        self,
        orchestration: Callable[[Context, Input], Coroutine[Any, Any, Output]],
        input: Input,
        *,
        instance_id: str | None = None,
        version: str | None = None,
    ) -> Run[Output]: ...
    @overload
    async def start(
        self,
        orchestration: Callable[[Context], Coroutine[Any, Any, Output]],
        *,
        instance_id: str | None = None,
        version: str | None = None,
    ) -> Run[Output]: ...
    async def start(
        self,
        orchestration: Any,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
    ) -> Run[Any]:
        """Starts an orchestration, by its function or by its name. Nothing is run again when the instance exists.

        A function brings its own version, and types for what goes in and comes out; by its name the version that was
        declared last is started. Raises ``NotFound`` when the server has no such orchestration, ``InvalidRequest``
        for an input of another shape than it takes.
        """
        return await start(self._connection, orchestration, input, instance_id, version)

    @overload
    def orchestration(self, instance_id: str) -> Run[Any]: ...
    @overload
    def orchestration(self, instance_id: str, function: Callable[..., Coroutine[Any, Any, Output]]) -> Run[Output]: ...
    def orchestration(self, instance_id: str, function: Any = None) -> Run[Any]:
        """An instance by its id; nothing is asked of the server yet. Its function gives the result its type."""
        definition = None if function is None else named(function)[1]
        return Run(RunCalls(self._connection, instance_id), definition)

    async def orchestrations(
        self, *, status: str | None = None, name: str | None = None, page_size: int = 50
    ) -> AsyncIterator[OrchestrationSummary]:
        """The instances there are, by id; only those with this status, or of the orchestration of this name."""
        cursor: str | None = None
        while True:
            page = await list_runs(self._connection, page_size, cursor, status, name)
            for found in page["orchestrations"]:
                yield run_answers.summary(found)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()
