"""The queue as an actor: loads the state, executes the calls on the core, saves, then replies."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any

from dapr.actor import Remindable

from holdfast.errors import Conflict, HoldfastError, InvalidRequest, Unavailable
from holdfast.kinds import CONFIG, METADATA, QUEUE_INDEX_TYPE, QUEUE_TYPE
from holdfast.logs import about, counted
from holdfast.names import is_of_default_tenant, partition_id, qualify, split_queue_actor
from holdfast.pushpop.api import replies, requests
from holdfast.pushpop.api.commands import Answer, TurnContext, execute_all
from holdfast.pushpop.api.config import QueueConfig
from holdfast.pushpop.api.interface import PushPopActorInterface, QueueServiceInterface
from holdfast.pushpop.api.large_pushes import read_written
from holdfast.pushpop.core.items import lock_prefix
from holdfast.pushpop.core.queue import Queue
from holdfast.pushpop.index import shard_of
from holdfast.pushpop.stats_cache import Figures
from holdfast.runtime.background import BackgroundTasks, run_some_at_once
from holdfast.runtime.batching import serve_session
from holdfast.runtime.isolation import isolated
from holdfast.runtime.notifier import notify
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.unit_of_work import DurableActor, methods_of
from holdfast.tracing.turns import traced_turn, with_incoming
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.unit_of_work import Turn

log = logging.getLogger(__name__)

LOCK_ID_BYTES = 8
# The number of other queues to which one queue sends concurrently.
_SENDERS = 8
# The number of other partitions that a deletion calls concurrently.
_DELETED_AT_ONCE = 16
_PUBLIC = methods_of(PushPopActorInterface)
# The longest session of one process with a queue: many processes call the same queue.
_LONGEST_VISIT = 0.1


class PushPopActor(DurableActor, PushPopActorInterface, QueueServiceInterface, Remindable):
    """One queue, or one partition of it."""

    exact_numbers = False
    kept_bytes = 128 * 1024

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # The core knows only names within its tenant; they are qualified here.
        self._tenant, self._name, self._partition = split_queue_actor(self.id.id)
        self._qualified = qualify(self._tenant, self._name)
        # Notifiers of consumers that wait for items. Not saved: a waiting consumer asks again from time to time.
        self._subscribers: set[str] = set()
        self._background = BackgroundTasks(f"queue {self.id.id}")
        self._figures = Figures.of(self.host)
        # The queues to which a transfer is under way.
        self._sending: set[str] = set()

    @classmethod
    def is_public(cls, actor_id: str, method: str) -> bool:
        """Whether other apps may call this method of this actor."""
        return method in _PUBLIC and is_of_default_tenant(actor_id)

    # The actor's methods, as the interface has them

    async def Push(self, data: Answer) -> Answer:
        return await self._one("Push", with_incoming(data))

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

    async def AbandonOwned(self, data: Answer) -> Answer:
        return await self._one("AbandonOwned", data)

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

    async def InFlight(self, data: Answer | None = None) -> Answer:
        return await self._one("InFlight", data)

    async def Stats(self) -> Answer:
        return await self._one("Stats", None)

    async def Purge(self) -> Answer:
        return await self._one("Purge", None)

    async def Delete(self, data: Answer | None = None) -> Answer:
        """Deletes the queue with all partitions. All turns are in this one call, so nothing comes between them."""
        try:
            return await self._delete(force=requests.Delete.parse(data).force)
        except (Conflict, InvalidRequest) as refusal:
            return replies.refused(refusal)
        finally:
            if (queue := self.work.derived.get("queue")) is not None:
                self._run_background(queue, notify_all=True)

    async def Close(self, data: Answer) -> Answer:
        return await self._one("Close", data)

    async def Revoke(self, data: Answer) -> Answer:
        return await self._one("Revoke", data)

    async def DeadLetters(self, data: Answer | None = None) -> Answer:
        return await self._one("DeadLetters", data)

    async def Redrive(self, data: Answer | None = None) -> Answer:
        return await self._one("Redrive", data)

    async def DeleteDeadLetters(self, data: Answer | None = None) -> Answer:
        return await self._one("DeleteDeadLetters", data)

    async def GetConfig(self) -> Answer:
        return await self._one("GetConfig", None)

    async def SetConfig(self, data: Answer) -> Answer:
        return await self._one("SetConfig", data)

    async def Configure(self, data: Answer) -> Answer:
        return await self._one("Configure", data)

    async def PendingConfig(self, data: Answer | None = None) -> Answer:
        return await self._one("PendingConfig", data)

    async def Claim(self, data: Answer) -> Answer:
        return await self._one("Claim", data)

    async def Receive(self, data: Answer) -> Answer:
        return await self._one("Receive", data)

    async def Transferred(self, data: Answer | None = None) -> Answer:
        return await self._one("Transferred", data)

    async def ConfirmRemovedFromIndex(self) -> Answer:
        return await self._one("ConfirmRemovedFromIndex", None)

    async def ConfirmIndexed(self) -> Answer:
        return await self._one("ConfirmIndexed", None)

    async def Batch(self, data: Answer) -> Answer:
        turn = isolated(self._answer_all, lambda: self.work.commits, f"queue {self.id.id}")
        return await serve_session(self.host, QUEUE_TYPE, self.id.id, data, turn, patience=0.0, longest=_LONGEST_VISIT)

    async def _answer_all(self, calls: Sequence[tuple[str, Any]]) -> Answer:
        replies = await self._turn(await read_written(calls))
        queue: Queue = self.work.derived["queue"]
        return {
            "replies": replies,
            "load": queue.store.load,
            "bytes": queue.store.bytes,
            "partitions": queue.config.partitions,
        }

    async def on_wake(self) -> None:
        await self._turn([])

    @property
    def can_leave(self) -> bool:
        return not (self.work.in_turn or self._background.busy)

    async def _on_deactivate(self) -> None:
        await self._background.close()

    # One turn

    async def _one(self, method: str, data: Any) -> Answer:
        [answer] = await self._turn(await read_written([(method, data)]))
        return answer

    async def _inner_turn(self, method: str, data: Any = None) -> Answer:
        """Runs one command in a turn within a longer call. Raises its refusal."""
        [answer] = await self._turn([(method, data)], background=False)
        return raise_for_refusal(answer)

    async def _turn(self, calls: Sequence[tuple[str, Any]], *, background: bool = True) -> list[Answer]:
        with traced_turn(QUEUE_TYPE, calls) as traced:
            return await self._take_turn(traced, background=background)

    async def _take_turn(self, calls: Sequence[tuple[str, Any]], *, background: bool) -> list[Answer]:
        async with self.work.turn() as turn:
            queue = await self._queue(turn)
            moment = TurnContext(self.now(), self._new_lock_id, self._subscribers)
            partitions = queue.config.partitions
            await turn.drive(queue.catch_up(moment.now))
            answers = await turn.drive(execute_all(queue, moment, calls))
            changes = queue.changes()
            for key, value in changes.items():
                turn.put(key, value)
            # Not needed for the save: every operation first catches up with what is overdue and starts the background
            # tasks that are pending, and long polls ask again by themselves. A missing reminder only causes a delay.
            turn.wake_at(queue.next_deadline(moment.now), needed=False)
            await turn.save()
            if changes:
                self._figures.touch(self._qualified)
            _evict_unused(turn, queue)
        self._observe(queue)
        # Waiting pollers have to subscribe to new partitions too.
        if background:
            self._run_background(queue, notify_all=queue.config.partitions > partitions)
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
            self.host.metrics.processing.observe(seconds)
        queue.held_seconds.clear()

    def _run_background(self, queue: Queue, *, notify_all: bool) -> None:
        if queue.available or notify_all:
            notify(self.host, self._background, self._subscribers, self._qualified)
            self._subscribers.clear()
        # Several tasks, so that one that waits for its target does not hold up the others. A target that is being sent
        # to needs no further task: its sender continues with the next transfer.
        ready = queue.transfers.targets_ready(self.now())
        if not ready <= self._sending:
            for number in range(min(_SENDERS, len(self._sending | ready))):
                self._background.start(f"transfer {number}", self._transfer)
        if queue.needs_indexing:
            self._background.start("index", self._add_to_index)
        elif queue.needs_removal_from_index:
            self._background.start("index", self._remove_from_index)
        if queue.settings.pending_partitions:
            self._background.start("config", self._replicate_config)

    async def _transfer(self) -> None:
        """Sends transfers to other queues, one after the other, until none can be sent now."""
        outcome: Answer = {}
        while True:
            request = outcome | {"busy": sorted(self._sending)}
            transfer = load(await self._call(QUEUE_TYPE, self.id.id, "Transferred", request))["next"]
            outcome = {}
            if transfer is None:
                return
            target = transfer["target"]
            if target in self._sending:  # by another task, which got its reply at the same time
                continue
            self._sending.add(target)
            try:
                outcome = {"number": transfer["number"], "accepted": await self._send(transfer)}
            finally:
                self._sending.discard(target)

    async def _send(self, transfer: Answer) -> bool:
        """Returns whether the other queue accepted the transfer. If not, it is kept and sent again after a pause."""
        target = qualify(self._tenant, transfer["target"])
        try:
            answer = load(await self._call(QUEUE_TYPE, target, "Receive", transfer))
            if not answer["success"]:
                raise Unavailable(answer["message"])
        except HoldfastError as error:
            log.warning(
                "queue %s: sending %s to queue %s failed, retrying later: %s",
                *(self.id.id, counted(len(transfer["items"]), "item"), target, error),
                extra=about(queue=self._name, tenant=self._tenant),
            )
            return False
        return True

    async def _replicate_config(self) -> None:
        """Sends the configuration to the other partitions, each on its own as one may be unavailable."""
        pending = load(await self._call(QUEUE_TYPE, self.id.id, "PendingConfig", None))
        unreached: Unavailable | None = None
        for partition in pending["partitions"]:
            try:
                await self._configure(partition, pending)
            except Unavailable as error:
                unreached = error
                continue
            told = {"told": {"partition": partition, "version": pending["version"]}}
            await self._call(QUEUE_TYPE, self.id.id, "PendingConfig", told)
        if unreached is not None:
            raise unreached  # so that the background task is retried after a pause

    async def _configure(self, partition: int, pending: Answer) -> Answer:
        """Sends a partition the configuration in the reply of ``PendingConfig``."""
        body = {key: pending[key] for key in ("config", "version", "generation")}
        return await self._call_partition(partition, "Configure", body)

    async def _call_partition(self, partition: int, method: str, data: Answer) -> Answer:
        address = partition_id(self._qualified, partition)
        return raise_for_refusal(load(await self._call(QUEUE_TYPE, address, method, data)))

    async def _add_to_index(self) -> None:
        await self._call_index("Add")
        await self._call(QUEUE_TYPE, self.id.id, "ConfirmIndexed", None)

    async def _remove_from_index(self) -> None:
        await self._call_index("Remove")
        await self._call(QUEUE_TYPE, self.id.id, "ConfirmRemovedFromIndex", None)

    async def _call_index(self, method: str) -> None:
        await self._call(QUEUE_INDEX_TYPE, shard_of(self._name, self._tenant), method, self._name)

    # Deletion. If the process ends in between, a queue that was deleted is finished by its reminder, or by the next
    # call; before that, its closed partitions are opened again.

    async def _delete(self, *, force: bool) -> Answer:
        version = None if force else await self._close_partitions()
        answer = await self._inner_turn("FinishDeletion", {"force": force, "version": version})
        pending = await self._inner_turn("PendingConfig")
        erased = await run_some_at_once(
            (self._erase(number, pending) for number in pending["partitions"]), _DELETED_AT_ONCE
        )
        queue: Queue = self.work.derived["queue"]
        if queue.needs_removal_from_index:
            await self._call_index("Remove")
            await self._inner_turn("ConfirmRemovedFromIndex")
        return {"success": True, "purged": answer["purged"] + sum(erased)}

    async def _close_partitions(self) -> int | None:
        """Stops pushes to all other partitions, if they are empty. Returns the version of the deletion, if any."""
        begun = await self._inner_turn("BeginDeletion")
        if not begun["partitions"]:
            return None
        version: int = begun["version"]
        try:
            closing = (self._call_partition(number, "Close", {"version": version}) for number in begun["partitions"])
            await run_some_at_once(closing, _DELETED_AT_ONCE)
        except HoldfastError:
            await self._inner_turn("AbortDeletion")
            raise
        return version

    async def _erase(self, partition: int, pending: Answer) -> int:
        erased: int = (await self._configure(partition, pending))["purged"]
        await self._inner_turn("PendingConfig", {"told": {"partition": partition, "version": pending["version"]}})
        return erased

    def _new_lock_id(self) -> str:
        # A leading dash would make it an option on a command line.
        while (lock_id := secrets.token_urlsafe(LOCK_ID_BYTES)).startswith("-"):
            pass
        return lock_prefix(self._partition) + lock_id

    async def _call(self, actor_type: str, actor_id: str, method: str, data: Any) -> bytes:
        return await self.host.invoke_method(actor_type, actor_id, method, b"" if data is None else dump(data))


def _evict_unused(turn: Turn, queue: Queue) -> None:
    """Evicts the values the next push or pop will not need, so that memory does not grow with the queue's depth."""
    wanted = queue.store.keys_in_use()
    turn.evict(*(key for key in turn.known() if key not in wanted))
