"""Calls the partitions of a queue: selects the partitions for a call and combines their replies.

A queue not known to have several partitions is called as if it had one. Each reply includes the partition count, so
the others are called only where they exist, and a queue with one partition costs one call.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.gateway.bulkhead import Bulkhead
from holdfast.gateway.queues.partition_loads import Loads
from holdfast.kinds import QUEUE_TYPE
from holdfast.names import partition_id, split_tenant
from holdfast.pushpop.core.items import partition_of, partition_of_lock
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import is_refusal, raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence

    from holdfast.gateway.queues.partition_loads import PartitionLoads
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

# A partition that does not answer a completion in this time counts as unavailable.
COMPLETE_SECONDS = 5.0
# The limit for asking a partition for its load.
REFRESH_SECONDS = 1.0
CLOSE_SECONDS = 5.0
#: How many partitions are called at once for one tenant, over all its calls to more than one partition.
FAN_OUT = 32

Answer = dict[str, Any]


class Partitions:
    """Calls partitions. Methods return the actors' replies, refusals included, unless they say otherwise."""

    def __init__(self, client: HostClient) -> None:
        self._loads = Loads()
        #: Functions called with each reply: the partition's actor id, its number of items and their bytes.
        self.listeners: list[Callable[[str, int, int], None]] = []
        self._batcher = CallBatcher(client, QUEUE_TYPE, self._on_reply)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._fan_outs = Bulkhead(FAN_OUT)

    async def close(self) -> None:
        """Finishes background calls whose requests were already answered, for up to ``CLOSE_SECONDS``."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def known(self, queue: str) -> PartitionLoads | None:
        """Returns the known loads of the queue's partitions; None while it seems to have only one."""
        return self._loads.get(queue)

    def forget(self, queue: str) -> None:
        """Drops what is known of a queue that was deleted."""
        self._loads.forget(queue)

    async def call(self, queue: str, method: str, data: bytes = b"null", partition: int = 0) -> Answer:
        """Calls one partition."""
        spread = self.known(queue)
        if spread is None or partition >= spread.count:
            return await self._batcher.call(partition_id(queue, partition), method, data)
        with spread.asking(partition):
            return await self._batcher.call(partition_id(queue, partition), method, data)

    async def call_holder(self, queue: str, lock_id: Any, method: str, data: bytes) -> Answer:
        """Calls the partition that created this lock. A prefix of the lock id is enough."""
        # An invalid lock id is left to the first partition to refuse.
        partition = partition_of_lock(lock_id) if isinstance(lock_id, str) else 0
        if partition and not await self.exists(queue, partition):
            partition = 0
        return await self.call(queue, method, data, partition)

    async def exists(self, queue: str, partition: int) -> bool:
        return partition in await self._existing(queue, [partition])

    def count(self, queue: str) -> int:
        """Returns the known number of partitions."""
        return _count(self.known(queue))

    async def call_all(
        self, queue: str, method: str, data: bytes = b"null", *, first: Answer | None = None
    ) -> list[Answer]:
        """Calls all partitions and returns their replies in order. Raises when one of them is unavailable.

        ``first`` is the reply of the first partition, if it was called already.
        """
        answers = [] if first is None else [first]
        async for page in self.call_each(queue, method, lambda: data, len(answers), at_once=None):
            answers += page
        return answers

    async def call_each(
        self, queue: str, method: str, data: Callable[[], bytes], begin: int = 0, *, at_once: int | None
    ) -> AsyncIterator[list[Answer]]:
        """Calls all partitions, ``at_once`` at a time. ``data`` returns the request and is called before each group."""
        asked = begin
        try:
            # Replies may reveal more partitions: at the first call, and while the queue grows.
            while asked < (count := self.count(queue)):
                numbers = range(asked, count if at_once is None else min(count, asked + at_once))
                asked = numbers.stop
                yield await together(self._fan_out(queue, method, data(), number) for number in numbers)
        except errors.Unavailable as error:
            if self.known(queue) is None:
                raise
            raise errors.PartitionUnavailable(retry_after=1) from error

    async def pop(self, queue: str, method: str, data: bytes) -> Answer:
        """Pops from one partition. All partitions are asked before the reply is empty."""
        spread = self.known(queue)
        if spread is None:
            answer = await self.call(queue, method, data)
            spread = self.known(queue)
            if spread is None or not _is_empty(answer):
                return answer
            return await self._pop(queue, spread, method, data, {0: answer})
        return await self._pop(queue, spread, method, data, {})

    async def complete(self, queue: str, ids: Sequence[str]) -> Answer:
        """Completes the items in their partitions. Raises PartitionUnavailable as soon as one partition fails."""
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
            refusal = next(one for one in answers if one.get("not_leased"))
            return (
                answer
                | {key: refusal[key] for key in ("success", "message", "error_code")}
                | {"not_leased": not_leased}
            )
        return answer

    async def refresh(self, queue: str, numbers: Iterable[int]) -> None:
        """Updates the loads of these partitions. An unavailable partition is avoided for a while."""
        await asyncio.gather(*(self._refresh(queue, number) for number in numbers))

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs the work in a task that outlives its caller."""
        # Its own context, as it belongs to no request.
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def _fan_out(self, queue: str, method: str, data: bytes, partition: int) -> Answer:
        if self.known(queue) is None:
            return await self.call(queue, method, data, partition)
        async with self._fan_outs.enter(split_tenant(queue)[0]):
            return await self.call(queue, method, data, partition)

    def _on_reply(self, actor_id: str, reply: Answer) -> None:
        self._loads.observe(actor_id, reply["load"], reply["partitions"])
        for listener in self.listeners:
            listener(actor_id, reply["load"], reply["bytes"])

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, _EXPECTED):
            log.error("a background call to a queue's partition failed and is not retried", exc_info=error)

    async def _existing(self, queue: str, numbers: Sequence[int]) -> list[int]:
        if max(numbers, default=0) >= _count(self.known(queue)):
            raise_for_refusal(await self.call(queue, "GetConfig"))
        return [number for number in numbers if number < _count(self.known(queue))]

    async def _pop(
        self, queue: str, spread: PartitionLoads, method: str, data: bytes, asked: dict[int, Answer | None]
    ) -> Answer:
        failure: errors.HoldfastError | None = None
        while remaining := [number for number in spread.to_pop() if number not in asked]:
            for number in remaining:
                try:
                    # The first call skips the limit on fan-outs: it usually finds an item.
                    ask = self._fan_out if asked else self.call
                    answer = asked[number] = await ask(queue, method, data, number)
                except errors.HostStopping:
                    raise
                except (errors.Unavailable, errors.StorageBroken) as error:
                    asked[number], failure = None, error
                    continue
                if not _is_empty(answer):
                    return answer
        if failure is not None:
            # The partition that failed may have items.
            raise failure
        answers = [answer for answer in asked.values() if answer is not None]
        if all(is_refusal(answer, errors.QueueLocked.code) for answer in answers):
            return min(answers, key=lambda answer: answer["lock_expires_at"])
        return next(answer for answer in answers if answer.get("success") is not False)

    async def _complete(self, queue: str, by_partition: dict[int, list[str]]) -> list[Answer]:
        tasks = [
            self.start(self._fan_out(queue, "Complete", dump({"ids": ids}), partition))
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
                raise_for_refusal(answer)
        return answers

    async def _refresh(self, queue: str, number: int) -> None:
        try:
            async with self._fan_outs.enter(split_tenant(queue)[0]), asyncio.timeout(REFRESH_SECONDS):
                stats = await self.call(queue, "Stats", partition=number)
        except _EXPECTED:
            if spread := self.known(queue):
                spread.avoid(number)
            return
        if spread := self.known(queue):
            spread.bounded = raise_for_refusal(stats)["config"]["capacity"] is not None


async def together(calls: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Runs the calls concurrently and waits for all. Then raises the first failure, if there is one."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    answers: list[Answer] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers


#: Errors of calls that leave the process, which are not bugs.
_EXPECTED = (errors.HoldfastError, TimeoutError)


def _count(spread: PartitionLoads | None) -> int:
    return 1 if spread is None else spread.count


def _is_empty(answer: Answer) -> bool:
    """Returns whether the reply of a pop has no items, as the queue is empty or locked."""
    return answer.get("count") == 0
