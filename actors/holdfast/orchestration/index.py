"""Which instances there are: Dapr cannot list actors, so they are written down, sharded and off the hot path.

Each shard keeps its instances in order of their ids, in pages under a directory of pages. Noting one costs a page, and
at times the directory, whatever their number; a list reads the pages it shows, and those it passes over for a filter.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Annotated, Any

from dapr.actor import ActorInterface
from pydantic import Field

from holdfast.identity import DEFAULT_TENANT, check_id, qualify
from holdfast.pushpop.requests import Request
from holdfast.runtime.work import DurableActor

if TYPE_CHECKING:
    from holdfast.runtime.work import Turn

INSTANCE_INDEX_TYPE = "InstanceIndexActor"
SHARDS = 16
# Entries in one page; a full one becomes two.
PAGE = 50
# Pages that are looked through for one answer.
PAGES_AT_ONCE = 20
# Instances that one call tells of.
MOST_NOTES = 200

Entry = list[Any]


def shard_of(instance_id: str, tenant: str = DEFAULT_TENANT) -> str:
    return qualify(tenant, str(zlib.crc32(instance_id.encode()) % SHARDS))


def shards_of(tenant: str) -> list[str]:
    """Each tenant has its own, so that listing one costs nothing of the others."""
    return [qualify(tenant, str(shard)) for shard in range(SHARDS)]


class InstanceIndexInterface(ActorInterface):
    @abstractmethod
    async def Note(self, data: dict[str, Any]) -> None:
        """``{notes: [{instance_id, entry: {name, status, at, rank}}]}``; without an entry one is forgotten."""

    @abstractmethod
    async def List(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{after, limit, status, name}``: those after an id, in order, and up to where all were seen."""


class NotedEntry(Request):
    name: str
    status: str
    at: float
    #: Grows with every change: what is late does not undo what came after it.
    rank: Annotated[list[float], Field(default_factory=list)]


class NoteRequest(Request):
    instance_id: str
    entry: NotedEntry | None = None


class NotesRequest(Request):
    notes: Annotated[list[NoteRequest], Field(max_length=MOST_NOTES)]


class ListRequest(Request):
    after: str = ""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    status: str | None = None
    name: str | None = None


class InstanceIndexActor(DurableActor, InstanceIndexInterface):
    """A tenant's instances in one shard. The directory has, for each page, its first id and its number."""

    async def Note(self, data: dict[str, Any]) -> None:
        notes = NotesRequest.parse(data).notes
        for note in notes:
            check_id(note.instance_id, "instance id")
        async with self.work.turn() as turn:
            for note in notes:
                await self._note(turn, note)
            await turn.save()
            # Only what is asked for is in memory, however many instances there are.
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
            insort(page, [note.instance_id, entry.name, entry.status, entry.at, entry.rank])
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
                    if wanted.status in (None, entry[2]) and wanted.name in (None, entry[1]):
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
