"""Deletes queues over REST. The first partition does it; this process forgets what it knew of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kinds import QUEUE_TYPE
from holdfast.runtime.serialization import dump, load
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from holdfast.gateway.queues.partitions import Answer, Partitions
    from holdfast.gateway.quotas.usage import TenantUsages
    from holdfast.runtime.contract import HostClient


class Deletion:
    def __init__(self, client: HostClient, partitions: Partitions, usages: TenantUsages | None) -> None:
        self._client = client
        self._partitions = partitions
        self._usages = usages

    async def delete(self, queue: str, *, force: bool) -> Answer:
        """Deletes the queue with all its partitions. Raises Conflict for items, unless ``force`` is given."""
        answer = raise_for_refusal(
            load(await self._client.invoke_method(QUEUE_TYPE, queue, "Delete", dump({"force": force})))
        )
        self._partitions.forget(queue)
        if self._usages is not None:
            self._usages.forget(queue)
        return answer
