"""How long requests hold a server's event loop, by its own metric."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from holdfast.gateway.metrics.event_loop import INTERVAL_SECONDS, LONGEST_HOLD_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.behaviour.security.guarded import Answer, Guarded

Outcome = TypeVar("Outcome")

#: How often a request that held the event loop for too long is repeated.
REPEATS = 4


class Repeating:
    """Sends requests to a server, and repeats them when its event loop was held for too long.

    A request that holds the event loop does so each time. The other causes do not come back with it: a garbage
    collection that was due, and neighbours on the same core, which make every computation take longer.
    """

    def __init__(self, server: Guarded) -> None:
        self._server = server
        self._holds = Holds(server)
        self._sent: list[Callable[[], Awaitable[object]]] = []

    async def ask(self, verb: str, path: str, body: bytes | None = None, *, token: str) -> Answer:
        self._sent.append(lambda: self._server.ask(verb, path, body, token=token))
        return await self._server.ask(verb, path, body, token=token)

    async def send_raw(self, *pieces: bytes) -> list[int]:
        self._sent.append(lambda: self._server.send_raw(*pieces))
        return await self._server.send_raw(*pieces)

    async def do(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        self._sent.append(send)
        return await send()

    async def begin(self) -> None:
        """Leaves out what was seen before."""
        await self._holds.too_long()

    async def check(self) -> None:
        """Raises AssertionError when the event loop was held for too long, and at each repeat again."""
        for _ in range(REPEATS):
            if await self._holds.too_long() == 0:
                return
            for send in self._sent:
                await send()
        assert await self._holds.too_long() == 0


class Holds:
    """The times for which a server's event loop was blocked, since the last call."""

    def __init__(self, server: Guarded) -> None:
        self._server = server
        self._seen = 0.0

    async def too_long(self) -> float:
        """Returns how often the event loop was blocked longer than a request may block it, since the last call."""
        # The probe has looked at all that came before when it has looked twice more.
        _, looks = await self._read()
        async with asyncio.timeout(30):
            while (read := await self._read())[1] < looks + 2:
                await asyncio.sleep(INTERVAL_SECONDS)
        seen, self._seen = self._seen, read[0]
        return read[0] - seen

    async def _read(self) -> tuple[float, float]:
        text = (await self._server.ask("GET", "/metrics", token="operator")).text.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        samples = families["holdfast_event_loop_held_seconds"].samples
        looks = next(sample.value for sample in samples if sample.name.endswith("_count"))
        short = next(sample.value for sample in samples if sample.labels.get("le") == str(LONGEST_HOLD_SECONDS))
        return looks - short, looks
