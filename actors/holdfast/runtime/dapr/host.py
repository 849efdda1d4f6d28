"""A FastAPI app beside its daprd: which calls come in, what is kept in memory between them, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from dapr.actor.runtime.config import ActorReentrancyConfig, ActorRuntimeConfig

from holdfast.errors import HostStopping, NotFound
from holdfast.runtime.contract import ActorAddress, Readiness
from holdfast.runtime.dapr.activations import Activations
from holdfast.runtime.dapr.callbacks import Callbacks
from holdfast.runtime.dapr.calls import Calls
from holdfast.runtime.dapr.client import DaprHostClient
from holdfast.runtime.dapr.sidecar import look
from holdfast.runtime.dapr.tenure import Tenure
from holdfast.runtime.dapr.timers import unmark
from holdfast.runtime.sdk import private_runtime, register
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
    """Actors that daprd calls over HTTP.

    ``idle_timeout`` seconds after its last call an actor leaves memory; ``drain_timeout`` is what turns get to end at
    the stop, ``rebalance_timeout`` what they get when placement gives their actors to another host. ``app_token`` is
    what daprd must send (``APP_API_TOKEN``); without one only calls from this machine are taken.
    """

    name = "dapr"

    def __init__(
        self,
        app: FastAPI,
        *,
        client: DaprHostClient | None = None,
        app_token: str | None = None,
        idle_timeout: float = 60.0,
        scan_interval: float = 30.0,
        drain_timeout: float = 30.0,
        rebalance_timeout: float = 0.5,
        drain_rebalanced_actors: bool = True,
    ) -> None:
        self._client = client or DaprHostClient()
        self._drain_timeout = drain_timeout
        self._config = ActorRuntimeConfig(
            # Longer than any of our calls waits: see activations.py.
            actor_idle_timeout=timedelta(seconds=max(idle_timeout, self._client.http.timeout + _GRACE)),
            actor_scan_interval=timedelta(seconds=scan_interval),
            drain_ongoing_call_timeout=timedelta(seconds=rebalance_timeout),
            drain_rebalanced_actors=drain_rebalanced_actors,
            reentrancy=ActorReentrancyConfig(enabled=False),
        )
        self._runtime = private_runtime(self._config)
        self._calls = Calls()
        self._activations = Activations(self._managers, idle_timeout)
        self._client.life_of = self._activations.life
        self._tenure = Tenure(self._client.http, lost=self._begin_anew, doubtful=self._forget_idle)
        self._client.is_certain = self._tenure.is_certain_now
        self.stopping = False
        #: The types of actors without which turns of others cannot end.
        self._serving: set[str] = set()
        #: Somebody called as the sidecar would, without its token.
        self.refused_sidecar = False
        self.sidecar_app: ASGIApp = Callbacks(app, self, app_token or os.environ.get("APP_API_TOKEN"))

    @property
    def client(self) -> DaprHostClient:
        return self._client

    @property
    def app_id(self) -> str:
        """As daprd has it; empty before it has said so."""
        return self._client.neighbours.app_id

    @property
    def busy(self) -> int:
        """How many calls of daprd run here."""
        return len(self._calls)

    async def register(self, actor_class: type[Actor]) -> None:
        await register(self._runtime, actor_class, self._client)
        if getattr(actor_class, "serves_turns", False):
            self._serving.add(actor_class.__name__)
        # The SDK itself looks for the names in its own registry only.
        self._config.update_entities(list(self._managers))
        self._client.hosted.update(self._managers)

    async def start(self) -> None:
        """Does not wait for daprd, which waits for this app in its turn."""
        log.info("the sidecar is expected at %s", self._client.http.endpoint)

    async def readiness(self) -> Readiness:
        if self.stopping:
            return Readiness(False, "the host is stopping")
        seen = await look(self._client.http)
        if seen.metadata is None:
            reason = seen.problem
        else:
            reason = seen.metadata.waits_for(self._managers)
            self._client.neighbours.app_id = seen.metadata.app_id
        if reason and self.refused_sidecar:
            reason += " (it was refused: its APP_API_TOKEN is another than this app's)"
        return Readiness(not reason, reason)

    async def active_counts(self) -> dict[str, int]:
        return self._activations.counts()

    async def stop(self) -> None:
        self.stopping = True
        await self._activations.end()
        try:
            async with asyncio.timeout(self._drain_timeout):
                await self._calls.drained()
                await self._tenure.end()
                # Whoever called those turns from here still waits for daprd to pass their answers on.
                await self._client.http.all_answered()
        except TimeoutError:
            log.warning("%d turns did not end within %g s", self.busy, self._drain_timeout)
        await self._tenure.end()
        await self._client.close()

    def configuration(self) -> bytes:
        """What daprd wants to know of this app's actors."""
        return dump(self._config.as_dict())

    async def meet_sidecar(self, app_id: str) -> None:
        """A daprd has just started, and has not called any actor yet.

        The one before it may have left turns behind that still run here, and since then another host may have run our
        actors.
        """
        self._client.neighbours.app_id = app_id
        await self._tenure.end()
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
        """Says no to a timer of a former life of its actor, in this process or in another."""
        body, life = unmark(body)
        if life and not self._activations.is_alive(address, life):
            return False
        await self._turn(address, lambda: self._runtime.fire_timer(address.type, address.id, name, body))
        return True

    async def _turn(self, address: ActorAddress, action: Callable[[], Awaitable[Any]]) -> Any:
        if self.stopping and address.type not in self._serving:
            raise HostStopping
        if address.type not in self._managers:
            raise NotFound(f"This app has no actors of type {address.type}.")
        with self._calls.running(address):
            await self._activations.wanted(address)
            if not await self._tenure.is_certain():
                self._client.epoch += 1
                if self._calls.only_one(address):
                    # For actors with the SDK's state manager, which knows no epoch.
                    await self._activations.drop(address)
            try:
                return await action()
            finally:
                if self._calls.only_one(address):
                    self._activations.released(address)

    async def _begin_anew(self) -> None:
        """Our actors were not ours for a while. What runs since before that changes nothing more."""
        self._client.epoch += 1
        self._calls.revoke_all()
        await self._calls.silent()
        dropped = self._activations.all()
        await self._activations.drop_all(dropped)
        log.info("%d actors that were in memory are read anew", len(dropped))

    async def _forget_idle(self) -> None:
        """Our actors may not have been ours for a while. Those in a turn are left to the epoch."""
        self._client.epoch += 1
        await self._activations.drop_all(address for address in self._activations.all() if not self._calls.any(address))

    @property
    def _managers(self) -> dict[str, ActorManager]:
        return self._runtime._actor_managers
