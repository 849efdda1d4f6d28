"""Long polls: a pop that waits until there is something, without asking all the time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import HostStopping, Unavailable
from holdfast.pushpop.doorbell import Listening, wake_everyone
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from prometheus_client import Gauge

    from holdfast.gateway.endpoints import Call
    from holdfast.gateway.partitions import Partitions
    from holdfast.pushpop.doorbell import Doorbell

# A queue forgets who waits when its actor moves or is restarted, so one asks again now and then.
ASK_AGAIN_SECONDS = 10.0
# A queue that cannot be reached just now may be back before the time is up.
TRY_AGAIN_SECONDS = 1.0

NOTHING: dict[str, Any] = {"items": [], "count": 0, "messages": []}


class Poller:
    """Waits on behalf of callers."""

    def __init__(self, partitions: Partitions, doorbell: Doorbell, waiting: Gauge) -> None:
        self._partitions = partitions
        self._doorbell = doorbell
        self._waiting = waiting
        self._stopping = False

    def stop(self) -> None:
        """Those who wait are answered now, so that they do not hold up the end of the server."""
        self._stopping = True
        wake_everyone()

    async def pop(
        self, call: Call, queue: str, method: str, data: dict[str, Any], wait_seconds: float
    ) -> dict[str, Any]:
        """Answers as a pop does, at the latest when the time is up. What a caller that left would get is given back."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        gone = asyncio.ensure_future(call.gone())
        try:
            with self._waiting.track_inprogress(), Listening(queue) as rung:
                while True:
                    rung.clear()
                    left = until - loop.time()
                    answer, pause = await self._ask(queue, method, data, left)
                    if gone.done():
                        await self._give_back(queue, answer)
                        return answer
                    if left <= 0 or not _nothing_yet(answer):
                        return answer
                    waiting = asyncio.ensure_future(rung.wait())
                    try:
                        await asyncio.wait(
                            {waiting, gone}, timeout=min(left, pause), return_when=asyncio.FIRST_COMPLETED
                        )
                    finally:
                        waiting.cancel()
                    if gone.done() or self._stopping:
                        # Asked once more, the queue might give something that nobody is there to take.
                        return answer
        finally:
            gone.cancel()

    async def _ask(self, queue: str, method: str, data: dict[str, Any], left: float) -> tuple[dict[str, Any], float]:
        """An answer, and how long to wait for a better one."""
        if left <= 0:
            return await self._partitions.pop(queue, method, dump(data)), 0.0
        try:
            asked = data | {"doorbell": await self._doorbell.hang()}
            answer = await self._partitions.pop(queue, method, dump(asked))
        except HostStopping:
            raise
        except Unavailable:
            return NOTHING, TRY_AGAIN_SECONDS
        return answer, min(ASK_AGAIN_SECONDS, _until_unlocked(answer))

    async def _give_back(self, queue: str, answer: dict[str, Any]) -> None:
        if "lock_id" in answer:
            reason = {"lock_id": answer["lock_id"], "error": "the consumer went away before it got this"}
            await self._partitions.call_holder(queue, answer["lock_id"], "Abandon", dump(reason))


def _nothing_yet(answer: dict[str, Any]) -> bool:
    return answer.get("count") == 0


def _until_unlocked(answer: dict[str, Any]) -> float:
    """A lock that expires is noticed by the queue's reminder too; looking then is a little sooner."""
    expires_at = answer.get("lock_expires_at")
    return ASK_AGAIN_SECONDS if expires_at is None else max(0.05, expires_at - time.time() + 0.05)
