"""Activities that are done, on their way off their queue: those that come while others are told of travel together."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, NotLeased, Unavailable

if TYPE_CHECKING:
    from holdfast.client.calls import QueueCalls

# As many as one call takes.
_MOST_IDS = 1000


class Completions:
    """Of one queue."""

    def __init__(self, calls: QueueCalls) -> None:
        self._calls = calls
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._sending = asyncio.Lock()

    async def complete(self, item_id: str) -> None:
        """Raises NotLeased when its lock had run out: it may be somebody else's by now."""
        told = self._waiting.setdefault(item_id, asyncio.get_running_loop().create_future())
        async with self._sending:
            if not told.done():
                await self._send()
        await told

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
            # The others are not cancelled with the one whose turn it was to send.
            failures = dict.fromkeys(ids, Unavailable())
            raise
        finally:
            for item_id, told in sent.items():
                if told.cancelled():
                    continue
                if item_id in failures:
                    told.set_exception(failures[item_id])
                    # The one who waited may have gone.
                    told.exception()
                else:
                    told.set_result(None)
