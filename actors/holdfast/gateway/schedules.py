"""The REST endpoints of schedules."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import NotFound
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.openapi import schedules as documents
from holdfast.gateway.query_params import INTEGER
from holdfast.gateway.quotas.creations import Creations
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.gateway.routing import Accepted, Endpoint
from holdfast.kinds import SCHEDULE_INDEX_TYPE, SCHEDULE_TYPE
from holdfast.names import qualify
from holdfast.runtime.serialization import dump, load
from holdfast.schedules.api.requests import MAX_NAME, check_schedule_name
from holdfast.schedules.index import index_of
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]

# A page ends before this size, but has at least one schedule.
_PAGE_BYTES = 3 * 1024 * 1024
# The names that are read at once to count a tenant's schedules.
_COUNTED_AT_ONCE = 1000


class ListQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=100), INTEGER] = 50
    cursor: Annotated[str, Field(max_length=MAX_NAME, description="next_cursor of the previous page.")] = ""


class Schedules:
    """The handlers of the schedule endpoints."""

    def __init__(self, client: HostClient, quotas: Quotas = NO_QUOTAS) -> None:
        self._client = client
        self._creations = Creations("schedules", lambda tenant: quotas.of(tenant).max_schedules, self._count)

    def endpoints(self) -> Sequence[Endpoint]:
        one = "/schedules/{name}"
        return [
            Endpoint("GET", "/schedules", self.list, documents.listed(ListQuery), Role.READER, bulky=True),
            Endpoint("PUT", one, self.put, documents.PUT, Role.OPERATOR),
            Endpoint("GET", one, self._sending("Get"), documents.GET, Role.READER),
            Endpoint("DELETE", one, self.delete, documents.DELETE, Role.OPERATOR),
            Endpoint("POST", f"{one}/pause", self._accepting("Pause"), documents.PAUSE, Role.OPERATOR),
            Endpoint("POST", f"{one}/resume", self._accepting("Resume"), documents.RESUME, Role.OPERATOR),
            Endpoint("POST", f"{one}/trigger", self._accepting("Trigger"), documents.TRIGGER, Role.OPERATOR),
            Endpoint(
                "POST", f"{one}/backfill", self._accepting("Backfill", body=True), documents.BACKFILL, Role.OPERATOR
            ),
        ]

    async def list(self, call: HttpRequest) -> Answer:
        query, tenant = call.query(ListQuery), call.caller.tenant
        asked = dump({"after": query.cursor, "limit": query.limit + 1})
        names = load(await self._client.invoke_method(SCHEDULE_INDEX_TYPE, index_of(tenant), "List", asked))
        found: list[Answer] = []
        size = read = 0
        # One after the other: each shows its input, and asks for the statuses of its last instances.
        for name in names[: query.limit]:
            answer = await self._client.invoke_method(SCHEDULE_TYPE, qualify(tenant, name), "Get")
            size += len(answer)
            if found and size > _PAGE_BYTES:
                break
            with suppress(NotFound):
                # It has just been deleted.
                found.append(_checked(answer))
            read += 1
            await call.pause()
        shown: Answer = {"schedules": found}
        return shown | {"next_cursor": names[read - 1]} if len(names) > read else shown

    async def put(self, call: HttpRequest) -> Answer:
        tenant, name = call.caller.tenant, check_schedule_name(call.parameters[0])

        async def exists() -> bool:
            with suppress(NotFound):
                await self._ask(qualify(tenant, name), "Get", None)
                return True
            return False

        async with self._creations.creating(tenant, name, exists):
            return await self._sending("Put", body=True)(call)

    async def delete(self, call: HttpRequest) -> Answer:
        answer = await self._accepting("Delete")(call)
        self._creations.deleted(call.caller.tenant, call.parameters[0])
        return answer

    async def _count(self, tenant: str, names: Collection[str]) -> tuple[int, set[str]]:
        """Returns the number of a tenant's schedules, and those of ``names`` that are listed."""
        number, after, listed = 0, "", set()
        while True:
            asked = dump({"after": after, "limit": _COUNTED_AT_ONCE})
            page = load(await self._client.invoke_method(SCHEDULE_INDEX_TYPE, index_of(tenant), "List", asked))
            number += len(page)
            listed.update(page)
            if len(page) < _COUNTED_AT_ONCE:
                return number, listed.intersection(names)
            after = page[-1]

    def _sending(self, method: str, *, body: bool = False) -> Callable[[HttpRequest], Awaitable[Answer]]:
        async def send(call: HttpRequest) -> Answer:
            address = qualify(call.caller.tenant, check_schedule_name(call.parameters[0]))
            data = (await call.json_object())[1] if body else None
            return await self._ask(address, method, data)

        return send

    def _accepting(self, method: str, *, body: bool = False) -> Callable[[HttpRequest], Awaitable[Answer]]:
        send = self._sending(method, body=body)

        async def accept(call: HttpRequest) -> Answer:
            return Accepted(await send(call))

        return accept

    async def _ask(self, address: str, method: str, data: Any) -> Answer:
        body = b"" if data is None else dump(data)
        return _checked(await self._client.invoke_method(SCHEDULE_TYPE, address, method, body))


def _checked(answer: bytes) -> Answer:
    """Returns the answer of a schedule. Raises its refusal."""
    return raise_for_refusal(load(answer))
