"""A store that outlives deploys of other code, on a simulated host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.kinds import ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.recheck import Recheck
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.simulated import SimulatedHost
from tests.support.simulated import InstanceStage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dapr.actor import Actor

    from holdfast import App

ROWS = f"holdfast||{ORCHESTRATION_TYPE}||"


class Stage(InstanceStage):
    """One store; a deploy is a new process with other code."""

    def __init__(self, first: Callable[[], App]) -> None:
        """``first`` makes the code that is deployed when no other is named."""
        super().__init__()
        self._first = first
        self._deployed: App | None = None

    def actors(self) -> Iterable[type[Actor]]:
        queues = (PushPopActor, QueueIndexActor, NotifierActor)
        own = orchestration_actor((self._deployed or self._first()).registry)
        return (*queues, InstanceIndexActor, TenantIndexActor, RescuerActor, own)

    async def deploy(self, app: App | None = None, *, check: bool = True) -> None:
        storage = self.host.storage
        await self.host.stop()
        self.host = SimulatedHost(storage=storage)
        self._deployed = app
        await self.start()
        if check:
            await Recheck(self.host.client).run()

    async def begin(self, instance_id: str, name: str, given: Any = None) -> None:
        assert (await self.ask(instance_id, "Start", name=name, input=given))["created"]
        await asyncio.sleep(2)

    async def recorded(self, instance_id: str, method: str, **data: Any) -> None:
        assert (await self.ask(instance_id, method, **data))["outcome"] == "recorded"

    async def status(self, instance_id: str) -> str:
        status: str = (await self.ask(instance_id, "Status"))["status"]
        return status

    async def reason(self, instance_id: str) -> dict[str, Any]:
        answer = await self.ask(instance_id, "Status")
        assert (answer["status"], answer["error"], answer["ended_at"]) == ("BLOCKED", None, None)
        reason: dict[str, Any] = answer["blocked"]
        return reason

    async def types(self, instance_id: str) -> list[str]:
        return [event["type"] for event in (await self.ask(instance_id, "History", limit=1000))["events"]]

    async def take(self, count: int = 1) -> list[dict[str, Any]]:
        answer = await self.invoke(QUEUE_TYPE, "activities", "Pop", {"count": count})
        items: list[dict[str, Any]] = answer["items"]
        return items

    async def outcome(self, item: dict[str, Any], result: str = "null") -> None:
        place = {key: item[key] for key in ("execution_id", "scheduled_seq", "incarnation")}
        await self.recorded(item["instance_id"], "Complete", of="activity", result=result, **place)

    async def awaited(self, item: dict[str, Any]) -> bool:
        place = {key: item[key] for key in ("execution_id", "scheduled_seq", "incarnation")}
        awaited: bool = (await self.ask(item["instance_id"], "IsAwaited", **place))["awaited"]
        return awaited

    def keys(self, instance_id: str) -> list[str]:
        prefix = f"{ROWS}{instance_id}||"
        return [key.removeprefix(prefix) for key in self.host.storage.rows if key.startswith(prefix)]

    def value(self, name: str, **labels: str) -> float | None:
        return self.host.client.metrics.registry.get_sample_value(name, labels)
