"""A queue's configuration: the first partition keeps it, and the others are told."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.gateway.pushes import refuse_elsewhere, with_elsewhere
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from holdfast.gateway.partitions import Answer, Partitions

log = logging.getLogger(__name__)

# A partition that cannot be reached is told later, by the first one.
TELL_SECONDS = 5.0


class Configuration:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def get(self, queue: str) -> Answer:
        return accepted(await self._partitions.call(queue, "GetConfig"))

    async def change(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        """``data`` is what the body says. When this answers, all partitions that can be reached know."""
        refuse_elsewhere(data)
        if data.get("capacity") is not None and (load := await self._load_elsewhere(queue)):
            body = with_elsewhere(body, load)
        config = accepted(await self._partitions.call(queue, "SetConfig", body))
        if spread := self._partitions.known(queue):
            spread.bounded = config["capacity"] is not None
            await self._tell(queue)
        return config

    async def _load_elsewhere(self, queue: str) -> int:
        await self.get(queue)
        spread = self._partitions.known(queue)
        if spread is None:
            return 0
        await self._partitions.refresh(queue, range(1, spread.count))
        return spread.elsewhere(0)

    async def _tell(self, queue: str) -> None:
        try:
            async with asyncio.timeout(TELL_SECONDS):
                untold = accepted(await self._partitions.call(queue, "Untold"))
                await asyncio.gather(*(self._tell_one(queue, number, untold) for number in untold["partitions"]))
        except (HoldfastError, TimeoutError) as error:
            log.warning("Not all partitions of %s know its configuration yet: %s", queue, str(error) or "no answer")

    async def _tell_one(self, queue: str, number: int, untold: Answer) -> None:
        version = untold["version"]
        try:
            configure = dump({"config": untold["config"], "version": version})
            accepted(await self._partitions.call(queue, "Configure", configure, number))
            told = dump({"told": {"partition": number, "version": version}})
            accepted(await self._partitions.call(queue, "Untold", told))
        except HoldfastError as error:
            log.warning("Partition %d of %s does not know its configuration yet: %s", number, queue, error)
