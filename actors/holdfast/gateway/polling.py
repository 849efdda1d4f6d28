"""Long polls: a pop that waits until there is something, without asking all the time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.doorbell import Listening
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from holdfast.gateway.endpoints import Call
    from holdfast.gateway.gather import Gatherer
    from holdfast.pushpop.doorbell import Doorbell

# A queue forgets who waits when its actor moves or is restarted, so one asks again now and then.
ASK_AGAIN_SECONDS = 10.0


class Poller:
    """Waits on behalf of callers."""

    def __init__(self, gatherer: Gatherer, doorbell: Doorbell) -> None:
        self._gatherer = gatherer
        self._doorbell = doorbell

    async def pop(
        self, call: Call, queue: str, method: str, data: dict[str, Any], wait_seconds: float
    ) -> dict[str, Any]:
        """Answers as a pop does, at the latest when the time is up. What a caller that left would get is given back."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        gone = asyncio.ensure_future(call.gone())
        try:
            with Listening(queue) as rung:
                while True:
                    rung.clear()
                    left = until - loop.time()
                    asked = data if left <= 0 else data | {"doorbell": await self._doorbell.hang()}
                    answer = await self._gatherer.call(queue, method, dump(asked))
                    if gone.done():
                        await self._give_back(queue, answer)
                        return answer
                    if left <= 0 or not _nothing_yet(answer):
                        return answer
                    waiting = asyncio.ensure_future(rung.wait())
                    pause = min(left, ASK_AGAIN_SECONDS, _until_unlocked(answer))
                    try:
                        await asyncio.wait({waiting, gone}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        waiting.cancel()
        finally:
            gone.cancel()

    async def _give_back(self, queue: str, answer: dict[str, Any]) -> None:
        if "lock_id" in answer:
            reason = {"lock_id": answer["lock_id"], "error": "the consumer went away before it got this"}
            await self._gatherer.call(queue, "Abandon", dump(reason))


def _nothing_yet(answer: dict[str, Any]) -> bool:
    return answer.get("count") == 0


def _until_unlocked(answer: dict[str, Any]) -> float:
    """A lock that expires is noticed by the queue's reminder too; looking then is a little sooner."""
    expires_at = answer.get("lock_expires_at")
    return ASK_AGAIN_SECONDS if expires_at is None else max(0.05, expires_at - time.time() + 0.05)
