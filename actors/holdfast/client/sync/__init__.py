"""The Python client for synchronous code, such as views of Django and Flask."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from holdfast.client import Client, Outcome
from holdfast.client.sync.loop_thread import LoopThread
from holdfast.client.sync.queue import SyncBatch, SyncQueue
from holdfast.client.sync.run import SyncRun, SyncSchedule
from holdfast.client.sync.twin import iterate, iterating_twin, twin

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from datetime import datetime
    from types import TracebackType

    from holdfast.client.start_options import StartOptions
    from holdfast.orchestration.core.context import Context

Input = TypeVar("Input")
Output = TypeVar("Output")

__all__ = ["SyncBatch", "SyncClient", "SyncQueue", "SyncRun", "SyncSchedule"]


class SyncClient:
    """The calls of :class:`holdfast.Client` for synchronous code: ``client = SyncClient("http://127.0.0.1:8080")``.

    The first call starts a thread that makes the requests of all calls; :meth:`close`, the end of a ``with`` block or
    of the process ends it. Any number of threads can use one client. A forked process gets a thread of its own with
    its next call, so a client can be made before the web server forks its workers.

    ``KeyboardInterrupt`` and other exceptions that interrupt a call cancel it. Functions given as ``progress``,
    ``dedup_id`` and ``idempotency_key`` are called in the client's thread, and must not make calls with the client.
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
        self._twin = Client(url, token, tenant=tenant, timeout=timeout, retries=retries)
        self._thread = LoopThread(self._twin, self._twin._connection)

    def close(self) -> None:
        """Ends the thread. Running and later calls raise ``ClientClosed``; a ``with`` block opens the client again."""
        self._thread.close()

    def queue(self, name: str) -> SyncQueue:
        """Returns the queue of this name. Sends no request."""
        return SyncQueue(self._thread, self._twin.queue(name))

    def idempotent(
        self,
        *,
        key: str,
        run: Callable[[], Output],
        tenant_id: str | None = None,
        lease_seconds: int = 30,
        retention_seconds: int | None = None,
        wait_seconds: float = 0,
    ) -> Outcome[Output]:
        """Calls ``run`` once for this tenant and key, in this thread. See :meth:`holdfast.Client.idempotent`.

        The client's thread renews the lease. If the lease is lost, ``run`` is not interrupted: ``LeaseLost`` is raised
        when it returns.
        """
        if inspect.iscoroutinefunction(run):
            raise TypeError("SyncClient.idempotent calls a plain function: use the asynchronous Client for this one.")
        asked: SimpleQueue[asyncio.Future[Output] | None] = SimpleQueue()

        async def in_this_thread() -> Output:
            outcome: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
            asked.put(outcome)
            return await outcome

        call = self._thread.submit(
            lambda: self._twin.idempotent(
                key=key,
                run=in_this_thread,
                tenant_id=tenant_id,
                lease_seconds=lease_seconds,
                retention_seconds=retention_seconds,
                wait_seconds=wait_seconds,
            )
        )
        call.add_done_callback(lambda _: asked.put(None))
        try:
            outcome = asked.get()
            if outcome is not None:
                _settle(outcome, run)
        except BaseException:
            call.cancel()
            raise
        return self._thread.result(call)

    queues = iterating_twin(Client.queues)

    @overload
    def start(
        self,
        orchestration: str,
        input: Any = None,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> SyncRun[Any]: ...
    @overload
    def start(
        self,
        orchestration: Callable[[Context, Input], Coroutine[Any, Any, Output]],
        input: Input,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> SyncRun[Output]: ...
    @overload
    def start(
        self,
        orchestration: Callable[[Context], Coroutine[Any, Any, Output]],
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> SyncRun[Output]: ...
    def start(
        self,
        orchestration: Any,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
        **options: Unpack[StartOptions],
    ) -> SyncRun[Any]:
        """Starts an orchestration, given by its function or its name. See :meth:`holdfast.Client.start`."""
        run = self._thread.call(
            lambda: self._twin.start(orchestration, input, instance_id=instance_id, version=version, **options)
        )
        return SyncRun(self._thread, run)

    @overload
    def orchestration(self, instance_id: str) -> SyncRun[Any]: ...
    @overload
    def orchestration(
        self, instance_id: str, function: Callable[..., Coroutine[Any, Any, Output]]
    ) -> SyncRun[Output]: ...
    def orchestration(self, instance_id: str, function: Any = None) -> SyncRun[Any]:
        """Returns the instance with this id. Sends no request. ``function`` gives the result its type."""
        return SyncRun(self._thread, self._twin.orchestration(instance_id, function))

    orchestrations = iterating_twin(Client.orchestrations)
    orchestration_counts = twin(Client.orchestration_counts)
    bulk = twin(Client.bulk)
    check = twin(Client.check)

    def schedule(
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
    ) -> SyncSchedule:
        """Makes or replaces a schedule, or gets it by the name alone. See :meth:`holdfast.Client.schedule`."""
        found = self._thread.call(
            lambda: self._twin.schedule(
                name,
                orchestration=orchestration,
                cron=cron,
                every_seconds=every_seconds,
                input=input,
                timezone=timezone,
                overlap=overlap,
                catch_up_seconds=catch_up_seconds,
                jitter_seconds=jitter_seconds,
                paused=paused,
                tags=tags,
                starts_at=starts_at,
                ends_at=ends_at,
            )
        )
        return SyncSchedule(self._thread, found)

    def schedules(self, *, page_size: int = 50) -> Iterator[SyncSchedule]:
        """Iterates over the schedules, ordered by name."""
        for found in iterate(self._thread, self._twin.schedules(page_size=page_size)):
            yield SyncSchedule(self._thread, found)

    def __enter__(self) -> Self:
        self._thread.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _settle(outcome: asyncio.Future[Output], run: Callable[[], Output]) -> None:
    """Calls ``run`` in this thread, and gives its result or error to the future of another thread's loop."""
    give: Callable[[], None]
    try:
        result = run()
    except StopIteration as error:  # which a future refuses
        stopped = RuntimeError("The function raised StopIteration.")
        stopped.__cause__ = error
        give = partial(outcome.set_exception, stopped)
    except Exception as error:
        give = partial(outcome.set_exception, error)
    else:
        give = partial(outcome.set_result, result)

    def settle() -> None:
        if not outcome.done():
            give()

    with contextlib.suppress(RuntimeError):  # the client was closed meanwhile; its caller gets the error
        outcome.get_loop().call_soon_threadsafe(settle)
