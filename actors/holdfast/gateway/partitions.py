"""A queue over its partitions: which of them a call goes to, and how their answers become one.

A queue that is not known to have several is asked as if it had one. Its answer says how many there are, so the others
are asked only where they exist, and a queue of one costs one call and nothing else.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.gateway.loads import Loads
from holdfast.identity import partition_id
from holdfast.pushpop.interface import ACTOR_TYPE
from holdfast.pushpop.items import partition_of, partition_of_lock
from holdfast.runtime.gather import Gatherer
from holdfast.runtime.refusals import accepted, is_refusal
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from holdfast.gateway.loads import Spread
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

# A partition that does not answer a completion in this time is one that cannot be reached.
COMPLETE_SECONDS = 5.0
# Nor is one waited for longer that is only asked how much it holds.
REFRESH_SECONDS = 1.0
CLOSE_SECONDS = 5.0

Answer = dict[str, Any]


class Partitions:
    """Answers are those of the actor: a refusal is one too."""

    def __init__(self, client: HostClient) -> None:
        self._loads = Loads()
        #: Who else is told how much a partition holds, with every answer it gives.
        self.listeners: list[Callable[[str, int], None]] = []
        self._gatherer = Gatherer(client, ACTOR_TYPE, self._heard)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """What goes on for callers that were answered already gets some seconds to end."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def known(self, queue: str) -> Spread | None:
        """What was heard of its partitions; None as long as there seems to be only one."""
        return self._loads.get(queue)

    async def call(self, queue: str, method: str, data: bytes = b"null", partition: int = 0) -> Answer:
        """Asks one partition."""
        spread = self.known(queue)
        if spread is None or partition >= spread.count:
            return await self._gatherer.call(partition_id(queue, partition), method, data)
        with spread.asking(partition):
            return await self._gatherer.call(partition_id(queue, partition), method, data)

    async def call_holder(self, queue: str, lock_id: Any, method: str, data: bytes) -> Answer:
        """Asks the partition that made this lock, of which the beginning is enough."""
        # What cannot be one of ours is for the first partition to refuse.
        partition = partition_of_lock(lock_id) if isinstance(lock_id, str) else 0
        if partition and not await self.exists(queue, partition):
            partition = 0
        return await self.call(queue, method, data, partition)

    async def exists(self, queue: str, partition: int) -> bool:
        return partition in await self._existing(queue, [partition])

    async def call_all(self, queue: str, method: str, data: bytes = b"null") -> list[Answer]:
        """Asks all partitions; the answers are in their order. Raises when one of them cannot be reached."""
        answers: list[Answer] = []
        try:
            # More of them may become known by the answers, a first time and while the queue grows.
            while len(answers) < (count := _count(self.known(queue))):
                answers += await together(
                    self.call(queue, method, data, partition) for partition in range(len(answers), count)
                )
        except errors.Unavailable as error:
            if self.known(queue) is None:
                raise
            raise errors.PartitionUnavailable(retry_after=1) from error
        return answers

    async def pop(self, queue: str, method: str, data: bytes) -> Answer:
        """From one partition. All of them were asked before the answer is that there is nothing."""
        spread = self.known(queue)
        if spread is None:
            answer = await self.call(queue, method, data)
            spread = self.known(queue)
            if spread is None or not _nothing(answer):
                return answer
            return await self._pop(queue, spread, method, data, {0: answer})
        return await self._pop(queue, spread, method, data, {})

    async def complete(self, queue: str, ids: Sequence[str]) -> Answer:
        """All of them, wherever they are. Does not wait for the others when a partition cannot be reached."""
        by_partition: dict[int | None, list[str]] = {}
        for item_id in ids:
            by_partition.setdefault(partition_of(item_id), []).append(item_id)
        ignored = len(by_partition.pop(None, ()))
        existing = await self._existing(queue, [number for number in by_partition if number is not None])
        ignored += sum(len(found) for number, found in by_partition.items() if number not in existing)
        answers = await self._complete(queue, {number: by_partition[number] for number in existing})
        answer: Answer = {
            "success": True,
            "completed": sum(one["completed"] for one in answers),
            "ignored": ignored + sum(one["ignored"] for one in answers),
        }
        if not_leased := [item_id for one in answers for item_id in one.get("not_leased", ())]:
            told = next(one for one in answers if one.get("not_leased"))
            return (
                answer | {key: told[key] for key in ("success", "message", "error_code")} | {"not_leased": not_leased}
            )
        return answer

    async def refresh(self, queue: str, numbers: Iterable[int]) -> None:
        """Hears how much these partitions hold now. One that cannot be reached is avoided for a while."""
        await asyncio.gather(*(self._refresh(queue, number) for number in numbers))

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Lets it go on whether or not its caller waits."""
        # A context of its own: it belongs to no request.
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _heard(self, actor_id: str, reply: Answer) -> None:
        self._loads.heard(actor_id, reply["load"], reply["partitions"])
        for listener in self.listeners:
            listener(actor_id, reply["load"])

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, _EXPECTED):
            log.error("A call to a queue's partition failed", exc_info=error)

    async def _existing(self, queue: str, numbers: Sequence[int]) -> list[int]:
        if max(numbers, default=0) >= _count(self.known(queue)):
            accepted(await self.call(queue, "GetConfig"))
        return [number for number in numbers if number < _count(self.known(queue))]

    async def _pop(
        self, queue: str, spread: Spread, method: str, data: bytes, asked: dict[int, Answer | None]
    ) -> Answer:
        failure: errors.HoldfastError | None = None
        while remaining := [number for number in spread.to_pop() if number not in asked]:
            for number in remaining:
                try:
                    answer = asked[number] = await self.call(queue, method, data, number)
                except errors.HostStopping:
                    raise
                except (errors.Unavailable, errors.StorageBroken) as error:
                    asked[number], failure = None, error
                    continue
                if not _nothing(answer):
                    return answer
        if failure is not None:
            # There may be something where nobody could look.
            raise failure
        answers = [answer for answer in asked.values() if answer is not None]
        if all(is_refusal(answer, errors.QueueLocked.code) for answer in answers):
            return min(answers, key=lambda answer: answer["lock_expires_at"])
        return next(answer for answer in answers if answer.get("success") is not False)

    async def _complete(self, queue: str, by_partition: dict[int, list[str]]) -> list[Answer]:
        tasks = [
            self.start(self.call(queue, "Complete", dump({"ids": ids}), partition))
            for partition, ids in by_partition.items()
        ]
        if not tasks:
            return []
        done, pending = await asyncio.wait(tasks, timeout=COMPLETE_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        failed = [error for task in done if (error := task.exception()) is not None]
        if faults := [error for error in failed if not isinstance(error, _EXPECTED)]:
            raise faults[0]
        if failed or pending:
            raise errors.PartitionUnavailable(retry_after=1) from (failed[0] if failed else None)
        answers = [task.result() for task in tasks]
        for answer in answers:
            if not is_refusal(answer, errors.NotLeased.code):
                accepted(answer)
        return answers

    async def _refresh(self, queue: str, number: int) -> None:
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                stats = await self.call(queue, "Stats", partition=number)
        except _EXPECTED:
            if spread := self.known(queue):
                spread.avoid(number)
            return
        if spread := self.known(queue):
            spread.bounded = accepted(stats)["config"]["capacity"] is not None


async def together(calls: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All of them at once. Ends when all have ended; the first that failed is raised then."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    answers: list[Answer] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers


#: What a call that leaves the process can end with, through no fault of ours.
_EXPECTED = (errors.HoldfastError, TimeoutError)


def _count(spread: Spread | None) -> int:
    return 1 if spread is None else spread.count


def _nothing(answer: Answer) -> bool:
    """There is nothing to pop, or it is locked."""
    return answer.get("count") == 0
