"""The index of instances, sharded and off the hot path: Dapr cannot list actors.

A shard keeps its instances in ordered lists in bounded pages. An update changes a few pages, whatever the number of
instances, and a search reads a bounded number of them.
"""

from __future__ import annotations

import asyncio
import zlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any

from dapr.actor import ActorInterface
from pydantic import Field

from holdfast.names import DEFAULT_TENANT, check_id, qualify
from holdfast.orchestration.index.entries import Entry
from holdfast.orchestration.index.search import MOST_FOUND, Criteria, Order, Search
from holdfast.orchestration.index.shard import HEAD, ROOT_KEY, Shard
from holdfast.orchestration.index.tree import is_above_leaves
from holdfast.pushpop.api.requests import Request
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from holdfast.runtime.unit_of_work import Turn

# Few: a search asks all of them. One shard takes thousands of updates a second, as they come together.
SHARDS = 2
# Instances in one update.
MOST_NOTES = 200
# Pages in one transaction, beyond those of one instance.
_PAGES_AT_ONCE = 200
# Pages above the leaves that stay in memory, of up to 100,000 instances in a shard. Each takes about 30 kB.
_PAGES_IN_MEMORY = 128
# Instances after which other work of this process may run.
_NOTES_AT_ONCE = 20


def shard_of(instance_id: str, tenant: str = DEFAULT_TENANT) -> str:
    return qualify(tenant, str(zlib.crc32(instance_id.encode()) % SHARDS))


def shards_of(tenant: str) -> list[str]:
    """Returns the shards of a tenant. Each tenant has its own, so that a list reads no entries of others."""
    return [qualify(tenant, str(shard)) for shard in range(SHARDS)]


class InstanceIndexInterface(ActorInterface):
    @abstractmethod
    async def Update(self, data: dict[str, Any]) -> None:
        """``{notes: [{instance_id, entry, rank}]}``: without an entry the instance is removed."""

    @abstractmethod
    async def Find(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{criteria, order, limit, position}``: returns ``entries``, and the ``position`` from which to go on."""

    @abstractmethod
    async def Counts(self) -> dict[str, dict[str, int]]:
        """Returns the number of instances by name and status."""

    @abstractmethod
    async def Count(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{ids}``: returns the ``count`` of all instances, and which of these ids it has ``listed``."""


class NotedEntry(Request):
    name: str
    version: str
    status: str
    created_at: float
    ended_at: float | None = None
    tags: Annotated[dict[str, str], Field(default_factory=dict)]


class NoteRequest(Request):
    instance_id: str
    entry: NotedEntry | None = None
    #: Grows with every change, so that a late update does not overwrite a newer one.
    rank: Annotated[list[float], Field(fail_fast=True, default_factory=list)]

    def noted(self) -> Entry | None:
        noted = self.entry
        if noted is None:
            return None
        texts = (self.instance_id, noted.name, noted.version, noted.status)
        return Entry(noted.created_at, *texts, noted.ended_at, noted.tags)


class NotesRequest(Request):
    notes: Annotated[list[NoteRequest], Field(fail_fast=True, max_length=MOST_NOTES)]


class FindRequest(Request):
    criteria: Annotated[Criteria, Field(default_factory=Criteria)]
    order: Order = "newest"
    limit: Annotated[int, Field(ge=1, le=MOST_FOUND)] = 100
    # The model is strict, and JSON has no tuples.
    position: Annotated[tuple[float, str] | None, Field(strict=False)] = None


class CountRequest(Request):
    ids: Annotated[list[str], Field(fail_fast=True, max_length=MOST_NOTES)]


class InstanceIndexActor(InternalActor, InstanceIndexInterface):
    """One shard of a tenant's instances."""

    exact_numbers = False

    async def Update(self, data: dict[str, Any]) -> None:
        notes = NotesRequest.parse(data).notes
        for note in notes:
            check_id(note.instance_id, "instance id")
        async with self.work.turn() as turn:
            shard = Shard(await turn.load(HEAD))
            noted = [(note.instance_id, note.noted(), note.rank) for note in notes]
            await turn.drive(shard.fetch({instance_id: entry for instance_id, entry, _ in noted}))
            for number, (instance_id, entry, rank) in enumerate(noted, 1):
                await turn.drive(shard.update(instance_id, entry, rank))
                if shard.tree.pages_changed > _PAGES_AT_ONCE:
                    await _save(turn, shard)
                elif number % _NOTES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            await _save(turn, shard)
            _evict(turn)

    async def Find(self, data: dict[str, Any]) -> dict[str, Any]:
        request = FindRequest.parse(data)
        search = Search(request.criteria, request.order == "newest", request.limit, request.position)
        async with self.work.turn() as turn:
            shard = Shard(await turn.load(HEAD))
            found = await turn.drive(search.run(shard.tree))
            _evict(turn)
            return {"entries": [list(entry) for entry in found.entries], "position": found.position}

    async def Counts(self) -> dict[str, dict[str, int]]:
        async with self.work.turn() as turn:
            return Shard(await turn.load(HEAD)).counts

    async def Count(self, data: dict[str, Any]) -> dict[str, Any]:
        ids = CountRequest.parse(data).ids
        async with self.work.turn() as turn:
            shard = Shard(await turn.load(HEAD))
            listed = await turn.drive(shard.listed(ids))
            _evict(turn)
            return {"count": shard.count, "listed": listed}


async def _save(turn: Turn, shard: Shard) -> None:
    for key, value in shard.changes().items():
        turn.put(key, value)
    await turn.save()


def _evict(turn: Turn) -> None:
    """Removes the leaves from memory, so that it does not grow with the number of instances."""
    pages = [key for key in turn.known() if key not in (HEAD, ROOT_KEY)]
    leaves = [key for key in pages if not is_above_leaves(turn.known_value(key))]
    turn.evict(*(leaves if len(pages) - len(leaves) <= _PAGES_IN_MEMORY else pages))
