"""The Python client of a Holdfast server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from holdfast.client import models as answers
from holdfast.client import run_models as run_answers
from holdfast.client.api.connection import Connection
from holdfast.client.api.orchestration_lists import act_on_runs, count_runs, list_runs
from holdfast.client.api.orchestrations import RunCalls
from holdfast.client.api.queues import list_queues
from holdfast.client.api.schedules import ScheduleCalls, list_schedules
from holdfast.client.batch import Batch
from holdfast.client.deploy_check import check_deploy
from holdfast.client.idempotency import IdempotencyCalls, Outcome, result_of, run_once
from holdfast.client.idempotent_handler import Idempotency
from holdfast.client.instance_filter import BulkAction, InstanceFilter, bulk_body, filter_fields
from holdfast.client.models import Completion, DeadLetter, LockInfo, Message, QueueStats, QueueSummary
from holdfast.client.queue import Queue
from holdfast.client.run import Run, named, start
from holdfast.client.run_models import (
    BlockReason,
    BulkResult,
    DeployCheck,
    HistoryEvent,
    OrchestrationCounts,
    OrchestrationStatus,
    OrchestrationSummary,
    WouldBlock,
)
from holdfast.client.schedule import Schedule, Tick, schedule
from holdfast.client.start_options import StartEvent, StartOptions, start_fields
from holdfast.orchestration.registry import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
    from datetime import datetime
    from types import TracebackType

    from holdfast.app import App
    from holdfast.orchestration.core.context import Context

Input = TypeVar("Input")
Output = TypeVar("Output")

__all__ = [
    "Batch",
    "BlockReason",
    "BulkResult",
    "Client",
    "Completion",
    "DeadLetter",
    "DeployCheck",
    "HistoryEvent",
    "Idempotency",
    "InstanceFilter",
    "LockInfo",
    "Message",
    "OrchestrationCounts",
    "OrchestrationStatus",
    "OrchestrationSummary",
    "Outcome",
    "Queue",
    "QueueStats",
    "QueueSummary",
    "Run",
    "Schedule",
    "StartEvent",
    "StartOptions",
    "Tick",
    "WouldBlock",
]


class Client:
    """A connection to a server: ``async with Client("http://127.0.0.1:8080") as client``.

    ``tenant`` selects the tenant whose queues, instances and keys the calls use; a tenant's token implies it.
    ``timeout`` is the limit for one request in seconds, on top of the time the server was asked to wait. Calls that
    are safe to repeat are retried up to ``retries`` times when the server cannot be reached or asks for a retry.

    The server's errors are raised as classes of ``holdfast.errors``, with the ``error_code`` of the response.
    ``ConnectionFailed`` means that nothing was sent; ``AnswerLost`` means that the request may have been carried out.
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
        """Returns the queue of this name. Sends no request."""
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
        """Calls ``run`` once for this tenant and key. Later calls return the recorded result, read back from JSON.

        The lease is renewed while ``run`` runs. When another process holds it, waits up to ``wait_seconds`` for its
        result and then raises ``AlreadyInProgress``. An error of ``run`` is recorded and raised; the next attempt
        calls ``run`` again. With an empty key, ``run`` is called without a record. ``tenant_id`` defaults to the
        tenant of this client.

        The effect and its record are not atomic: when this process dies between them, the effect has happened and the
        next attempt repeats it. Pass the same key on to the effect, if it accepts one, to get exactly-once.
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
        """Iterates over all queues, ordered by name."""
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
        self,
        orchestration: str,
        input: Any = None,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Run[Any]: ...
    @overload
    async def start(
        self,
        orchestration: Callable[[Context, Input], Coroutine[Any, Any, Output]],
        input: Input,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Run[Output]: ...
    @overload
    async def start(
        self,
        orchestration: Callable[[Context], Coroutine[Any, Any, Output]],
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Run[Output]: ...
    async def start(
        self,
        orchestration: Any,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Run[Any]:
        """Starts an orchestration, given by its function or its name. An instance that exists is not started again.

        A function implies its own version and the types of input and output; a name starts the version that was
        declared last. ``tags`` are short texts by which the instance can be found, ``priority`` is that of its
        activities in their queues, and its code begins at ``start_at``. ``event={"name": …, "data": …}`` is raised in
        the same transaction, also when the instance exists already. Raises ``NotFound`` for an
        orchestration the server does not have, and ``InvalidRequest`` for an input that does not match the declared
        type.
        """
        return await start(self._connection, orchestration, input, instance_id, version, start_fields(**options))

    @overload
    def orchestration(self, instance_id: str) -> Run[Any]: ...
    @overload
    def orchestration(self, instance_id: str, function: Callable[..., Coroutine[Any, Any, Output]]) -> Run[Output]: ...
    def orchestration(self, instance_id: str, function: Any = None) -> Run[Any]:
        """Returns the instance with this id. Sends no request. ``function`` gives the result its type."""
        definition = None if function is None else named(function)[1]
        return Run(RunCalls(self._connection, instance_id), definition)

    async def orchestrations(
        self,
        *,
        order: Literal["newest", "oldest"] = "newest",
        page_size: int = 50,
        waiting: bool = False,
        **selected: Unpack[InstanceFilter],
    ) -> AsyncIterator[OrchestrationSummary]:
        """Iterates over the instances that match the filter, the newest first.

        With ``waiting`` each has ``waiting_for``, what its code awaits, which takes longer.
        """
        fields = filter_fields(**selected)
        cursor: str | None = None
        while True:
            page = await list_runs(self._connection, fields, page_size, cursor, order, waiting=waiting)
            for found in page["orchestrations"]:
                yield run_answers.summary(found)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def orchestration_counts(self, name: str | None = None) -> OrchestrationCounts:
        """Returns the numbers of instances by status and orchestration; ``name`` selects one orchestration."""
        answer = await count_runs(self._connection, name)
        return OrchestrationCounts(answer["counts"], answer["by_name"])

    async def bulk(
        self,
        action: BulkAction,
        *,
        all: bool = False,  # noqa: A002
        dry_run: bool = False,
        reason: str | None = None,
        event: str | None = None,
        data: Any = None,
        page_size: int = 100,
        progress: Callable[[BulkResult], None] | None = None,
        **selected: Unpack[InstanceFilter],
    ) -> BulkResult:
        """Acts on all instances that match the filter, page by page, the newest first.

        Without a filter, ``all`` has to be True. ``reason`` is for ``cancel`` and ``suspend``, ``event`` and ``data``
        are for ``raise``. ``rerun`` is from the last failure, once for each. ``dry_run`` only counts. ``progress`` is
        called with the sums after each page. A page whose response is lost is not repeated: ``AnswerLost`` is raised.
        """
        body = bulk_body(
            action, filter_fields(**selected), every=all, dry_run=dry_run, reason=reason, event=event, data=data
        )
        result = BulkResult(0, 0, [])
        cursor: str | None = None
        while True:
            page = await act_on_runs(self._connection, body, page_size, cursor)
            result = run_answers.bulk_sum(result, page)
            if progress is not None:
                progress(result)
            cursor = page.get("next_cursor")
            if cursor is None:
                return result

    async def check(
        self,
        *apps: App,
        name: str | None = None,
        sample: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> DeployCheck:
        """Replays the running instances, in this process, with the code of ``apps``, before it is deployed.

        Returns the instances that the code would block, with the reasons. Changes no instance and runs no activity.
        ``apps`` are all apps of the server. ``name`` selects one orchestration. With ``sample`` only that many random
        instances of each version of each orchestration are replayed. ``progress`` is called with the number so far.
        """
        registry = Registry.of(app.registry for app in apps)
        return await check_deploy(self._connection, registry, name=name, sample=sample, progress=progress)

    async def schedule(
        self,
        name: str,
        *,
        orchestration: Callable[..., Coroutine[Any, Any, Any]] | str | None = None,
        cron: str | None = None,
        every_seconds: int | None = None,
        input: Any = None,  # noqa: A002
        timezone: str | None = None,
        overlap: Literal["skip", "allow", "buffer_one", "cancel_previous"] | None = None,
        catch_up_seconds: int | None = None,
        jitter_seconds: int | None = None,
        paused: bool | None = None,
        tags: Mapping[str, str] | None = None,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> Schedule:
        """Makes a schedule that starts ``orchestration`` by ``cron`` or ``every_seconds``, or replaces it as a whole.

        With the name alone, gets the schedule; raises ``NotFound`` if there is none. Options without ``orchestration``
        raise ``TypeError``.
        """
        options = {
            "cron": cron,
            "every_seconds": every_seconds,
            "timezone": timezone,
            "overlap": overlap,
            "catch_up_seconds": catch_up_seconds,
            "jitter_seconds": jitter_seconds,
            "paused": paused,
            "tags": None if tags is None else dict(tags),
            "starts_at": starts_at,
            "ends_at": ends_at,
        }
        return await schedule(self._connection, name, orchestration=orchestration, input=input, options=options)

    async def schedules(self, *, page_size: int = 50) -> AsyncIterator[Schedule]:
        """Iterates over the schedules, ordered by name."""
        cursor: str | None = None
        while True:
            page = await list_schedules(self._connection, page_size, cursor)
            for found in page["schedules"]:
                yield Schedule(self._connection, ScheduleCalls(self._connection, found["name"]), found)
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
