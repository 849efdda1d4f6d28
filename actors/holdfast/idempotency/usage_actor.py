"""The actor that keeps how many bytes of idempotency records a tenant has stored."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from dapr.actor import ActorInterface
from pydantic import Field

from holdfast.idempotency.usage import Changes, add, total, unexpired
from holdfast.pushpop.api.requests import Name, Request
from holdfast.runtime.unit_of_work import InternalActor

USAGE = "usage"
# A process is forgotten when so many others have reported after it. It would have to repeat a report then to count
# twice.
_SENDERS = 100
# More periods than there can be: see usage.py.
MAX_PERIODS = 1000
_MOST = 2**53 - 1


class Report(Request):
    """The changes that one process has seen, in a number of its own."""

    sender: Name
    number: Annotated[int, Field(ge=1, le=_MOST)]
    #: Bytes by the end of the period.
    changes: Annotated[
        dict[Annotated[str, Field(pattern=r"^[0-9]{1,12}$")], Annotated[int, Field(ge=-_MOST, le=_MOST)]],
        Field(max_length=MAX_PERIODS),
    ]


class RecordUsageInterface(ActorInterface):
    @abstractmethod
    async def Add(self, data: dict[str, Any]) -> None:
        """``{sender, number, changes}``: counts the changes, once for each sender and number."""

    @abstractmethod
    async def Total(self) -> int:
        """Returns the bytes of all records that have not expired."""


class RecordUsageActor(InternalActor, RecordUsageInterface):
    """The bytes of one tenant's records, by the time at which they expire."""

    exact_numbers = False

    async def Add(self, data: Any) -> None:
        report = Report.parse(data)
        async with self.work.turn() as turn:
            counted, senders = _restored(await turn.load(USAGE))
            if report.number <= senders.pop(report.sender, 0):
                return
            senders[report.sender] = report.number
            add(counted, {int(end): size for end, size in report.changes.items()})
            kept = unexpired(counted, self.now())
            latest = dict(list(senders.items())[-_SENDERS:])
            turn.put(USAGE, {"bytes": {str(end): size for end, size in kept.items()}, "senders": latest})

    async def Total(self) -> int:
        async with self.work.turn() as turn:
            counted, _ = _restored(await turn.load(USAGE))
        return total(unexpired(counted, self.now()).values())


def _restored(value: Any) -> tuple[Changes, dict[str, int]]:
    stored = value or {"bytes": {}, "senders": {}}
    return {int(end): size for end, size in stored["bytes"].items()}, dict(stored["senders"])
