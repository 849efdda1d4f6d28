"""How long requests hold a server's event loop, by its own metric."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from holdfast.gateway.metrics.event_loop import INTERVAL_SECONDS, LONGEST_HOLD_SECONDS

if TYPE_CHECKING:
    from attacks.guarded import Guarded


class Holds:
    """What the probe of one server has seen since the last look."""

    def __init__(self, server: Guarded) -> None:
        self._server = server
        self._seen = 0.0

    async def too_long(self) -> float:
        """How many times the event loop was held for longer than a request may, since the last look."""
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
