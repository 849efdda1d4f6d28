"""The peer of the queue benchmarks: a queue as one would write it first, with the SDK alone.

Segments of 100 items a priority, one item a call, the SDK's own state manager, and the locked items inside the
metadata, which every call saves. It runs on the same daprd as what it is compared with.
"""

# The SDK has no types, and an actor's interface no bodies.
# mypy: disable-error-code="untyped-decorator, empty-body"

from __future__ import annotations

import secrets
import time
from typing import Any

from dapr.actor import Actor, ActorInterface, actormethod

from holdfast import App

app = App()

TYPE = "SeedQueueActor"
_SEGMENT = 100


class SeedQueueInterface(ActorInterface):
    @actormethod(name="Push")
    async def push(self, data: dict[str, Any]) -> dict[str, Any]: ...

    @actormethod(name="Fill")
    async def fill(self, data: dict[str, Any]) -> None: ...

    @actormethod(name="PopWithAck")
    async def pop_with_ack(self, data: dict[str, Any]) -> dict[str, Any]: ...

    @actormethod(name="Acknowledge")
    async def acknowledge(self, data: dict[str, Any]) -> dict[str, Any]: ...


@app.actor
class SeedQueueActor(Actor, SeedQueueInterface):
    async def push(self, data: dict[str, Any]) -> dict[str, Any]:
        metadata = await self._metadata()
        priority = str(data.get("priority", 0))
        lane = metadata["lanes"].setdefault(priority, {"head": 0, "tail": 0, "count": 0})
        segment = await self._segment(priority, lane["tail"])
        if len(segment) >= _SEGMENT:
            lane["tail"] += 1
            segment = []
        segment.append(data["item"])
        lane["count"] += 1
        await self._state_manager.set_state(f"queue_{priority}_{lane['tail']}", segment)
        await self._state_manager.set_state("metadata", metadata)
        return {"success": True}

    async def fill(self, data: dict[str, Any]) -> None:
        """Stores the state that so many pushes would leave, in one call, as a start for a measurement."""
        segments = data["count"] // _SEGMENT
        for number in range(segments):
            await self._state_manager.set_state(f"queue_0_{number}", [data["item"]] * _SEGMENT)
        lane = {"head": 0, "tail": segments - 1, "count": segments * _SEGMENT}
        await self._state_manager.set_state("metadata", {"lanes": {"0": lane}, "locks": {}})

    async def pop_with_ack(self, data: dict[str, Any]) -> dict[str, Any]:
        metadata = await self._metadata()
        for priority, lane in sorted(metadata["lanes"].items()):
            if not lane["count"]:
                continue
            segment = await self._segment(priority, lane["head"])
            item = segment.pop(0)
            lane["count"] -= 1
            await self._state_manager.set_state(f"queue_{priority}_{lane['head']}", segment)
            if not segment and lane["head"] < lane["tail"]:
                await self._state_manager.remove_state(f"queue_{priority}_{lane['head']}")
                lane["head"] += 1
            lock_id = secrets.token_urlsafe(8)
            now = time.time()
            metadata["locks"][lock_id] = {
                "items_with_priority": [{"item": item, "priority": int(priority)}],
                "expires_at": now + 30,
                "created_at": now,
            }
            await self._state_manager.set_state("metadata", metadata)
            return {"items": [item], "count": 1, "locked": True, "lock_id": lock_id}
        return {"items": [], "count": 0, "locked": False}

    async def acknowledge(self, data: dict[str, Any]) -> dict[str, Any]:
        metadata = await self._metadata()
        done = metadata["locks"].pop(data["lock_id"])
        await self._state_manager.set_state("metadata", metadata)
        return {"success": True, "items_acknowledged": len(done["items_with_priority"])}

    async def _metadata(self) -> dict[str, Any]:
        found, value = await self._state_manager.try_get_state("metadata")
        return value if found and value else {"lanes": {}, "locks": {}}

    async def _segment(self, priority: str, number: int) -> list[Any]:
        found, value = await self._state_manager.try_get_state(f"queue_{priority}_{number}")
        return value if found and value is not None else []
