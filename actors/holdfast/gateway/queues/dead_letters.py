"""Dead letters over REST: lists, redrives and deletes them, and hands over transfers to other queues."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.logs import message_of
from holdfast.names import in_same_tenant, split_partition, split_tenant
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from holdfast.gateway.queues.partitions import Answer, Partitions
    from holdfast.pushpop.api.requests import SelectDeadLetters

log = logging.getLogger(__name__)

# How long a call waits for its transfers to arrive before it answers. They arrive without this, too, only later.
MOMENT_SECONDS = 2.0
# The time limit for redriving or deleting dead letters in one call; its answer says whether there are more.
SECONDS_A_CALL = 20.0


class DeadLetters:
    """The dead letters of a queue are stored in its dead-letter queue, which several queues may share.

    Called on a dead-letter queue itself, the methods cover all its items.
    """

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def page(self, queue: str, limit: int, cursor: str | None) -> Answer:
        """Returns one page of the queue's dead letters."""
        target, asked = await self._place(queue)
        asked["limit"] = limit
        if cursor is not None:
            asked["cursor"] = cursor
        return raise_for_refusal(await self._partitions.call(target, "DeadLetters", dump(asked)))

    async def redrive(self, queue: str, selected: SelectDeadLetters) -> Answer:
        """Returns dead letters to their original queues."""
        target, asked = await self._place(queue)
        # Limited to the present number: an item that fails again and comes back is not redriven a second time.
        most = await self._number(target) if selected.max is None and selected.ids is None else selected.max
        answer = await self._in_batches(target, "Redrive", "redriven", selected, asked, most)
        if answer["redriven"]:
            await self.deliver(target)
        return answer

    async def delete(self, queue: str, selected: SelectDeadLetters) -> Answer:
        """Deletes dead letters."""
        target, asked = await self._place(queue)
        return await self._in_batches(target, "DeleteDeadLetters", "deleted", selected, asked, selected.max)

    async def _in_batches(
        self, target: str, method: str, done: str, selected: SelectDeadLetters, asked: dict[str, Any], left: int | None
    ) -> Answer:
        """Calls the dead-letter queue batch by batch, up to ``left`` letters and ``SECONDS_A_CALL``."""
        selected.wanted()  # raises for a wrong filter before anything is done
        asked |= selected.model_dump(exclude_unset=True, include={"ids", "filter", "cursor"})
        clock = asyncio.get_running_loop().time
        until = clock() + SECONDS_A_CALL
        count, more = 0, left != 0
        while more and left != 0 and clock() < until:
            answer = raise_for_refusal(await self._partitions.call(target, method, dump(_limited(asked, left))))
            count += answer[done]
            left = None if left is None else left - answer[done]
            more = answer["more"]
            if "cursor" in answer:
                asked["cursor"] = answer["cursor"]
        unfinished: Answer = {"more": True} if more and left != 0 else {}
        # Without a filter, all letters before the cursor are done, so that a repeated call need not be told.
        if more and "cursor" in asked and "filter" in asked:
            unfinished["next_cursor"] = asked["cursor"]
        return {"success": True, done: count, **unfinished}

    async def deliver(self, queue: str, partition: int = 0) -> None:
        """Hands over this partition's pending transfers for up to ``MOMENT_SECONDS``; the queue continues by itself."""
        try:
            async with asyncio.timeout(MOMENT_SECONDS):
                await self._deliver(queue, partition)
        except (HoldfastError, TimeoutError) as error:
            log.info("queue %s: transfers are still pending; the queue retries them: %s", queue, message_of(error))

    async def _deliver(self, queue: str, partition: int) -> None:
        done = b"null"
        while True:
            transfer = raise_for_refusal(await self._partitions.call(queue, "Transferred", done, partition))["next"]
            if transfer is None:
                return
            target, number = split_partition(in_same_tenant(queue, transfer["target"]))
            raise_for_refusal(await self._partitions.call(target, "Receive", dump(transfer), number))
            done = dump({"number": transfer["number"]})

    async def _place(self, queue: str) -> tuple[str, dict[str, Any]]:
        """Returns the dead-letter queue to ask, and the request that selects this queue's dead letters in it."""
        target = raise_for_refusal(await self._partitions.call(queue, "Stats"))["dead_letter_queue"]
        if target is None:
            return queue, {}
        return in_same_tenant(queue, target), {"original_queue": split_tenant(queue)[1]}

    async def _number(self, target: str) -> int:
        count: int = raise_for_refusal(await self._partitions.call(target, "Stats"))["count"]
        return count


def _limited(asked: dict[str, Any], left: int | None) -> dict[str, Any]:
    return asked if left is None else asked | {"max": left}
