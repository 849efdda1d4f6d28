"""The orchestration calls of the REST interface: the request of each, and whether it may be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client.api.connection import Repeat
from holdfast.client.api.encoding import path_segment
from holdfast.errors import Conflict, NotFound
from holdfast.names import check_id
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.client.api.connection import Connection

Answer = dict[str, Any]

#: The longest wait the server accepts, in seconds.
LONGEST_WAIT = 300.0


class RunCalls:
    """The REST calls for one instance. They return the JSON objects of the responses."""

    def __init__(self, connection: Connection, instance_id: str) -> None:
        self.instance_id = check_id(instance_id, "instance id")
        self._connection = connection
        self._path = f"orchestrations/{instance_id}"

    def of(self, instance_id: str) -> RunCalls:
        """Returns the calls for another instance."""
        return RunCalls(self._connection, instance_id)

    async def start(
        self, name: str, input_text: bytes, version: str | None, options: Mapping[str, Any] | None = None
    ) -> Answer:
        # Safe to repeat: an instance that exists is not started again.
        head = dump({"instance_id": self.instance_id, "version": version, **(options or {})})
        body = b'%b,"input":%b}' % (head[:-1], input_text)
        path = f"orchestrations/{check_id(name, 'name')}/start"
        return await self._connection.call("POST", path, body=body, repeat=Repeat.ALWAYS)

    async def status(self) -> Answer:
        return await self._get("")

    async def wait(self, seconds: float) -> Answer:
        """Returns the status when the instance has ended, or after ``seconds``."""
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
        """Returns one page; ``recorded`` asks for the stored form, which a replay needs."""
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
        # Safe to repeat: the instance ignores an event id it has seen.
        path = f"{self._path}/events/{check_id(name, 'event name')}"
        return await self._connection.call("POST", path, params={"event_id": event_id}, body=data, repeat=Repeat.ALWAYS)

    async def request(self, name: str, data: bytes, request_id: str, seconds: float) -> Answer:
        """Returns the reply, or only the ``request_id`` when there is none after ``seconds``."""
        # Safe to repeat: the instance gives the first reply again.
        return await self._connection.call(
            "POST",
            f"{self._path}/requests/{check_id(name, 'request name')}",
            params={"request_id": request_id},
            body=data,
            wait_seconds=min(seconds, LONGEST_WAIT),
            wait_as="timeout_seconds",
            repeat=Repeat.ALWAYS,
        )

    async def reply(self, request_id: str, seconds: float) -> Answer:
        """Returns the reply to an earlier request as :meth:`request` does."""
        return await self._connection.call(
            "GET",
            f"{self._path}/requests/{path_segment(request_id, 'request id')}",
            wait_seconds=min(seconds, LONGEST_WAIT),
            wait_as="timeout_seconds",
            repeat=Repeat.ALWAYS,
        )

    async def cancel(self, reason: str | None) -> Answer:
        try:
            return await self._post("cancel", {"reason": reason})
        except Conflict as error:
            # An earlier attempt, whose response was lost, may have ended the instance.
            if error.__cause__ is None:
                raise
            return {"success": True}

    async def suspend(self, reason: str | None) -> Answer:
        return await self._post("suspend", {"reason": reason})

    async def resume(self) -> Answer:
        return await self._post("resume", {})

    async def rerun(self, instance_id: str, fields: Mapping[str, Any]) -> Answer:
        # Safe to repeat: the same cut of the same instance is not rerun again under an id.
        given = {name: value for name, value in fields.items() if value is not None}
        return await self._post("rerun", {"instance_id": check_id(instance_id, "instance id"), **given})

    async def delete(self, *, force: bool) -> Answer:
        params = {"force": "true"} if force else None
        try:
            return await self._connection.call("DELETE", self._path, params=params, repeat=Repeat.ALWAYS)
        except NotFound as error:
            if error.__cause__ is None:
                raise
            return {"success": True}

    # Calls made by workers.

    async def outcome(self, body: bytes) -> Answer:
        return await self._connection.call("POST", f"{self._path}/outcome", body=body, repeat=Repeat.ALWAYS)

    async def is_awaited(self, body: bytes) -> Answer:
        return await self._connection.call("POST", f"{self._path}/awaited", body=body, repeat=Repeat.ALWAYS)

    async def heartbeat(self, body: bytes) -> Answer:
        return await self._connection.call("POST", f"{self._path}/heartbeat", body=body, repeat=Repeat.ALWAYS)

    async def _get(self, below: str, params: Mapping[str, str | int | None] | None = None) -> Answer:
        return await self._connection.call("GET", self._path + below, params=_given(params), repeat=Repeat.ALWAYS)

    async def _post(self, call: str, body: Answer) -> Answer:
        sent = dump({key: value for key, value in body.items() if value is not None})
        return await self._connection.call("POST", f"{self._path}/{call}", body=sent, repeat=Repeat.ALWAYS)


def _given(params: Mapping[str, str | int | None] | None) -> dict[str, str | int]:
    return {key: value for key, value in (params or {}).items() if value is not None}
