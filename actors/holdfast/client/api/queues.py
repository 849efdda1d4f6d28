"""The queue calls of the REST interface: the request of each, and whether it may be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.client.api.connection import Repeat
from holdfast.names import check_id
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.client.api.connection import Connection
    from holdfast.client.api.push_chunks import PushChunk

Answer = dict[str, Any]

LONGEST_TEXT = 1024


class QueueCalls:
    """The REST calls for one queue. They return the JSON objects of the responses."""

    def __init__(self, connection: Connection, queue: str) -> None:
        self.queue = check_id(queue, "queue id")
        self._connection = connection
        self._path = f"queue/{queue}"

    async def push(self, chunk: PushChunk) -> Answer:
        repeat = Repeat.ALWAYS if chunk.repeatable else Repeat.UNLESS_SENT
        return await self._post("push", chunk.body, repeat)

    async def pop(self, count: int, wait_seconds: float) -> Answer:
        return await self._pop({"count": count}, wait_seconds, Repeat.UNLESS_SENT)

    async def lock(self, count: int, ttl_seconds: int, wait_seconds: float, owner: str | None = None) -> Answer:
        # Safe to repeat: items locked by an attempt whose response was lost return when their lock expires.
        params: dict[str, str | int] = {"require_ack": "true", "count": count, "ttl_seconds": ttl_seconds}
        if owner is not None:
            params["owner"] = owner
        return await self._pop(params, wait_seconds, Repeat.ALWAYS)

    # Safe to repeat: the first success releases the lock, and later attempts find none.

    async def acknowledge(self, lock_id: str) -> Answer:
        return await self._post("acknowledge", dump({"lock_id": lock_id}), Repeat.ALWAYS)

    async def abandon(
        self,
        lock_id: str,
        error: str | None,
        delay_seconds: float | None = None,
        ids: Sequence[str] | None = None,
        *,
        counted: bool = True,
    ) -> Answer:
        body = _some(lock_id, ids) | _given_back(error, delay_seconds) | ({} if counted else {"uncounted": True})
        return await self._post("abandon", dump(body), Repeat.ALWAYS)

    async def abandon_owned(self, owner: str) -> Answer:
        """Abandons the items of a pop that gave this owner tag and whose response was not received."""
        return await self._post("abandon", dump({"owner": owner}), Repeat.ALWAYS)

    async def dead_letter(self, lock_id: str, reason: str | None, ids: Sequence[str] | None = None) -> Answer:
        body = _some(lock_id, ids) | {"reason": _shortened(reason)}
        return await self._post("dead-letter", dump(body), Repeat.ALWAYS)

    async def extend(self, lock_id: str, seconds: int) -> Answer:
        # Safe to repeat: at worst the lock lasts longer than needed.
        body = dump({"lock_id": lock_id, "additional_ttl_seconds": seconds})
        return await self._post("extend-lock", body, Repeat.ALWAYS)

    async def complete(self, ids: Sequence[str]) -> Answer:
        # Safe to repeat: ids that are completed already are ignored.
        return await self._post("complete", dump({"ids": ids}), Repeat.ALWAYS)

    # Calls on another consumer's lock, given the beginning of its id.

    async def requeue(self, lock_id_prefix: str, error: str | None, delay_seconds: float | None) -> Answer:
        return await self._operate(lock_id_prefix, "requeue", _given_back(error, delay_seconds))

    async def extend_in_flight(self, lock_id_prefix: str, seconds: int) -> Answer:
        return await self._operate(lock_id_prefix, "extend", {"additional_ttl_seconds": seconds})

    async def dead_letters(self, limit: int, cursor: str | None) -> Answer:
        """Returns one page of dead letters."""
        params: dict[str, str | int] = {"limit": limit}
        if cursor is not None:
            params["cursor"] = cursor
        return await self._get("/dead-letters", params)

    # With a maximum, a repeat would move or delete further letters. Without one it is safe: those of before are gone.
    # A repeated deletion must select the same letters, too: others may have come that the caller does not know of.

    async def redrive(self, selected: Mapping[str, Any]) -> Answer:
        repeat = Repeat.UNLESS_SENT if "max" in selected else Repeat.ALWAYS
        return await self._post("redrive", dump(selected), repeat)

    async def delete_dead_letters(self, selected: Mapping[str, Any]) -> Answer:
        are_the_same = "ids" in selected or "before" in selected.get("filter", {})
        repeat = Repeat.ALWAYS if are_the_same and "max" not in selected else Repeat.UNLESS_SENT
        return await self._post("dead-letters/delete", dump(selected), repeat)

    async def revoke(self, item_id: str) -> Answer:
        return await self._connection.call(
            "DELETE", f"{self._path}/items/{quote(item_id, safe='')}", repeat=Repeat.ALWAYS
        )

    async def stats(self) -> Answer:
        return await self._get("")

    async def peek(self, count: int) -> Answer:
        return await self._get("/peek", {"count": count})

    async def in_flight(self) -> Answer:
        return await self._get("/in-flight")

    async def config(self) -> Answer:
        return await self._get("/config")

    async def set_config(self, changes: Mapping[str, Any]) -> Answer:
        return await self._connection.call("PUT", f"{self._path}/config", body=dump(changes), repeat=Repeat.ALWAYS)

    async def work(self) -> Answer:
        return await self._post("work", b"", Repeat.ALWAYS)

    async def purge(self) -> Answer:
        # Not repeated: a second purge would remove items that were pushed in between.
        return await self._connection.call("DELETE", f"{self._path}/items", repeat=Repeat.UNLESS_SENT)

    async def delete(self, *, force: bool) -> Answer:
        # Not repeated with force: a second deletion would remove items that were pushed in between.
        repeat = Repeat.UNLESS_SENT if force else Repeat.ALWAYS
        params = {"force": "true"} if force else None
        return await self._connection.call("DELETE", self._path, params=params, repeat=repeat)

    async def _operate(self, lock_id_prefix: str, what: str, body: Answer) -> Answer:
        return await self._post(f"in-flight/{quote(lock_id_prefix, safe='')}/{what}", dump(body), Repeat.ALWAYS)

    async def _get(self, below: str, params: Mapping[str, str | int] | None = None) -> Answer:
        return await self._connection.call("GET", self._path + below, params=params, repeat=Repeat.ALWAYS)

    async def _post(self, call: str, body: bytes, repeat: Repeat) -> Answer:
        return await self._connection.call("POST", f"{self._path}/{call}", body=body, repeat=repeat)

    async def _pop(self, params: Mapping[str, str | int], wait_seconds: float, repeat: Repeat) -> Answer:
        wait_as = "wait_seconds" if wait_seconds else None
        return await self._connection.call(
            "POST", f"{self._path}/pop", params=params, wait_seconds=wait_seconds, wait_as=wait_as, repeat=repeat
        )


async def list_queues(connection: Connection, limit: int, cursor: str | None) -> Answer:
    """Returns one page of queues."""
    params: dict[str, str | int] = {"limit": limit}
    if cursor is not None:
        params["cursor"] = cursor
    return await connection.call("GET", "queues", params=params, repeat=Repeat.ALWAYS)


def letters_selected(
    ids: Iterable[str] | None = None,
    *,
    reason: str | None = None,
    error_contains: str | None = None,
    before: str | None = None,
) -> Answer:
    """Returns the part of a request that selects dead letters."""
    conditions = (("reason", reason), ("error_contains", error_contains), ("before", before))
    wanted = {key: value for key, value in conditions if value is not None}
    selected: Answer = {} if ids is None else {"ids": list(ids)}
    return selected | ({"filter": wanted} if wanted else {})


def _some(lock_id: str, ids: Sequence[str] | None) -> Answer:
    """Selects all items of the lock, or only ``ids``."""
    return {"lock_id": lock_id} if ids is None else {"lock_id": lock_id, "ids": ids}


def _given_back(error: str | None, delay_seconds: float | None) -> Answer:
    later = {} if delay_seconds is None else {"delay_seconds": delay_seconds}
    return {"error": _shortened(error), **later}


def _shortened(text: str | None) -> str | None:
    return text and text[:LONGEST_TEXT]
