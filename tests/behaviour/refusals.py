"""Requests that must be refused and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

#: Calls by what follows the queue in their path.
REQUEUE, EXTEND = "in-flight/kX3vQ1/requeue", "in-flight/kX3vQ1/extend"


class RefusalCheck:
    """Collects requests that are not refused as they should be; at its end, nothing new may be stored."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._failures: list[str] = []
        self._keys: set[str] = set()

    async def __aenter__(self) -> RefusalCheck:
        self._keys = await self._server.stack.stored_keys()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            return
        assert self._failures == [], self._failures
        (await self._server.request("GET", "/healthz")).ok()
        new = await self._server.stack.stored_keys() - self._keys
        # A queue of another test may still work: an unacknowledged lock expires, the queue is listed.
        # So may the server, if it has just been started: it sets up the queues of its workers.
        others = {_actor(key) for key in self._keys}
        strange = {_actor(key) for key in new if "||QueueIndexActor||" not in key} - others
        assert [actor for actor in strange if not await self._is_of_workers(actor)] == [], strange

    async def _is_of_workers(self, actor: str) -> bool:
        _, actor_type, actor_id = actor.split("||")
        config = (await self._server.stack.stored(actor_type, actor_id)).get("config", {})
        return bool(config.get("worker_queue"))

    def refused(self, answer: Answer, what: object, status: int = 400, error_code: str = "INVALID_REQUEST") -> None:
        try:
            answer.refused(status, error_code)
        except (AssertionError, ValueError, KeyError) as error:
            self._failures.append(f"{str(what)[:200]}: {str(error).splitlines()[0]}")


def _actor(key: str) -> str:
    return key.rpartition("||")[0]
