"""The Dapr host: a FastAPI app behind its daprd, with the actors in memory and an orderly shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from dapr.actor.runtime.config import ActorReentrancyConfig, ActorRuntimeConfig

from holdfast.errors import HostStopping, NotFound
from holdfast.logs import counted
from holdfast.runtime.contract import ActorAddress, Readiness
from holdfast.runtime.dapr.activations import DEFAULT_MAX_IDLE, Activations
from holdfast.runtime.dapr.admission import Admission
from holdfast.runtime.dapr.callbacks import Callbacks
from holdfast.runtime.dapr.client import DaprHostClient
from holdfast.runtime.dapr.in_flight import Calls
from holdfast.runtime.dapr.ownership import OwnershipMonitor
from holdfast.runtime.dapr.sidecar import probe
from holdfast.runtime.dapr.timers import unmark
from holdfast.runtime.dapr_sdk import private_runtime, register
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dapr.actor import Actor
    from dapr.actor.runtime.manager import ActorManager
    from fastapi import FastAPI
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

_GRACE = 5.0


class DaprHost:
    """Runs actors that daprd calls over HTTP.

    An actor is deactivated ``idle_timeout`` seconds after its last call, or earlier if more than ``max_idle`` actors
    are idle. Turns get ``drain_timeout`` seconds to end on shutdown, and ``rebalance_timeout`` seconds when placement
    moves their actors to another host. daprd must send ``app_token`` (``APP_API_TOKEN``); without one, only calls from
    this machine are accepted. ``admission`` decides which calls of other apps are accepted.
    """

    name = "dapr"

    def __init__(
        self,
        app: FastAPI,
        *,
        client: DaprHostClient | None = None,
        app_token: str | None = None,
        admission: Admission | None = None,
        idle_timeout: float = 60.0,
        max_idle: int = DEFAULT_MAX_IDLE,
        scan_interval: float = 30.0,
        drain_timeout: float = 30.0,
        rebalance_timeout: float = 0.5,
        drain_rebalanced_actors: bool = True,
    ) -> None:
        self._client = client or DaprHostClient()
        self._drain_timeout = drain_timeout
        self._config = ActorRuntimeConfig(
            # Longer than the time-out of any of our calls: see activations.py.
            actor_idle_timeout=timedelta(seconds=max(idle_timeout, self._client.http.timeout + _GRACE)),
            actor_scan_interval=timedelta(seconds=scan_interval),
            drain_ongoing_call_timeout=timedelta(seconds=rebalance_timeout),
            drain_rebalanced_actors=drain_rebalanced_actors,
            reentrancy=ActorReentrancyConfig(enabled=False),
        )
        self._runtime = private_runtime(self._config)
        self._calls = Calls()
        self._activations = Activations(self._managers, idle_timeout, max_idle)
        self._client.activation_id_of = self._activations.activation_id
        self._ownership = OwnershipMonitor(self._client.http, lost=self._begin_anew, on_unknown=self._forget_idle)
        self._client.is_held = self._ownership.is_held_now
        self.stopping = False
        self._draining: asyncio.Timeout | None = None
        self.admission = admission or Admission()
        #: The actor types that turns of other actors depend on.
        self._serving: set[str] = set()
        #: Whether a call was rejected because of a wrong sidecar token.
        self.refused_sidecar = False
        self.sidecar_app: ASGIApp = Callbacks(app, self, app_token or os.environ.get("APP_API_TOKEN"))

    @property
    def client(self) -> DaprHostClient:
        return self._client

    @property
    def app_id(self) -> str:
        """The app-id that daprd reported; empty before that."""
        return self._client.neighbours.app_id

    @property
    def busy(self) -> int:
        """The number of daprd's calls in progress."""
        return len(self._calls)

    async def register(self, actor_class: type[Actor]) -> None:
        await register(self._runtime, actor_class, self._client)
        self.admission.register(actor_class)
        if getattr(actor_class, "serves_turns", False):
            self._serving.add(actor_class.__name__)
        # The SDK itself looks up the names in its own registry only.
        self._config.update_entities(list(self._managers))
        self._client.hosted.update(self._managers)

    async def start(self) -> None:
        """Does not wait for daprd, because daprd waits for this app."""
        log.info("expecting the sidecar at %s", self._client.http.endpoint)

    async def readiness(self) -> Readiness:
        if self.stopping:
            return Readiness(False, "the host is stopping")
        seen = await probe(self._client.http)
        if seen.metadata is None:
            reason = seen.problem
        else:
            reason = seen.metadata.waits_for(self._managers)
            self._client.neighbours.app_id = seen.metadata.app_id
        if reason and self.refused_sidecar:
            reason += " (it was rejected: its APP_API_TOKEN differs from this app's)"
        return Readiness(not reason, reason)

    async def active_counts(self) -> dict[str, int]:
        return self._activations.counts()

    async def release_idle(self) -> int:
        return await self._activations.release_idle()

    async def finish_turns(self) -> None:
        if self.stopping:
            return
        self.stopping = True
        await self._activations.end()
        try:
            async with asyncio.timeout(self._drain_timeout) as self._draining:
                await self._calls.drained()
                await self._ownership.end()
                # Callers of those turns in this process still wait for daprd to pass the replies on.
                await self._client.http.all_answered()
        except TimeoutError:
            log.warning("%s did not end within %g s, stopping anyway", counted(self.busy, "turn"), self._drain_timeout)
        finally:
            self._draining = None

    def abort_turns(self) -> None:
        # They are requests of daprd, which end with the server.
        self._drain_timeout = 0.0
        if self._draining is not None:
            self._draining.reschedule(asyncio.get_running_loop().time())

    async def stop(self) -> None:
        await self.finish_turns()
        await self._ownership.end()
        await self._client.late_reminders.close()
        await self._client.close()

    def configuration(self) -> bytes:
        """Returns the actor configuration of this app for daprd."""
        return dump(self._config.as_dict())

    async def meet_sidecar(self, app_id: str) -> None:
        """Prepares for a daprd that has just started and has not called any actor yet.

        Turns of the previous daprd may still run here, and another host may have run our actors since.
        """
        self._client.neighbours.app_id = app_id
        await self._ownership.end()
        self.refused_sidecar = False
        await self._begin_anew()

    async def deactivate(self, address: ActorAddress) -> None:
        self._calls.revoke(address)
        await self._activations.drop(address)

    async def call(self, address: ActorAddress, method: str, body: bytes) -> bytes:
        return cast(
            "bytes", await self._turn(address, lambda: self._runtime.dispatch(address.type, address.id, method, body))
        )

    async def remind(self, address: ActorAddress, name: str, body: bytes) -> None:
        await self._turn(address, lambda: self._runtime.fire_reminder(address.type, address.id, name, body))

    async def fire_timer(self, address: ActorAddress, name: str, body: bytes) -> bool:
        """Fires a timer. Returns False for a timer of an earlier activation, in this process or another."""
        body, activation_id = unmark(body)
        if activation_id and not self._activations.is_current(address, activation_id):
            return False
        await self._turn(address, lambda: self._runtime.fire_timer(address.type, address.id, name, body))
        return True

    async def _turn(self, address: ActorAddress, action: Callable[[], Awaitable[Any]]) -> Any:
        if self.stopping and address.type not in self._serving:
            raise HostStopping
        if address.type not in self._managers:
            raise NotFound(f"This app has no actors of type {address.type}.")
        with self._calls.running(address) as call:
            async with call.lock:
                call.check()
                await self._activations.acquire(address)
                if not await self._ownership.is_held():
                    self._client.epoch += 1
                    if self._calls.has_no_other_turn(address, call):
                        # For actors with the SDK's state manager, which ignores the epoch.
                        await self._activations.drop(address)
                try:
                    return await action()
                finally:
                    if self._calls.only_one(address):
                        self._activations.released(address)

    async def _begin_anew(self) -> None:
        """Handles a loss of ownership: earlier turns lose the right to save, and all actors are deactivated."""
        self._client.epoch += 1
        self._calls.revoke_all()
        await self._calls.quiesce()
        dropped = self._activations.all()
        await self._activations.drop_all(dropped)
        log.info("deactivated %s; their state will be read again", counted(len(dropped), "actor"))

    async def _forget_idle(self) -> None:
        """Handles a possible loss of ownership: idle actors are deactivated, running turns rely on the epoch."""
        self._client.epoch += 1
        await self._activations.drop_all(address for address in self._activations.all() if not self._calls.any(address))

    @property
    def _managers(self) -> dict[str, ActorManager]:
        return self._runtime._actor_managers
