"""The scheduler is down while placement, the sidecar and the state store work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import errors
from holdfast.kinds import QUEUE_TYPE
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.notifier import NotifierActor
from tests.dapr.actors import Planned
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.dapr.cluster import Cluster, Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-scheduler-down")


class Queues:
    """Queues whose actors leave memory between calls, so that each call finds what is saved."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def call(self, queue: str, method: str, data: Any = None) -> Any:
        await self._replica.host.deactivate(ActorAddress(QUEUE_TYPE, queue))
        return await self._replica.call(QUEUE_TYPE, queue, method, data)

    async def push(self, queue: str, item: Any) -> None:
        answer = await self.call(queue, "Push", {"items": [{"item": item, "dedup_id": str(item)}]})
        assert answer["success"], answer

    async def pop(self, queue: str) -> list[Any]:
        items: list[Any] = (await self.call(queue, "Pop"))["items"]
        return items

    async def stored(self, queue: str) -> dict[str, Any]:
        """Past the actor, which gives back what has expired whenever it is called."""
        values = await self._replica.client.load_state(QUEUE_TYPE, queue, ["metadata"])
        metadata: dict[str, Any] = json.loads(values["metadata"])
        return metadata


@pytest.fixture(scope="module")
async def replica(cluster: Cluster) -> Replica:
    replica = await cluster.add(actors=(PushPopActor, QueueIndexActor, NotifierActor, Planned))
    await replica.ready()
    return replica


@pytest.fixture
async def queues(cluster: Cluster, replica: Replica) -> Queues:
    """The scheduler is down when a test begins, unless it fails at once: daprd takes long to find it again."""
    queues = Queues(replica)
    if cluster.dapr.scheduler.process.running:
        for queue in ("used", "locked"):
            await queues.push(queue, 0)
        await cluster.dapr.scheduler.kill()
    return queues


async def test_a_lock_expires_at_the_next_operation(queues: Queues) -> None:
    assert (await queues.call("locked", "PopWithAck", {"ttl_seconds": 1}))["items"] == [0]

    async def given_back() -> list[Any]:
        return list((await queues.call("locked", "Peek", {"count": 1})).get("items", []))

    assert await eventually(given_back) == [0]


async def test_what_needs_its_reminder_is_not_saved_without_it(queues: Queues, replica: Replica) -> None:
    with pytest.raises(errors.Unavailable):
        await replica.call("Planned", "one", "plan", 60)
    assert not await replica.client.load_state("Planned", "one", ["planned"])


async def test_queues_work_on_and_their_reminders_come_late(cluster: Cluster, queues: Queues) -> None:
    for item in range(1, 4):
        await queues.push("used", item)
        await queues.push("new", item)
    # What is answered is what is saved: nothing is gone that was not answered, nothing is there twice.
    for queue, pushed in (("used", [0, 1, 2]), ("new", [1, 2])):
        assert [await queues.pop(queue) for _ in pushed] == [[item] for item in pushed]
        assert (await queues.call(queue, "PopWithAck", {"ttl_seconds": 1}))["items"] == [3]
        assert (await queues.stored(queue))["_active_lock"]
    await cluster.dapr.scheduler.start()
    # By the reminder: no operation comes to these queues meanwhile.
    for queue in ("used", "new"):
        assert await eventually(lambda queue=queue: _is_unlocked(queues, queue), within=120)
        assert await queues.pop(queue) == [3]


async def _is_unlocked(queues: Queues, queue: str) -> bool:
    return not (await queues.stored(queue)).get("_active_lock")
