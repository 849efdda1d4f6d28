"""The schedule calls of the REST interface: the request of each, and whether it may be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client.api.connection import Repeat
from holdfast.names import check_id
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.client.api.connection import Connection

Answer = dict[str, Any]


class ScheduleCalls:
    """The REST calls for one schedule. They return the JSON objects of the responses."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.name = check_id(name, "schedule name")
        self._connection = connection
        self._path = f"schedules/{name}"

    async def put(self, definition: Mapping[str, Any], input_text: bytes) -> Answer:
        """Makes or replaces the schedule; ``definition`` has everything but the input, which is JSON text."""
        body = b'%b,"input":%b}' % (dump(definition)[:-1], input_text)
        return await self._connection.call("PUT", self._path, body=body, repeat=Repeat.ALWAYS)

    async def get(self) -> Answer:
        return await self._connection.call("GET", self._path, repeat=Repeat.ALWAYS)

    async def pause(self) -> Answer:
        return await self._post("pause", Repeat.ALWAYS)

    async def resume(self) -> Answer:
        return await self._post("resume", Repeat.ALWAYS)

    async def trigger(self) -> Answer:
        # Each one starts an instance.
        return await self._post("trigger", Repeat.UNLESS_SENT)

    async def backfill(self, since: str, until: str) -> Answer:
        # Safe to repeat: the instance of a tick is started once.
        return await self._post("backfill", Repeat.ALWAYS, dump({"from": since, "to": until}))

    async def delete(self) -> Answer:
        return await self._connection.call("DELETE", self._path, repeat=Repeat.UNLESS_SENT)

    async def _post(self, what: str, repeat: Repeat, body: bytes = b"") -> Answer:
        return await self._connection.call("POST", f"{self._path}/{what}", body=body, repeat=repeat)


async def list_schedules(connection: Connection, limit: int, cursor: str | None) -> Answer:
    params: dict[str, str | int | float] = {"limit": limit}
    if cursor is not None:
        params["cursor"] = cursor
    return await connection.call("GET", "schedules", params=params, repeat=Repeat.ALWAYS)
