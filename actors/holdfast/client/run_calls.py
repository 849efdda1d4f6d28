"""The orchestration calls of the REST interface, one method each: what is sent, and whether it may be sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client.connection import Repeat
from holdfast.errors import Conflict, NotFound
from holdfast.identity import check_id
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.client.connection import Connection

Answer = dict[str, Any]

#: What one wait may take at the server.
LONGEST_WAIT = 300.0


class RunCalls:
    """Of one instance. Answers are the JSON objects of the REST interface."""

    def __init__(self, connection: Connection, instance_id: str) -> None:
        self.instance_id = check_id(instance_id, "instance id")
        self._connection = connection
        self._path = f"orchestrations/{instance_id}"

    async def start(self, name: str, input_text: bytes, version: str | None) -> Answer:
        # The second time the instance is there, and nothing is run again.
        head = dump({"instance_id": self.instance_id, "version": version})
        body = b'%b,"input":%b}' % (head[:-1], input_text)
        path = f"orchestrations/{check_id(name, 'name')}/start"
        return await self._connection.call("POST", path, body=body, repeat=Repeat.ALWAYS)

    async def status(self) -> Answer:
        return await self._get("")

    async def wait(self, seconds: float) -> Answer:
        """The status when it has ended, or when time is up."""
        return await self._connection.call(
            "GET",
            f"{self._path}/wait",
            wait_seconds=min(seconds, LONGEST_WAIT),
            wait_as="timeout_seconds",
            repeat=Repeat.ALWAYS,
        )

    async def history(
        self, limit: int, cursor: str | None, execution_id: int | None = None, *, recorded: bool = False
    ) -> Answer:
        """One page; as it is kept, for a replay, or as people read it."""
        return await self._get(
            "/history",
            {
                "limit": limit,
                "cursor": cursor,
                "execution_id": execution_id,
                "recorded": "true" if recorded else None,
            },
        )

    async def raise_event(self, name: str, data: bytes, event_id: str) -> Answer:
        # An id that was seen before counts once.
        path = f"{self._path}/events/{check_id(name, 'event name')}"
        return await self._connection.call("POST", path, params={"event_id": event_id}, body=data, repeat=Repeat.ALWAYS)

    async def cancel(self, reason: str | None) -> Answer:
        try:
            return await self._post("cancel", {"reason": reason})
        except Conflict as error:
            # Ended after an attempt whose outcome nobody heard: that attempt may be why.
            if error.__cause__ is None:
                raise
            return {"success": True}

    async def suspend(self, reason: str | None) -> Answer:
        return await self._post("suspend", {"reason": reason})

    async def resume(self) -> Answer:
        return await self._post("resume", {})

    async def delete(self, *, force: bool) -> Answer:
        params = {"force": "true"} if force else None
        try:
            return await self._connection.call("DELETE", self._path, params=params, repeat=Repeat.ALWAYS)
        except NotFound as error:
            if error.__cause__ is None:
                raise
            return {"success": True}

    # For workers.

    async def outcome(self, body: bytes) -> Answer:
        return await self._connection.call("POST", f"{self._path}/outcome", body=body, repeat=Repeat.ALWAYS)

    async def awaited(self, body: bytes) -> Answer:
        return await self._connection.call("POST", f"{self._path}/awaited", body=body, repeat=Repeat.ALWAYS)

    async def _get(self, below: str, params: Mapping[str, str | int | None] | None = None) -> Answer:
        return await self._connection.call("GET", self._path + below, params=_given(params), repeat=Repeat.ALWAYS)

    async def _post(self, call: str, body: Answer) -> Answer:
        sent = dump({key: value for key, value in body.items() if value is not None})
        return await self._connection.call("POST", f"{self._path}/{call}", body=sent, repeat=Repeat.ALWAYS)


async def list_runs(
    connection: Connection, limit: int, cursor: str | None, status: str | None, name: str | None
) -> Answer:
    """One page."""
    params = _given({"limit": limit, "cursor": cursor, "status": status, "name": name})
    return await connection.call("GET", "orchestrations", params=params, repeat=Repeat.ALWAYS)


def _given(params: Mapping[str, str | int | None] | None) -> dict[str, str | int]:
    return {key: value for key, value in (params or {}).items() if value is not None}
