"""The lease of an idempotent activity: its idempotency record is leased while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import AlreadyInProgress, InvalidRequest, ResultNotKept, TooLarge
from holdfast.orchestration.core.failures import Failure
from holdfast.runtime.serialization import dump, load
from holdfast.worker.retry import retry_forever

if TYPE_CHECKING:
    from holdfast.worker.work_source import Job, WorkSource

_LONGEST_ERROR = 1000


class ActivityLease:
    """The lease of one delivery. A later delivery takes over at once, because the earlier worker may have crashed."""

    def __init__(self, source: WorkSource, job: Job, queue: str, lease_seconds: int) -> None:
        self._source = source
        self._job = job
        # Owned by the item, not by the worker; the fence rejects a delayed worker after the next delivery has begun.
        self._owner = {"owner": f"{queue}:{job.item_id}", "fence": job.deliveries}
        self._lease = self._owner | {"lease_seconds": lease_seconds}

    async def begin(self) -> dict[str, Any] | None:
        """Acquires the lease. Returns the recorded outcome if the activity has finished before.

        Raises AlreadyInProgress, and retries other temporary errors.
        """
        # A deleted instance leaves its records behind, and its id may be reused.
        incarnation = {} if self._job.incarnation is None else {"incarnation": self._job.incarnation}

        async def begin() -> dict[str, Any] | AlreadyInProgress:
            try:
                return await self._source.call_record(self._job, "begin", self._lease | incarnation)
            except AlreadyInProgress as error:
                return error

        begun = await retry_forever(begin, f"acquiring the lease of {self._job}")
        if isinstance(begun, AlreadyInProgress):
            raise begun
        if begun["outcome"] != "done":
            return None
        kept: dict[str, Any] = begun["result"]
        return {"result": dump(kept["result"]).decode()} if "result" in kept else kept

    async def renew(self) -> None:
        """Renews the lease. Raises LeaseLost when a later delivery has begun."""
        await self._source.call_record(self._job, "renew", self._lease)

    async def end(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Records the outcome, and returns the outcome to report. Raises LeaseLost."""
        # An activity that succeeded is committed even without its result: recorded as failed it would run again.
        if "result" not in outcome and outcome["error"]["type"] != ResultNotKept.__name__:
            failed = self._owner | {"error": outcome["error"]["message"][:_LONGEST_ERROR]}
            await retry_forever(
                lambda: self._source.call_record(self._job, "fail", failed), f"recording the failure of {self._job}"
            )
            return outcome
        try:
            await self._commit({"result": _read(outcome["result"])} if "result" in outcome else outcome)
        except (InvalidRequest, TooLarge) as refused:
            outcome = {"error": Failure.of(not_kept(refused)).dump()}
            await self._commit(outcome)
        return outcome

    async def _commit(self, outcome: dict[str, Any]) -> None:
        done = self._owner | {"result": outcome}
        await retry_forever(
            lambda: self._source.call_record(self._job, "commit", done), f"recording the outcome of {self._job}"
        )


def not_kept(reason: Exception) -> ResultNotKept:
    return ResultNotKept(f"It has happened, but its result cannot be kept: {reason}")


def _read(result: str) -> Any:
    try:
        return load(result)
    except ValueError as error:
        raise InvalidRequest(f"{error}.") from error
