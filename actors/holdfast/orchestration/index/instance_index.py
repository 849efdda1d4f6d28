"""The index of instances. Dapr cannot list actors, so instances are indexed, sharded and off the hot path.

Each shard keeps its instances ordered by id, in pages under a directory of pages. An update writes one page, and
sometimes the directory, whatever the number of instances; a list reads the pages it shows and those it filters out.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dapr.actor import ActorInterface
from pydantic import Field

from holdfast.names import DEFAULT_TENANT, check_id, qualify
from holdfast.orchestration.status import ENDED
from holdfast.pushpop.api.requests import Request
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from holdfast.runtime.unit_of_work import Turn

SHARDS = 16
# Entries in one page; a full page is split in two.
PAGE = 50
# Pages that are read for one reply.
PAGES_AT_ONCE = 20
# Instances in one update.
MOST_NOTES = 200

Entry = list[Any]


def shard_of(instance_id: str, tenant: str = DEFAULT_TENANT) -> str:
    return qualify(tenant, str(zlib.crc32(instance_id.encode()) % SHARDS))


def shards_of(tenant: str) -> list[str]:
    """Returns the shards of a tenant. Each tenant has its own, so that a list reads no entries of others."""
    return [qualify(tenant, str(shard)) for shard in range(SHARDS)]


class InstanceIndexInterface(ActorInterface):
    @abstractmethod
    async def Update(self, data: dict[str, Any]) -> None:
        """``{notes: [{instance_id, entry: {name, status, created_at, rank, tags}}]}``

        A note without an entry removes the instance.
        """

    @abstractmethod
    async def List(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{after, limit, status, name, ended}``: returns instances after an id, and the last id that was read."""


class NotedEntry(Request):
    name: str
    status: str
    created_at: float
    tags: Annotated[dict[str, str], Field(default_factory=dict)]
    #: Grows with every change, so that a late update does not overwrite a newer one.
    rank: Annotated[list[float], Field(fail_fast=True, default_factory=list)]


class NoteRequest(Request):
    instance_id: str
    entry: NotedEntry | None = None


class NotesRequest(Request):
    notes: Annotated[list[NoteRequest], Field(fail_fast=True, max_length=MOST_NOTES)]


class ListRequest(Request):
    after: str = ""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    status: str | None = None
    name: str | None = None
    #: False selects instances that have not ended.
    ended: Literal[False] | None = None

    def shows(self, name: str, status: str) -> bool:
        if self.ended is False and status in ENDED:
            return False
        return self.status in (None, status) and self.name in (None, name)


class InstanceIndexActor(InternalActor, InstanceIndexInterface):
    """One shard of a tenant's instances. The directory holds the first id and the number of each page."""

    exact_numbers = False

    async def Update(self, data: dict[str, Any]) -> None:
        notes = NotesRequest.parse(data).notes
        for note in notes:
            check_id(note.instance_id, "instance id")
        async with self.work.turn() as turn:
            for note in notes:
                await self._note(turn, note)
            await turn.save()
            # Pages are not kept in memory, so that memory does not grow with the number of instances.
            turn.evict(*(key for key in turn.known() if key.startswith("page-")))

    async def _note(self, turn: Turn, note: NoteRequest) -> None:
        directory, fresh = await self._directory(turn)
        if not directory:
            if note.entry is None:
                return
            directory.append(["", fresh])
            fresh += 1
            turn.put("directory", {"pages": directory, "next": fresh})
        place = max(0, bisect_right([first for first, _ in directory], note.instance_id) - 1)
        number = directory[place][1]
        entries: list[Entry] = await turn.load(_key(number)) or []
        page = [entry for entry in entries if entry[0] != note.instance_id]
        if note.entry is not None:
            known = next((entry for entry in entries if entry[0] == note.instance_id), None)
            if known is not None and known[4] > note.entry.rank:
                return
            entry = note.entry
            insort(page, [note.instance_id, entry.name, entry.status, entry.created_at, entry.rank])
        if len(page) > PAGE:
            directory.insert(place + 1, [page[PAGE // 2][0], fresh])
            turn.put(_key(fresh), page[PAGE // 2 :])
            turn.put("directory", {"pages": directory, "next": fresh + 1})
            page = page[: PAGE // 2]
        if page or place == 0:
            turn.put(_key(number), page)
        else:
            del directory[place]
            turn.delete(_key(number))
            turn.put("directory", {"pages": directory, "next": fresh})

    async def List(self, data: dict[str, Any]) -> dict[str, Any]:
        wanted = ListRequest.parse(data)
        async with self.work.turn() as turn:
            directory, _ = await self._directory(turn)
            first = max(0, bisect_right([first for first, _ in directory], wanted.after) - 1)
            found: list[Entry] = []
            for seen, (_, number) in enumerate(directory[first:], 1):
                page: list[Entry] = await turn.load(_key(number)) or []
                turn.evict(_key(number))
                start = bisect_left(page, [wanted.after + "\0"])
                for entry in page[start:]:
                    if wanted.shows(entry[1], entry[2]):
                        found.append(entry)
                        if len(found) == wanted.limit:
                            return {"instances": found, "upto": entry[0]}
                if seen == PAGES_AT_ONCE and first + seen < len(directory):
                    return {"instances": found, "upto": page[-1][0] if page else wanted.after}
            return {"instances": found, "upto": None}

    async def _directory(self, turn: Turn) -> tuple[list[list[Any]], int]:
        stored = await turn.load("directory") or {"pages": [], "next": 0}
        return stored["pages"], stored["next"]


def _key(number: int) -> str:
    return f"page-{number}"
