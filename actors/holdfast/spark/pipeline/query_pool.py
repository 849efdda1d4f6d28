"""Runs Spark queries in parallel, and cancels them together."""

from __future__ import annotations

import uuid
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType

    from pyspark.sql import SparkSession

P = ParamSpec("P")
T = TypeVar("T")

# Enough to plan one query while others run.
_AT_ONCE = 3
_AGAIN_SECONDS = 0.2


class QueryPool(ThreadPoolExecutor):
    """A thread pool that cancels running queries and drops waiting ones when its block raises."""

    def __init__(self, spark: SparkSession) -> None:
        self._tag = f"holdfast-{uuid.uuid4().hex}"
        self._begun: set[Future[object]] = set()
        # Spark Connect has no context; with one, interruptTag of Spark 4.3.0 does not find writes.
        context = getattr(spark, "sparkContext", None)
        tag = spark.addTag if context is None else context.addJobTag
        self._interrupt: Callable[[str], object] = spark.interruptTag if context is None else context.cancelJobsWithTag
        # Tags belong to a thread.
        super().__init__(_AT_ONCE, "holdfast-snapshot", initializer=tag, initargs=(self._tag,))

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = super().submit(work, *args, **kwargs)
        self._begun.add(future)  # type: ignore[arg-type]
        future.add_done_callback(self._begun.discard)
        return future

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is not None:
            self._cancel()
        return super().__exit__(kind, error, trace)

    def _cancel(self) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        # Repeated, because queries that were being planned start only now, and some calls run several queries.
        while running := set(self._begun):
            # If Spark itself has ended, its queries end on their own.
            with suppress(PySparkException, Py4JError):
                self._interrupt(self._tag)
            wait(running, _AGAIN_SECONDS, FIRST_COMPLETED)
