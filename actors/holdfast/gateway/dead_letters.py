"""Dead letters over REST: whose they are, and how they get where they belong."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.identity import beside, split_partition, split_tenant
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from holdfast.gateway.partitions import Answer, Partitions

log = logging.getLogger(__name__)

# How long a caller is kept so that what was moved is there when the answer is. It gets there without this too.
MOMENT_SECONDS = 2.0
# One call redrives so long at most; its answer says whether there is more.
REDRIVE_SECONDS = 20.0


class DeadLetters:
    """Those of a queue lie in its dead-letter queue, together with others'; that one's own are all it has."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def page(self, queue: str, limit: int, cursor: str | None) -> Answer:
        target, asked = await self._place(queue)
        asked["limit"] = limit
        if cursor is not None:
            asked["cursor"] = cursor
        return accepted(await self._partitions.call(target, "DeadLetters", dump(asked)))

    async def redrive(self, queue: str, ids: list[str] | None, most: int | None) -> Answer:
        """Back to where they came from: those with these ids or all, but ``most`` of them."""
        target, asked = await self._place(queue)
        if ids is not None:
            asked["ids"] = ids
        # What fails again, and comes back, is not redriven a second time.
        left = await self._number(target) if most is None and ids is None else most
        clock = asyncio.get_running_loop().time
        until = clock() + REDRIVE_SECONDS
        redriven, more = 0, True
        while more and left != 0 and clock() < until:
            answer = accepted(await self._partitions.call(target, "Redrive", dump(_limited(asked, left))))
            redriven += answer["redriven"]
            left = None if left is None else left - answer["redriven"]
            more = answer["more"]
            if "cursor" in answer:
                asked["cursor"] = answer["cursor"]
        if redriven:
            await self.deliver(target)
        told = {"more": True} if more and left != 0 else {}
        return {"success": True, "redriven": redriven, **told}

    async def deliver(self, queue: str, partition: int = 0) -> None:
        """Hands over what this partition has for other queues, for a moment; it does so by itself too."""
        try:
            async with asyncio.timeout(MOMENT_SECONDS):
                await self._deliver(queue, partition)
        except (HoldfastError, TimeoutError) as error:
            log.info("What %s moves elsewhere is still on its way: %s", queue, str(error) or "it takes longer")

    async def _deliver(self, queue: str, partition: int) -> None:
        done = b"null"
        while True:
            parcel = accepted(await self._partitions.call(queue, "Transferred", done, partition))["next"]
            if parcel is None:
                return
            target, number = split_partition(beside(queue, parcel["target"]))
            accepted(await self._partitions.call(target, "Receive", dump(parcel), number))
            done = dump({"number": parcel["number"]})

    async def _place(self, queue: str) -> tuple[str, dict[str, Any]]:
        """The dead-letter queue to ask, and for whose."""
        target = accepted(await self._partitions.call(queue, "Stats"))["dead_letter_queue"]
        if target is None:
            return queue, {}
        return beside(queue, target), {"original_queue": split_tenant(queue)[1]}

    async def _number(self, target: str) -> int:
        count: int = accepted(await self._partitions.call(target, "Stats"))["count"]
        return count


def _limited(asked: dict[str, Any], left: int | None) -> dict[str, Any]:
    return asked if left is None else asked | {"max": left}
