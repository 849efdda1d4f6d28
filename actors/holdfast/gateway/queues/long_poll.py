"""Long polls: pops that wait for an item, woken by a notification instead of asking repeatedly."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import HostStopping, Unavailable
from holdfast.runtime.notifier import Subscription, wake_all
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from prometheus_client import Gauge

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.queues.partitions import Partitions
    from holdfast.runtime.notifier import Notifier

# A queue loses its subscribers when its actor moves or restarts, so the poll asks again at this interval.
ASK_AGAIN_SECONDS = 10.0
# The pause after a failed call: the queue may be available again before the time is up.
TRY_AGAIN_SECONDS = 1.0

NOTHING: dict[str, Any] = {"items": [], "count": 0, "messages": []}


class Poller:
    """Runs long polls for clients."""

    def __init__(self, partitions: Partitions, notifier: Notifier, waiting: Gauge) -> None:
        self._partitions = partitions
        self._notifier = notifier
        self._waiting = waiting
        #: Whether the server is stopping and delivers no more items.
        self.stopping = False

    def begin_stop(self) -> None:
        """Answers all waiting pops, so that they do not delay the stop of the server."""
        self.stopping = True
        wake_all()

    async def pop(
        self, call: HttpRequest, queue: str, method: str, data: dict[str, Any], wait_seconds: float
    ) -> dict[str, Any]:
        """Pops, and waits up to ``wait_seconds`` for items. Abandons the items of a client that has disconnected."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        disconnected = asyncio.ensure_future(call.disconnected())
        try:
            with self._waiting.track_inprogress(), Subscription(queue) as wakeup:
                while True:
                    wakeup.clear()
                    left = until - loop.time()
                    answer, pause = await self._ask(queue, method, data, left)
                    if disconnected.done():
                        await self._abandon(queue, answer)
                        return answer
                    if left <= 0 or not _is_empty(answer):
                        return answer
                    waiting = asyncio.ensure_future(wakeup.wait())
                    try:
                        await asyncio.wait(
                            {waiting, disconnected}, timeout=min(left, pause), return_when=asyncio.FIRST_COMPLETED
                        )
                    finally:
                        waiting.cancel()
                    if disconnected.done() or self.stopping:
                        # Another pop might take items that no client would receive.
                        return answer
        finally:
            disconnected.cancel()

    async def _ask(self, queue: str, method: str, data: dict[str, Any], left: float) -> tuple[dict[str, Any], float]:
        """Returns an answer, and how long to wait before asking again."""
        if left <= 0:
            return await self._partitions.pop(queue, method, dump(data)), 0.0
        try:
            asked = data | {"notify": await self._notifier.subscribe()}
            answer = await self._partitions.pop(queue, method, dump(asked))
        except HostStopping:
            raise
        except Unavailable:
            return NOTHING, TRY_AGAIN_SECONDS
        return answer, min(ASK_AGAIN_SECONDS, _until_unlocked(answer))

    async def _abandon(self, queue: str, answer: dict[str, Any]) -> None:
        if "lock_id" in answer:
            error = "the consumer disconnected before it received this"
            body = {"lock_id": answer["lock_id"], "error": error, "uncounted": True}
            await self._partitions.call_holder(queue, answer["lock_id"], "Abandon", dump(body))


def _is_empty(answer: dict[str, Any]) -> bool:
    return answer.get("count") == 0


def _until_unlocked(answer: dict[str, Any]) -> float:
    """Returns the time until the queue's lock expires. The queue's reminder notices that too, but a little later."""
    expires_at = answer.get("lock_expires_at")
    return ASK_AGAIN_SECONDS if expires_at is None else max(0.05, expires_at - time.time() + 0.05)
