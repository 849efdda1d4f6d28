"""Waits of REST calls for something that an instance announces: its end, or the reply to a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.errors import HostStopping
from holdfast.runtime.notifier import Notifier, Subscription
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.runtime.contract import HostClient

#: The longest wait of one call.
MAX_WAIT_SECONDS = 300.0
# An instance loses its subscribers when its actor moves or restarts, so a wait asks again at this interval.
ASK_AGAIN_SECONDS = 10.0

Answer = dict[str, Any]


class NotifiedWaits:
    """The waiting calls of one server."""

    def __init__(self, client: HostClient) -> None:
        self._notifier = Notifier(client)
        self._stopping = False

    def begin_stop(self) -> None:
        """Ends all waits now and refuses later ones."""
        self._stopping = True

    def check_running(self) -> None:
        """Raises HostStopping when the server is stopping."""
        if self._stopping:
            raise HostStopping

    async def until_answered(
        self, call: HttpRequest, topic: str, seconds: float, ask: Callable[[str | None], Awaitable[Answer | None]]
    ) -> Answer | None:
        """Returns what ``ask`` or a notification of this topic gives; None when time is up or the caller is gone.

        ``ask`` leaves the notifier that it gets with the instance, unless it has the answer already.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        disconnected = asyncio.ensure_future(call.disconnected())
        try:
            with Subscription(topic) as wakeup:
                while True:
                    wakeup.clear()
                    left = until - loop.time()
                    if left <= 0 or disconnected.done() or self._stopping:
                        return None
                    answer = await ask(await self._notifier.subscribe())
                    if answer is not None:
                        return answer
                    waiting = asyncio.ensure_future(wakeup.wait())
                    try:
                        pause = min(left, ASK_AGAIN_SECONDS)
                        await asyncio.wait({waiting, disconnected}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        waiting.cancel()
                    if wakeup.payload is not None:
                        notified: Answer = load(wakeup.payload)
                        return notified
        finally:
            disconnected.cancel()
