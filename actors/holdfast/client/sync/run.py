"""An orchestration instance and a schedule, for synchronous code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from holdfast.client.run import Run
from holdfast.client.schedule import Schedule, Tick
from holdfast.client.sync.twin import iterating_twin, twin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from holdfast.client.sync.loop_thread import LoopThread

Output = TypeVar("Output")


class SyncRun(Generic[Output]):
    """One instance; made by :meth:`SyncClient.start` and :meth:`SyncClient.orchestration`."""

    def __init__(self, thread: LoopThread, run: Run[Output]) -> None:
        self._thread = thread
        self._twin = run

    @property
    def instance_id(self) -> str:
        return self._twin.instance_id

    @property
    def created(self) -> bool:
        """Whether this call started the instance; False when it existed already."""
        return self._twin.created

    def __repr__(self) -> str:
        return f"SyncRun({self.instance_id!r})"

    def result(self, timeout: float | None = None) -> Output:
        """Waits for the end of the instance and returns its output. See :meth:`holdfast.client.Run.result`."""
        return self._thread.call(lambda: self._twin.result(timeout))

    def rerun(
        self,
        *,
        from_seq: int | None = None,
        from_failure: bool = False,
        instance_id: str | None = None,
        version: str | None = None,
        execution_id: int | None = None,
    ) -> SyncRun[Output]:
        """Starts a new instance from a part of the history of this one. See :meth:`holdfast.client.Run.rerun`."""
        made = self._thread.call(
            lambda: self._twin.rerun(
                from_seq=from_seq,
                from_failure=from_failure,
                instance_id=instance_id,
                version=version,
                execution_id=execution_id,
            )
        )
        return SyncRun(self._thread, made)

    status = twin(Run.status)
    history = iterating_twin(Run.history)
    raise_event = twin(Run.raise_event)
    request = twin(Run.request)
    reply = twin(Run.reply)
    cancel = twin(Run.cancel)
    suspend = twin(Run.suspend)
    resume = twin(Run.resume)
    delete = twin(Run.delete)


class SyncSchedule:
    """A schedule, with its fields as the server last gave them; :meth:`refresh` asks again."""

    def __init__(self, thread: LoopThread, schedule: Schedule) -> None:
        self._thread = thread
        self._twin = schedule

    def __repr__(self) -> str:
        return f"SyncSchedule({self.name!r})"

    @property
    def name(self) -> str:
        return self._twin.name

    @property
    def fields(self) -> Mapping[str, Any]:
        """All fields, as the REST interface has them."""
        return self._twin.fields

    @property
    def orchestration(self) -> str:
        return self._twin.orchestration

    @property
    def paused(self) -> bool:
        return self._twin.paused

    @property
    def missed(self) -> int:
        """How many ticks were later than ``catch_up_seconds``, and did not run."""
        return self._twin.missed

    @property
    def next_at(self) -> Sequence[datetime]:
        """The next five ticks; none while the schedule is paused."""
        return self._twin.next_at

    @property
    def last(self) -> Sequence[Tick]:
        """The last ten ticks, the newest first."""
        return self._twin.last

    def refresh(self) -> Self:
        self._thread.call(self._twin.refresh)
        return self

    def trigger(self) -> SyncRun[Any]:
        """Starts an instance now, also while the schedule is paused."""
        return SyncRun(self._thread, self._thread.call(self._twin.trigger))

    pause = twin(Schedule.pause)
    resume = twin(Schedule.resume)
    backfill = twin(Schedule.backfill)
    delete = twin(Schedule.delete)
