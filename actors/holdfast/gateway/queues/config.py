"""A queue's configuration: the first partition stores it and replicates it to the others."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.gateway.queues.push_routing import refuse_elsewhere, with_elsewhere
from holdfast.logs import message_of
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from holdfast.gateway.queues.partitions import Answer, Partitions

log = logging.getLogger(__name__)

# The first partition sends the configuration later to partitions that are unavailable now.
REPLICATE_SECONDS = 5.0


class Configuration:
    """Reads and changes the configuration of queues."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def get(self, queue: str) -> Answer:
        return raise_for_refusal(await self._partitions.call(queue, "GetConfig"))

    async def change(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        """Changes the configuration and replicates it to all available partitions. ``data`` is the parsed body."""
        refuse_elsewhere(data)
        if data.get("capacity") is not None and (load := await self._load_elsewhere(queue)):
            body = with_elsewhere(body, load)
        config = raise_for_refusal(await self._partitions.call(queue, "SetConfig", body))
        if spread := self._partitions.known(queue):
            spread.bounded = config["capacity"] is not None
            await self._replicate(queue)
        return config

    async def _load_elsewhere(self, queue: str) -> int:
        await self.get(queue)
        spread = self._partitions.known(queue)
        if spread is None:
            return 0
        await self._partitions.refresh(queue, range(1, spread.count))
        return spread.elsewhere(0)

    async def _replicate(self, queue: str) -> None:
        try:
            async with asyncio.timeout(REPLICATE_SECONDS):
                pending = raise_for_refusal(await self._partitions.call(queue, "PendingConfig"))
                await asyncio.gather(*(self._replicate_to(queue, number, pending) for number in pending["partitions"]))
        except (HoldfastError, TimeoutError) as error:
            log.warning(
                "queue %s: not all partitions have its new configuration yet; its first partition retries: %s",
                *(queue, message_of(error)),
            )

    async def _replicate_to(self, queue: str, number: int, pending: Answer) -> None:
        version = pending["version"]
        try:
            configure = dump({key: pending[key] for key in ("config", "version", "generation")})
            raise_for_refusal(await self._partitions.call(queue, "Configure", configure, number))
            told = dump({"told": {"partition": number, "version": version}})
            raise_for_refusal(await self._partitions.call(queue, "PendingConfig", told))
        except HoldfastError as error:
            log.warning(
                "queue %s: partition %d does not have its new configuration yet; the first partition retries: %s",
                *(queue, number, error),
            )
