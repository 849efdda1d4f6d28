"""A schedule, as the client shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.client.api.orchestrations import RunCalls
from holdfast.client.api.schedules import ScheduleCalls
from holdfast.client.run import Run, input_text, named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.client.api.connection import Connection


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick of a schedule that was due."""

    at: datetime
    #: None for a tick that was skipped.
    instance_id: str | None = None
    #: The status of the instance; None if it was deleted.
    status: str | None = None
    skipped: bool = False
    #: Why the instance could not be started.
    error: str | None = None


class Schedule:
    """A schedule, with its fields as the server last gave them; :meth:`refresh` asks again."""

    def __init__(self, connection: Connection, calls: ScheduleCalls, answer: dict[str, Any]) -> None:
        self._connection = connection
        self._calls = calls
        self._answer = answer

    def __repr__(self) -> str:
        return f"Schedule({self.name!r})"

    @property
    def name(self) -> str:
        return self._calls.name

    @property
    def fields(self) -> Mapping[str, Any]:
        """All fields, as the REST interface has them."""
        return self._answer

    @property
    def orchestration(self) -> str:
        return str(self._answer["orchestration"])

    @property
    def paused(self) -> bool:
        return bool(self._answer["paused"])

    @property
    def missed(self) -> int:
        """How many ticks were later than ``catch_up_seconds``, and did not run."""
        return int(self._answer["missed"])

    @property
    def next_at(self) -> Sequence[datetime]:
        """The next five ticks; none while the schedule is paused."""
        return [datetime.fromisoformat(tick) for tick in self._answer["next_at"]]

    @property
    def last(self) -> Sequence[Tick]:
        """The last ten ticks, the newest first."""
        return [Tick(**(tick | {"at": datetime.fromisoformat(tick["at"])})) for tick in self._answer["last"]]

    async def refresh(self) -> Schedule:
        self._answer = await self._calls.get()
        return self

    async def pause(self) -> None:
        """Stops the ticks until ``resume``; those in between do not run."""
        await self._calls.pause()

    async def resume(self) -> None:
        await self._calls.resume()

    async def trigger(self) -> Run[Any]:
        """Starts an instance now, also while the schedule is paused."""
        answer = await self._calls.trigger()
        return Run(RunCalls(self._connection, answer["instance_id"]), None, created=True)

    async def backfill(self, since: datetime, until: datetime) -> int:
        """Starts the instances of all ticks from ``since`` to before ``until``, each once. Returns their number."""
        answer = await self._calls.backfill(_iso(since), _iso(until))
        return int(answer["ticks"])

    async def delete(self) -> None:
        """Deletes the schedule. Its instances stay."""
        await self._calls.delete()


async def schedule(
    connection: Connection,
    name: str,
    *,
    orchestration: Any,
    input: Any,  # noqa: A002
    options: Mapping[str, Any],
) -> Schedule:
    """Implements :meth:`Client.schedule`."""
    calls = ScheduleCalls(connection, name)
    if orchestration is None:
        given = [key for key, value in {**options, "input": input}.items() if value is not None]
        if given:
            raise TypeError(f"{given[0]}: a schedule is replaced as a whole, so give its orchestration too.")
        return Schedule(connection, calls, await calls.get())
    called, definition = named(orchestration)
    sent = {key: _iso(value) if isinstance(value, datetime) else value for key, value in options.items()}
    fields = {"orchestration": called} | {key: value for key, value in sent.items() if value is not None}
    return Schedule(connection, calls, await calls.put(fields, input_text(definition, input)))


def _iso(moment: datetime) -> str:
    """Returns a time for the server. A time without a zone is in UTC, as everywhere."""
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).isoformat()
