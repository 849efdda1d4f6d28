"""A host that runs actors in this process: the SDK's runtime with turns, reminders and timers around it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from dapr.actor.runtime.config import ActorRuntimeConfig

from holdfast.errors import UnknownActorType
from holdfast.names import check_address
from holdfast.runtime.contract import ActorAddress, HostClient, Readiness, StateChange
from holdfast.runtime.dapr_sdk import private_runtime, register
from holdfast.runtime.in_process.reminders import Reminders
from holdfast.runtime.in_process.storage import Write
from holdfast.runtime.in_process.timers import Timers
from holdfast.runtime.in_process.transactions import parse_transaction
from holdfast.runtime.in_process.turns import DEFAULT_CALL_TIMEOUT, DEFAULT_MAX_IDLE, Turns
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dapr.actor import Actor
    from dapr.actor.runtime.manager import ActorManager

    from holdfast.runtime.in_process.storage import Storage

DEFAULT_IDLE_TIMEOUT = 60.0
DEFAULT_DRAIN_TIMEOUT = 30.0
SEPARATOR = "||"


class InProcessHost:
    """Runs all actors in one process, on a given storage."""

    name = "in process"
    sidecar_app = None

    def __init__(
        self,
        storage: Storage,
        *,
        now: Callable[[], float],
        app_id: str = "holdfast",
        idle_timeout: float = DEFAULT_IDLE_TIMEOUT,
        max_idle: int = DEFAULT_MAX_IDLE,
        drain_timeout: float = DEFAULT_DRAIN_TIMEOUT,
        call_timeout: float = DEFAULT_CALL_TIMEOUT,
        saves_reminders: bool = True,
    ) -> None:
        self.app_id = app_id
        self.now = now
        self._storage = storage
        self._drain_timeout = drain_timeout
        self._runtime = private_runtime(ActorRuntimeConfig())
        self.timers = Timers(fire=self._fire_timer, now=now)
        self._turns = Turns(
            deactivate=self._deactivate,
            is_needed=self._is_needed,
            idle_timeout=idle_timeout,
            max_idle=max_idle,
            call_timeout=call_timeout,
        )
        self.reminders = Reminders(storage, fire=self._fire_reminder, now=now)
        self.client: HostClient = InProcessClient(self)
        self.client.saves_reminders = saves_reminders
        self._state = "not started"

    @property
    def actor_types(self) -> list[str]:
        return self._runtime.get_registered_actor_types()

    async def active_counts(self) -> dict[str, int]:
        """Returns the number of active actors of each type."""
        counts = dict.fromkeys(self.actor_types, 0)
        for address in self._turns.active():
            counts[address.type] += 1
        return counts

    def is_active(self, address: ActorAddress) -> bool:
        return address.id in self._manager(address)._active_actors

    async def register(self, actor_class: type[Actor]) -> None:
        await register(self._runtime, actor_class, self.client)
        if getattr(actor_class, "serves_turns", False):
            self._turns.serving.add(actor_class.__name__)

    async def start(self) -> None:
        await self._storage.open()
        self.reminders.start()
        self._state = "running"

    async def readiness(self) -> Readiness:
        return Readiness(self._state == "running", "" if self._state == "running" else f"the host is {self._state}")

    async def finish_turns(self) -> None:
        """Does nothing: turns do not need the server here, and :meth:`stop` finishes them."""

    def abort_turns(self) -> None:
        self._turns.abort()

    async def stop(self) -> None:
        if self._state != "running":
            return
        self._state = "stopping"
        self.timers.stop()
        # Concurrently: a firing reminder is a turn, which has to end before the reminder can be settled.
        await asyncio.gather(self.reminders.stop(), self._turns.stop(self._drain_timeout))
        await self.client.late_reminders.close()
        await self.reminders.flush()
        await self._storage.close()
        self._state = "stopped"

    def abort(self) -> None:
        """Ends everything at once, to simulate the end of the process."""
        self.timers.stop()
        self.client.late_reminders.abort()
        self.reminders.abort()
        self._turns.abort()
        self._state = "stopped"

    async def call(self, address: ActorAddress, method: str, body: bytes) -> bytes:
        return cast(
            "bytes",
            await self._turn(address, lambda: self._runtime.dispatch(address.type, address.id, method, body)),
        )

    async def load(self, address: ActorAddress, keys: Sequence[str]) -> dict[str, bytes]:
        prefix = self._prefix(address)
        found = await self._storage.load([prefix + key for key in keys])
        return {key: found[prefix + key] for key in keys if prefix + key in found}

    async def save(self, address: ActorAddress, writes: Sequence[Write], wake_at: float | None = None) -> None:
        prefix = self._prefix(address)
        await self.reminders.save([write._replace(key=prefix + write.key) for write in writes], address, wake_at)

    def _prefix(self, address: ActorAddress) -> str:
        return f"{self.app_id}{SEPARATOR}{address.type}{SEPARATOR}{address.id}{SEPARATOR}"

    def _manager(self, address: ActorAddress) -> ActorManager:
        manager = self._runtime._actor_managers.get(address.type)
        if manager is None:
            raise UnknownActorType(f"Actor type {address.type} is not registered on this host.")
        return manager

    async def release_idle(self) -> int:
        return await self._turns.release_idle()

    def _is_needed(self, address: ActorAddress) -> bool:
        actor = self._manager(address)._active_actors.get(address.id)
        return self.timers.any_of(address) or not getattr(actor, "can_leave", True)

    async def _deactivate(self, address: ActorAddress) -> None:
        self.timers.forget(address)
        if self.is_active(address):
            await self._runtime.deactivate(address.type, address.id)

    async def _fire_reminder(self, address: ActorAddress, name: str, body: bytes) -> None:
        await self._turn(address, lambda: self._runtime.fire_reminder(address.type, address.id, name, body))

    async def _fire_timer(self, address: ActorAddress, name: str, body: bytes) -> None:
        await self._turn(address, lambda: self._runtime.fire_timer(address.type, address.id, name, body))

    async def _turn(self, address: ActorAddress, action: Callable[[], Awaitable[Any]]) -> Any:
        # Before the actor is created: an ordinary Dapr actor would put any id into its keys.
        check_address(*address)
        self._manager(address)
        return await self._turns.run(address, action)


class InProcessClient(HostClient):
    """The client that actors of an in-process host are registered with."""

    def __init__(self, host: InProcessHost) -> None:
        self._host = host

    def now(self) -> float:
        return self._host.now()

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes | None = None) -> bytes:
        return await self._host.call(ActorAddress(actor_type, actor_id), method, data or b"")

    async def load_state(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        return await self._host.load(ActorAddress(actor_type, actor_id), keys)

    async def save_state(self, actor_type: str, actor_id: str, changes: Sequence[StateChange]) -> None:
        writes = [Write(change.key, change.value) for change in changes]
        await self._host.save(ActorAddress(actor_type, actor_id), writes)

    async def save_with_reminder(
        self, actor_type: str, actor_id: str, changes: Sequence[StateChange], wake_at: float
    ) -> None:
        writes = [Write(change.key, change.value) for change in changes]
        await self._host.save(ActorAddress(actor_type, actor_id), writes, wake_at)

    def postpone_wake(self, actor_type: str, actor_id: str, armed: float, wake_at: float | None) -> None:
        self._host.reminders.postpone(ActorAddress(actor_type, actor_id), armed, wake_at)

    async def get_state(self, actor_type: str, actor_id: str, name: str) -> bytes:
        return (await self.load_state(actor_type, actor_id, [name])).get(name, b"")

    async def save_state_transactionally(self, actor_type: str, actor_id: str, data: bytes) -> None:
        await self._host.save(ActorAddress(actor_type, actor_id), parse_transaction(load(data)))

    async def register_reminder(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        await self._host.reminders.register(ActorAddress(actor_type, actor_id), name, load(data))

    async def unregister_reminder(self, actor_type: str, actor_id: str, name: str) -> None:
        await self._host.reminders.unregister(ActorAddress(actor_type, actor_id), name)

    async def register_timer(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        self._host.timers.register(ActorAddress(actor_type, actor_id), name, load(data))

    async def unregister_timer(self, actor_type: str, actor_id: str, name: str) -> None:
        self._host.timers.unregister(ActorAddress(actor_type, actor_id), name)
