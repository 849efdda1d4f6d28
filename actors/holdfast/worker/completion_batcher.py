"""Batches the completion of activities: those that finish during one call are completed together in the next."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, NotLeased, Unavailable

if TYPE_CHECKING:
    from holdfast.client.api.queues import QueueCalls

# The limit of one call.
_MOST_IDS = 1000


class Completions:
    """Completes the items of one queue."""

    def __init__(self, calls: QueueCalls) -> None:
        self._calls = calls
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._sending = asyncio.Lock()

    async def complete(self, item_id: str) -> None:
        """Completes an item. Raises NotLeased when its lock has expired, so that another worker may have it."""
        completed = self._waiting.setdefault(item_id, asyncio.get_running_loop().create_future())
        async with self._sending:
            if not completed.done():
                await self._send()
        await completed

    async def _send(self) -> None:
        ids = list(islice(self._waiting, _MOST_IDS))
        sent = {item_id: self._waiting.pop(item_id) for item_id in ids}
        failures: dict[str, HoldfastError] = {}
        try:
            await self._calls.complete(ids)
        except NotLeased as error:
            failures = dict.fromkeys(error.details["not_leased"], error)
        except HoldfastError as error:
            failures = dict.fromkeys(ids, error)
        except asyncio.CancelledError:
            # Only the task that sends is cancelled; the others in the batch retry.
            failures = dict.fromkeys(ids, Unavailable())
            raise
        finally:
            for item_id, completed in sent.items():
                if completed.cancelled():
                    continue
                if item_id in failures:
                    completed.set_exception(failures[item_id])
                    # Mark it as retrieved: the waiting task may have ended.
                    completed.exception()
                else:
                    completed.set_result(None)
