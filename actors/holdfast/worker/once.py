"""An activity that must happen once: the record of its call, held while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import AlreadyInProgress, InvalidRequest, ResultNotKept, TooLarge
from holdfast.orchestration.failures import Failure
from holdfast.runtime.serialization import dump, load
from holdfast.worker.insistence import insist

if TYPE_CHECKING:
    from holdfast.worker.bench import Bench, Job

_LONGEST_ERROR = 1000


class Once:
    """Of one delivery. A later one takes over at once, as the worker that had it before may be dead."""

    def __init__(self, bench: Bench, job: Job, queue: str, lease_seconds: int) -> None:
        self._bench = bench
        self._job = job
        # By its item, not by its worker; the fence keeps a worker that was held up from being heard after the next one.
        self._owner = {"owner": f"{queue}:{job.item_id}", "fence": job.deliveries}
        self._lease = self._owner | {"lease_seconds": lease_seconds}

    async def begin(self) -> dict[str, Any] | None:
        """What it came to before, if it ran to its end. Raises AlreadyInProgress; what else passes is waited for."""
        # An instance that was deleted has left its records, and its id is free for another.
        life = {} if self._job.life is None else {"life": self._job.life}

        async def begin() -> dict[str, Any] | AlreadyInProgress:
            try:
                return await self._bench.once(self._job, "begin", self._lease | life)
            except AlreadyInProgress as error:
                return error

        begun = await insist(begin, f"whether {self._job} has run")
        if isinstance(begun, AlreadyInProgress):
            raise begun
        if begun["outcome"] != "done":
            return None
        kept: dict[str, Any] = begun["result"]
        return {"result": dump(kept["result"]).decode()} if "result" in kept else kept

    async def renew(self) -> None:
        """Raises LeaseLost when a later delivery has begun."""
        await self._bench.once(self._job, "renew", self._lease)

    async def end(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Records what it came to, and answers what to tell of it. Raises LeaseLost."""
        # What has happened is committed with or without a result: after a failure it would happen again.
        if "result" not in outcome and outcome["error"]["type"] != ResultNotKept.__name__:
            failed = self._owner | {"error": outcome["error"]["message"][:_LONGEST_ERROR]}
            await insist(lambda: self._bench.once(self._job, "fail", failed), str(self._job))
            return outcome
        try:
            await self._commit({"result": _read(outcome["result"])} if "result" in outcome else outcome)
        except (InvalidRequest, TooLarge) as refused:
            outcome = {"error": Failure.of(not_kept(refused)).dump()}
            await self._commit(outcome)
        return outcome

    async def _commit(self, outcome: dict[str, Any]) -> None:
        done = self._owner | {"result": outcome}
        await insist(lambda: self._bench.once(self._job, "commit", done), str(self._job))


def not_kept(reason: Exception) -> ResultNotKept:
    return ResultNotKept(f"It has happened, but its result cannot be kept: {reason}")


def _read(result: str) -> Any:
    try:
        return load(result)
    except ValueError as error:
        raise InvalidRequest(f"{error}.") from error
