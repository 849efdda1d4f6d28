"""The queue as an actor: a thin shell that loads, asks the core, saves, and only then replies."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from dapr.actor import Remindable

from holdfast.errors import Unavailable
from holdfast.identity import partition_id, qualify, split_queue_actor
from holdfast.pushpop.commands import Answer, Moment, execute_all
from holdfast.pushpop.config import QueueConfig
from holdfast.pushpop.core import CONFIG, METADATA, Queue
from holdfast.pushpop.doorbell import ring
from holdfast.pushpop.index import INDEX_TYPE, shard_of
from holdfast.pushpop.interface import ACTOR_TYPE, PushPopActorInterface, QueueServiceInterface
from holdfast.pushpop.items import lock_prefix
from holdfast.runtime.errands import Errands
from holdfast.runtime.gather import attend
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.work import DurableActor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.work import Turn

LOCK_ID_BYTES = 8
# How long one process may go on with what it has for a queue: it is called from everywhere.
_LONGEST_VISIT = 0.1


class PushPopActor(DurableActor, PushPopActorInterface, QueueServiceInterface, Remindable):
    """One queue, or one partition of it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # The core knows no other tenant's queues: what it names is qualified here, on its way out.
        self._tenant, self._name, self._partition = split_queue_actor(self.id.id)
        self._qualified = qualify(self._tenant, self._name)
        # Who waits for something to pop. Not saved: whoever waits asks again from time to time.
        self._doorbells: set[str] = set()
        self._errands = Errands(f"queue {self.id.id}")

    # The actor's methods, as the interface has them

    async def Push(self, data: Answer) -> Answer:
        return await self._one("Push", data)

    async def Pop(self, data: Answer | None = None) -> Answer:
        return await self._one("Pop", data)

    async def PopWithAck(self, data: Answer | None = None) -> Answer:
        return await self._one("PopWithAck", data)

    async def Acknowledge(self, data: Answer) -> Answer:
        return await self._one("Acknowledge", data)

    async def Complete(self, data: Answer) -> Answer:
        return await self._one("Complete", data)

    async def Abandon(self, data: Answer) -> Answer:
        return await self._one("Abandon", data)

    async def GiveBackMarked(self, data: Answer) -> Answer:
        return await self._one("GiveBackMarked", data)

    async def Requeue(self, data: Answer) -> Answer:
        return await self._one("Requeue", data)

    async def ExtendLock(self, data: Answer) -> Answer:
        return await self._one("ExtendLock", data)

    async def ExtendByPrefix(self, data: Answer) -> Answer:
        return await self._one("ExtendByPrefix", data)

    async def DeadLetter(self, data: Answer) -> Answer:
        return await self._one("DeadLetter", data)

    async def Peek(self, data: Answer | None = None) -> Answer:
        return await self._one("Peek", data)

    async def InFlight(self) -> Answer:
        return await self._one("InFlight", None)

    async def Stats(self) -> Answer:
        return await self._one("Stats", None)

    async def Purge(self) -> Answer:
        return await self._one("Purge", None)

    async def Revoke(self, data: Answer) -> Answer:
        return await self._one("Revoke", data)

    async def DeadLetters(self, data: Answer | None = None) -> Answer:
        return await self._one("DeadLetters", data)

    async def Redrive(self, data: Answer | None = None) -> Answer:
        return await self._one("Redrive", data)

    async def GetConfig(self) -> Answer:
        return await self._one("GetConfig", None)

    async def SetConfig(self, data: Answer) -> Answer:
        return await self._one("SetConfig", data)

    async def Configure(self, data: Answer) -> Answer:
        return await self._one("Configure", data)

    async def Untold(self, data: Answer | None = None) -> Answer:
        return await self._one("Untold", data)

    async def Claim(self, data: Answer) -> Answer:
        return await self._one("Claim", data)

    async def Receive(self, data: Answer) -> Answer:
        return await self._one("Receive", data)

    async def Transferred(self, data: Answer | None = None) -> Answer:
        return await self._one("Transferred", data)

    async def Listed(self) -> Answer:
        return await self._one("Listed", None)

    async def Batch(self, data: Answer) -> Answer:
        return await attend(
            self.host, ACTOR_TYPE, self.id.id, data, self._answer_all, patience=0.0, longest=_LONGEST_VISIT
        )

    async def _answer_all(self, calls: Sequence[tuple[str, Any]]) -> Answer:
        replies = await self._turn(calls)
        queue: Queue = self.work.derived["queue"]
        return {"replies": replies, "load": queue.stock.load, "partitions": queue.config.partitions}

    async def on_wake(self) -> None:
        await self._turn([])

    async def _on_deactivate(self) -> None:
        await self._errands.close()

    # One turn

    async def _one(self, method: str, data: Any) -> Answer:
        [answer] = await self._turn([(method, data)])
        return answer

    async def _turn(self, calls: Sequence[tuple[str, Any]]) -> list[Answer]:
        async with self.work.turn() as turn:
            queue = await self._queue(turn)
            moment = Moment(self.now(), self._new_lock_id, self._doorbells)
            partitions = queue.config.partitions
            await turn.drive(queue.catch_up(moment.now))
            answers = await turn.drive(execute_all(queue, moment, calls))
            changes = queue.changes()
            for key, value in changes.items():
                turn.put(key, value)
            turn.wake_at(queue.next_deadline(moment.now))
            await turn.save()
            _give_memory_back(turn, queue)
        self._observe(queue)
        # Those who wait have to leave their doorbells at new partitions too.
        self._run_errands(queue, ring_all=queue.config.partitions > partitions)
        return answers

    async def _queue(self, turn: Turn) -> Queue:
        queue: Queue | None = self.work.derived.get("queue")
        if queue is None:
            metadata, config = await turn.load_all(METADATA, CONFIG)
            steps = Queue.restore(self._name, QueueConfig.stored(config), metadata, self._partition, self._tenant)
            queue = self.work.derived["queue"] = await turn.drive(steps)
            turn.owes(queue.next_deadline(self.now()))
        return queue

    def _observe(self, queue: Queue) -> None:
        for seconds in queue.held_seconds:
            self.host.meters.processing.observe(seconds)
        queue.held_seconds.clear()

    def _run_errands(self, queue: Queue, *, ring_all: bool) -> None:
        if self._doorbells and (queue.available or ring_all):
            for doorbell in self._doorbells:
                ring(self.host, self._errands, doorbell, self._qualified)
            self._doorbells.clear()
        if queue.post.waits:
            self._errands.start("transfer", self._transfer)
        if queue.to_be_listed:
            self._errands.start("listing", self._list)
        if queue.settings.untold:
            self._errands.start("telling", self._tell)

    async def _transfer(self) -> None:
        """Sends what is for other queues, one parcel after the other."""
        sent: Answer | None = None
        while True:
            parcel = load(await self._call(ACTOR_TYPE, self.id.id, "Transferred", sent))["next"]
            if parcel is None:
                return
            target = qualify(self._tenant, parcel["target"])
            answer = load(await self._call(ACTOR_TYPE, target, "Receive", parcel))
            if not answer["success"]:
                raise Unavailable(answer["message"])  # it stays here, and is sent again
            sent = {"number": parcel["number"]}

    async def _tell(self) -> None:
        """Tells the other partitions the configuration, each for itself: one may be out of reach."""
        news = load(await self._call(ACTOR_TYPE, self.id.id, "Untold", None))
        unreached: Unavailable | None = None
        for partition in news["partitions"]:
            body = {"config": news["config"], "version": news["version"]}
            try:
                await self._call(ACTOR_TYPE, partition_id(self._qualified, partition), "Configure", body)
            except Unavailable as error:
                unreached = error
                continue
            told = {"told": {"partition": partition, "version": news["version"]}}
            await self._call(ACTOR_TYPE, self.id.id, "Untold", told)
        if unreached is not None:
            raise unreached  # to be tried again later, and not at once

    async def _list(self) -> None:
        await self._call(INDEX_TYPE, shard_of(self._name, self._tenant), "Add", self._name)
        await self._call(ACTOR_TYPE, self.id.id, "Listed", None)

    def _new_lock_id(self) -> str:
        # On a command line, a dash at the beginning would make it an option.
        while (lock_id := secrets.token_urlsafe(LOCK_ID_BYTES)).startswith("-"):
            pass
        return lock_prefix(self._partition) + lock_id

    async def _call(self, actor_type: str, actor_id: str, method: str, data: Any) -> bytes:
        return await self.host.invoke_method(actor_type, actor_id, method, b"" if data is None else dump(data))


def _give_memory_back(turn: Turn, queue: Queue) -> None:
    """Only what the next push or pop will want stays in memory, whatever the depth. The rest is in the queue itself."""
    wanted = queue.stock.keys_in_use()
    turn.evict(*(key for key in turn.known() if key not in wanted))
