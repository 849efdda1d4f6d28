"""Orchestrations as any HTTP client sees them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

ACTOR_TYPE = "OrchestrationActor"
STATUS_FIELDS = {
    *("instance_id", "name", "version", "status", "input", "output", "error", "custom_status", "tags", "priority"),
    *("execution_id", "events", "created_at", "updated_at", "ended_at", "waiting_for"),
}
_ENDINGS = {"OrchestrationCompleted", "OrchestrationFailed", "OrchestrationCancelled", "ContinuedAsNew"}
_SCHEDULED_AS = {
    "ActivityCompleted": "ActivityScheduled",
    "ActivityFailed": "ActivityScheduled",
    "TimerFired": "TimerCreated",
    "SubOrchestrationCompleted": "SubOrchestrationScheduled",
    "SubOrchestrationFailed": "SubOrchestrationScheduled",
    "EventRaised": "EventSubscribed",
}


class Run:
    """The calls of one instance, named after its test."""

    def __init__(self, server: Server, suffix: str = "") -> None:
        self.server = server
        self.id = server.name + (f"-{suffix}" if suffix else "")

    @property
    def child(self) -> Run:
        """The one that the orchestrations parent and starter start."""
        child = Run(self.server)
        child.id = f"{self.id}-child"
        return child

    async def start(self, name: str, input: Any = None, **fields: Any) -> Answer:  # noqa: A002
        return await start(self.server, name, input=input, instance_id=self.id, **fields)

    async def begin(self, name: str, input: Any = None) -> Run:  # noqa: A002
        """Started anew."""
        answer = await self.start(name, input)
        assert (answer.status, answer.body) == (202, {"instance_id": self.id, "created": True}), answer.text
        return self

    async def status(self) -> Any:
        return (await self.get("")).ok()

    async def is_found(self) -> bool:
        return (await self.get("")).status == 200

    async def waits_for(self, *types: str) -> None:
        """Until the last events of its history are of these types."""

        async def seen() -> bool:
            return [event["type"] for event in await self.history()][-len(types) :] == [*types]

        await eventually(seen)

    async def history(self, limit: int = 1000, **query: Any) -> list[Any]:
        """All of it, page by page, and well formed."""
        events: list[Any] = []
        query["limit"] = limit
        while True:
            page = (await self.get("/history", **query)).ok()
            assert len(page["events"]) <= limit
            events += page["events"]
            if "next_cursor" not in page:
                break
            query["cursor"] = page["next_cursor"]
        check_history(events)
        return events

    async def types(self) -> list[str]:
        return [event["type"] for event in await self.history()]

    async def ended(self, within: float = 60) -> Any:
        """Its status when it has ended, also when the server is not there for a while."""

        async def end() -> Any:
            answer = await self.get("/wait", timeout_seconds=min(within, 30))
            if answer.status >= 500:
                return None
            status = answer.ok()
            return status if status["ended_at"] is not None else None

        return await eventually(end, within=within)

    async def output(self, within: float = 60) -> Any:
        """Of one that completes."""
        status = await self.ended(within)
        assert status["status"] == "COMPLETED", status
        return status["output"]

    async def error(self) -> Any:
        """Of one that fails."""
        status = await self.ended()
        assert status["status"] == "FAILED", status
        assert status["output"] is None
        return status["error"]

    async def raise_event(self, name: str, data: Any = None, **query: Any) -> Answer:
        path = f"/orchestrations/{self.id}/events/{name}"
        return await self.server.request("POST", path, json.dumps(data).encode(), query=query)

    async def request(self, name: str, data: Any = None, **query: Any) -> Answer:
        path = f"/orchestrations/{self.id}/requests/{name}"
        return await self.server.request("POST", path, json.dumps(data).encode(), query=query)

    async def reply(self, request_id: str, **query: Any) -> Answer:
        return await self.get(f"/requests/{quote(request_id, safe='')}", **query)

    async def tell(self, what: str, **body: Any) -> Answer:
        """cancel, suspend, resume, outcome."""
        data = json.dumps(body).encode() if body else None
        return await self.server.request("POST", f"/orchestrations/{self.id}/{what}", data)

    async def delete(self, **query: Any) -> Answer:
        return await self.server.request("DELETE", f"/orchestrations/{self.id}", query=query)

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.server.request("GET", f"/orchestrations/{self.id}{path}", query=query)

    async def stored(self) -> dict[str, Any]:
        """Returns the instance's stored values, read past the server."""
        stored: dict[str, Any] = await self.server.stack.stored(ACTOR_TYPE, self.id)
        # What the list of instances knows of it, which comes some time after an answer.
        stored.get("instance", {}).pop("indexed_as", None)
        return stored

    def effects(self) -> list[Any]:
        """Returns the effects that the instance's activities wrote down, in order."""
        return [line["what"] for line in self.server.stack.effects() if line["instance_id"] == self.id]

    def effect_keys(self) -> Counter[str]:
        """How often each activity call ran, by its idempotency key."""
        return Counter(line["key"] for line in self.server.stack.effects() if line["instance_id"] == self.id)


async def start(server: Server, name: str, **body: Any) -> Answer:
    return await server.request("POST", f"/orchestrations/{name}/start", json.dumps(body).encode())


def accepted(answer: Answer) -> None:
    """Asserts that the call was accepted; a raised event must also be delivered."""
    assert answer.status == 202, answer.text
    assert answer.body in ({"success": True}, {"success": True, "delivered": True}), answer.text


def delivered(answer: Answer, *, is_so: bool = True) -> None:
    """Asserts that an event was accepted, and whether the code was waiting for it."""
    assert (answer.status, answer.body) == (202, {"success": True, "delivered": is_so}), answer.text


def check_history(events: list[Any]) -> None:
    """Contiguous, of one execution, at most one end, and every completion has its schedule."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len({event["execution_id"] for event in events}) == 1
    assert [event["timestamp"] for event in events] == sorted(event["timestamp"] for event in events)
    assert [event["type"] for event in events].count("OrchestrationStarted") == 1
    assert events[0]["type"] == "OrchestrationStarted"
    assert not any(event["type"] in _ENDINGS for event in events[:-1])
    answered: set[int] = set()
    for event in events:
        if event["type"] in _SCHEDULED_AS and "scheduled_seq" in event:
            assert event["scheduled_seq"] < event["seq"]
            assert events[event["scheduled_seq"] - 1]["type"] == _SCHEDULED_AS[event["type"]]
            assert event["scheduled_seq"] not in answered
            answered.add(event["scheduled_seq"])
