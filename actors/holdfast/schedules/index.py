"""The index of a tenant's schedules: Dapr cannot list actors."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from itertools import count
from typing import Any

from dapr.actor import ActorInterface

from holdfast.errors import InvalidRequest
from holdfast.names import qualify
from holdfast.runtime.unit_of_work import InternalActor
from holdfast.schedules.api.requests import ListRequest, check_schedule_name

# The number of names in one state value; a new name rewrites one of these, or two when it is split.
_PAGE = 200


def index_of(tenant: str) -> str:
    """Returns the id of the actor that has the names of a tenant's schedules."""
    return qualify(tenant, "schedules")


class ScheduleIndexInterface(ActorInterface):
    @abstractmethod
    async def Add(self, name: str) -> None: ...

    @abstractmethod
    async def Remove(self, name: str) -> None: ...

    @abstractmethod
    async def List(self, data: dict[str, Any]) -> list[str]:
        """``{after, limit}``: names in order."""


class ScheduleIndexActor(InternalActor, ScheduleIndexInterface):
    """The names of a tenant's schedules, in order, in pages. ``directory`` has the first name and number of each."""

    exact_numbers = False

    async def Add(self, name: Any) -> None:
        name = _name(name)
        async with self.work.turn() as turn:
            directory = await turn.load("directory") or []
            if not directory:
                turn.put("directory", [["", 0]])
                turn.put("page-0", [name])
                return
            place = bisect_right(directory, [name, float("inf")]) - 1
            number = directory[place][1]
            page = list(await turn.load(f"page-{number}") or [])
            at = bisect_left(page, name)
            if page[at : at + 1] == [name]:
                return
            page.insert(at, name)
            if len(page) > _PAGE:
                half = len(page) // 2
                used = {known for _, known in directory}
                free = next(new for new in count() if new not in used)
                turn.put("directory", [*directory[: place + 1], [page[half], free], *directory[place + 1 :]])
                turn.put(f"page-{free}", page[half:])
                page = page[:half]
            turn.put(f"page-{number}", page)

    async def Remove(self, name: Any) -> None:
        name = _name(name)
        async with self.work.turn() as turn:
            directory = await turn.load("directory") or []
            if not directory:
                return
            place = bisect_right(directory, [name, float("inf")]) - 1
            number = directory[place][1]
            page = list(await turn.load(f"page-{number}") or [])
            if name not in page:
                return
            page.remove(name)
            if page or place == 0:
                turn.put(f"page-{number}", page)
            else:
                turn.delete(f"page-{number}")
                turn.put("directory", [*directory[:place], *directory[place + 1 :]])

    async def List(self, data: Any) -> list[str]:
        request = ListRequest.parse(data)
        found: list[str] = []
        async with self.work.turn() as turn:
            directory = await turn.load("directory") or []
            for place in range(max(0, bisect_right(directory, [request.after, float("inf")]) - 1), len(directory)):
                page = await turn.load(f"page-{directory[place][1]}") or []
                found += page[bisect_right(page, request.after) :]
                if len(found) >= request.limit:
                    break
        return found[: request.limit]


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidRequest("This is not the name of a schedule.")
    return check_schedule_name(given)
