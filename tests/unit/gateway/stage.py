"""Gateways over one host with real queues, on a clock that jumps; their calls are recorded, held or refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import StorageBroken, Unavailable
from holdfast.gateway.queues.config import Configuration
from holdfast.gateway.queues.dead_letters import DeadLetters
from holdfast.gateway.queues.partitions import Partitions
from holdfast.gateway.queues.push_routing import Pushes
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.core.items import partition_of
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.serialization import dump, load
from holdfast.wire.errors import raise_for_refusal
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from dapr.actor import Actor

    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.simulated import SimulatedHost

QUEUE = "orders"


class RecordingClient:
    """A host client that records calls, and can hold, refuse or damage those to some actors."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        #: One entry a call that left the process: the actor, and what it was asked together.
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        #: Actors that cannot be reached.
        self.away: set[str] = set()
        #: Actors whose state cannot be read.
        self.damaged: set[str] = set()
        #: Actors that do not answer until this is set.
        self.held: dict[str, asyncio.Event] = {}

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes = b"") -> bytes:
        asked = tuple(call["method"] for call in load(data)["calls"]) if method == "Batch" else (method,)
        self.calls.append((actor_id, asked))
        if actor_id in self.away:
            raise Unavailable
        if actor_id in self.damaged:
            raise StorageBroken
        if actor_id in self.held:
            await self.held[actor_id].wait()
        return await self._client.invoke_method(actor_type, actor_id, method, data)


class Gateway:
    """The parts of one process that know of partitions."""

    def __init__(self, host: SimulatedHost) -> None:
        self.client = RecordingClient(host.client)
        self.partitions = Partitions(cast("HostClient", self.client))
        self.pushes = Pushes(self.partitions)
        self.dead_letters = DeadLetters(self.partitions)
        self.configuration = Configuration(self.partitions)

    async def configure(self, **changes: Any) -> dict[str, Any]:
        return await self.configuration.change(QUEUE, dump(changes), changes)

    async def push(self, *items: Any, **fields: Any) -> dict[str, Any]:
        """Pushes the items in one request."""
        entries = [{"item": item, **fields} for item in items]
        return await self.push_entries(entries)

    async def push_entries(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        data: dict[str, Any] = entries[0] if len(entries) == 1 else {"items": entries}
        return await self.pushes.push(QUEUE, dump(data), data)

    async def pop(self, count: int = 1) -> dict[str, Any]:
        return await self.partitions.pop(QUEUE, "Pop", dump({"count": count}))

    async def lock(self, count: int = 1, ttl_seconds: int = 30) -> dict[str, Any]:
        data = {"count": count, "ttl_seconds": ttl_seconds}
        return await self.partitions.pop(QUEUE, "PopWithAck", dump(data))

    async def stored(self, queue: str = QUEUE) -> list[int]:
        """How many items each partition has, locked ones included."""
        return [raise_for_refusal(one)["load"] for one in await self.partitions.call_all(queue, "Stats")]


class Stage(ActorStage):
    """Queues, and any number of gateways that call them."""

    def __init__(self) -> None:
        super().__init__()
        self._gateways: list[Gateway] = []

    def actors(self) -> Iterable[type[Actor]]:
        return (PushPopActor, QueueIndexActor, NotifierActor)

    def gateway(self) -> Gateway:
        """Adds a gateway, as in another process."""
        made = Gateway(self.host)
        self._gateways.append(made)
        return made

    async def stop(self) -> None:
        for gateway in self._gateways:
            await gateway.partitions.close()
        await super().stop()


on_stage = on_simulated_host(Stage)


def by_partition(ids: Iterable[str]) -> Counter[int | None]:
    return Counter(map(partition_of, ids))
