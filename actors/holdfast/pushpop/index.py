"""The index of queues, sharded and off the hot path: Dapr cannot list actors."""

from __future__ import annotations

import asyncio
import zlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from dapr.actor import ActorInterface

from holdfast.errors import InvalidRequest
from holdfast.kinds import QUEUE_INDEX_TYPE
from holdfast.names import DEFAULT_TENANT, check_queue_id, qualify, split_tenant
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

SHARDS = 16
# The number of names in one state value; a new name rewrites one of these.
PAGE = 500


def shard_of(queue: str, tenant: str = DEFAULT_TENANT) -> str:
    return qualify(tenant, str(zlib.crc32(queue.encode()) % SHARDS))


def shards_of(tenant: str) -> list[str]:
    """Returns the shards of a tenant. Each tenant has its own, so listing one tenant does not read the others."""
    return [qualify(tenant, str(shard)) for shard in range(SHARDS)]


async def list_queues(client: HostClient, tenant: str) -> list[str]:
    """Returns the names of a tenant's queues, unordered."""
    shards = await asyncio.gather(*(list_shard(client, shard) for shard in shards_of(tenant)))
    return [name for shard in shards for name in shard]


async def list_shard(client: HostClient, shard: str) -> list[str]:
    """Returns the names in one shard, for callers that can do without an unavailable shard."""
    names: list[str] = load(await client.invoke_method(QUEUE_INDEX_TYPE, shard, "List"))
    return names


async def list_queue(client: HostClient, queue: str) -> None:
    """Adds a queue, qualified, to the index. Idempotent."""
    tenant, name = split_tenant(queue)
    await client.invoke_method(QUEUE_INDEX_TYPE, shard_of(name, tenant), "Add", dump(name))


def _checked(queue: Any) -> str:
    if not isinstance(queue, str):
        raise InvalidRequest("This is not the name of a queue.")
    return check_queue_id(queue)


class QueueIndexInterface(ActorInterface):
    @abstractmethod
    async def Add(self, queue: str) -> None: ...

    @abstractmethod
    async def Remove(self, queue: str) -> None: ...

    @abstractmethod
    async def List(self) -> list[str]: ...


class QueueIndexActor(InternalActor, QueueIndexInterface):
    """The names of a tenant's queues in one shard. Adding a name writes one page, listing reads all pages."""

    exact_numbers = False

    async def Add(self, queue: Any) -> None:
        queue = _checked(queue)
        async with self.work.turn() as turn:
            pages = await self._pages(turn)
            if any(queue in page for page in pages):
                return
            if not pages or len(pages[-1]) >= PAGE:
                pages.append([])
            pages[-1].append(queue)
            turn.put(f"page-{len(pages) - 1}", pages[-1])
            turn.put("pages", len(pages))

    async def Remove(self, queue: Any) -> None:
        queue = _checked(queue)
        async with self.work.turn() as turn:
            pages = await self._pages(turn)
            for number, page in enumerate(pages):
                if queue not in page:
                    continue
                # The last name takes the place of the removed one, so that only the last page has room.
                last = pages[-1].pop()
                if last != queue:
                    page[page.index(queue)] = last
                    turn.put(f"page-{number}", page)
                turn.put(f"page-{len(pages) - 1}", pages[-1] or None)
                turn.put("pages", len(pages) if pages[-1] else len(pages) - 1)
                return

    async def List(self) -> list[str]:
        async with self.work.turn() as turn:
            return [queue for page in await self._pages(turn) for queue in page]

    async def _pages(self, turn: Any) -> list[list[str]]:
        count = await turn.load("pages") or 0
        return [page or [] for page in await turn.load_all(*(f"page-{number}" for number in range(count)))]
