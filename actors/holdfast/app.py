"""The app: the orchestrations, activities and actors that a program registers with a Holdfast server."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.orchestration.boxes import Boxes
from holdfast.orchestration.definitions import ACTIVITIES, Activity, Orchestration, definition_of, resolve_local_types
from holdfast.orchestration.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Importing it takes half a second, which programs that only use the client should not wait for.
    from dapr.actor import Actor

    from holdfast.orchestration.boxes import Declaration
    from holdfast.schedules.core.schedule import Overlap

ActorClass = TypeVar("ActorClass", bound="type[Actor]")
Function = TypeVar("Function", bound="Callable[..., Any]")


class App:
    """The orchestrations, activities and actors of one program. ``holdfast serve MODULE:APP`` runs it on any host."""

    def __init__(self) -> None:
        self._actors: dict[str, type[Actor]] = {}
        #: The orchestrations and activities of this app.
        self.registry = Registry()

    @property
    def actors(self) -> list[type[Actor]]:
        return list(self._actors.values())

    def actor(self, actor_class: ActorClass) -> ActorClass:
        """Registers an ordinary Dapr actor class, which every host can run."""
        known = self._actors.setdefault(actor_class.__name__, actor_class)
        if known is not actor_class:
            raise ValueError(f"two actor classes are called {actor_class.__name__}: {known} and {actor_class}")
        return actor_class

    @overload
    def orchestration(self, function: Function) -> Function: ...
    @overload
    def orchestration(
        self,
        *,
        name: str | None = None,
        version: str = "1",
        mailboxes: Declaration = (),
        requests: Declaration = (),
        timeout_seconds: float | None = None,
        retention_seconds: float | None = None,
    ) -> Callable[[Function], Function]: ...
    def orchestration(
        self,
        function: Function | None = None,
        *,
        name: str | None = None,
        version: str = "1",
        mailboxes: Declaration = (),
        requests: Declaration = (),
        timeout_seconds: float | None = None,
        retention_seconds: float | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Registers an ``async def`` that takes a context and at most one input. Returns the function unchanged.

        Running instances keep the version they started with; a start without a version uses the version declared
        last. Events raised under the name of a mailbox are kept, in order, until ``ctx.receive`` receives them. With
        types, ``mailboxes={"orders": Order}``, events that do not fit are refused when they are raised.
        Requests are received by ``ctx.request``, which replies to their sender; they can have types, too.

        After ``timeout_seconds`` from its first execution's start an instance is cancelled, and fails with kind
        ``timeout``; it has a minute to clean up. ``retention_seconds`` after its end it is deleted; by default the
        server's ``--retention`` decides.
        """
        local_names = sys._getframe(1).f_locals

        def register(function: Function) -> Function:
            definition = Orchestration(
                name=name or function.__name__,
                function=function,
                version=version,
                mailboxes=Boxes(mailboxes),
                requests=Boxes(requests, "request"),
                timeout_seconds=timeout_seconds,
                retention_seconds=retention_seconds,
            )
            resolve_local_types(definition, local_names)
            self.registry.add_orchestration(definition)
            return function

        return register if function is None else register(function)

    def schedule(
        self,
        cron: str | None = None,
        *,
        every_seconds: int | None = None,
        input: Any = None,  # noqa: A002
        timezone: str = "UTC",
        overlap: Overlap = "skip",
        catch_up_seconds: int = 60,
        jitter_seconds: int = 0,
        tags: Mapping[str, str] | None = None,
    ) -> Callable[[Function], Function]:
        """Starts an orchestration at the times of a cron expression, or at an interval. Goes above its decorator.

        The schedule has the name of the orchestration. A deploy changes its definition, and never whether it is paused;
        a schedule that is no longer declared is paused.
        """
        given = {
            "cron": cron,
            "every_seconds": every_seconds,
            "timezone": timezone,
            "overlap": overlap,
            "catch_up_seconds": catch_up_seconds,
            "jitter_seconds": jitter_seconds,
            "tags": None if tags is None else dict(tags),
        }

        def register(function: Function) -> Function:
            definition = definition_of(function)
            if not isinstance(definition, Orchestration):
                raise TypeError("@app.schedule goes above @app.orchestration.")
            sent = json.loads(definition.input.dump(input))
            declared = {"orchestration": definition.name, "input": sent} | given
            try:
                from holdfast.schedules.api.requests import Put, check_schedule_name
            except ModuleNotFoundError:
                pass  # an installation of the client alone, which runs no schedules
            else:
                check_schedule_name(definition.name)
                Put.parse(declared).definition()
            self.registry.add_schedule(declared)
            return function

        return register

    @overload
    def activity(self, function: Function) -> Function: ...
    @overload
    def activity(
        self,
        *,
        name: str | None = None,
        queue: str = ACTIVITIES,
        lock_seconds: int = 30,
        timeout: float | None = None,
        max_deliveries: int | None = None,
        idempotent: bool = False,
    ) -> Callable[[Function], Function]: ...
    def activity(
        self,
        function: Function | None = None,
        *,
        name: str | None = None,
        queue: str = ACTIVITIES,
        lock_seconds: int = 30,
        timeout: float | None = None,
        max_deliveries: int | None = None,
        idempotent: bool = False,
    ) -> Function | Callable[[Function], Function]:
        """Registers a function, async or not, that takes at most one input. Returns the function unchanged."""
        local_names = sys._getframe(1).f_locals

        def register(function: Function) -> Function:
            definition = Activity(
                name=name or function.__name__,
                function=function,
                queue=queue,
                lock_seconds=lock_seconds,
                timeout=timeout,
                max_deliveries=max_deliveries,
                idempotent=idempotent,
            )
            resolve_local_types(definition, local_names)
            self.registry.add_activity(definition)
            return function

        return register if function is None else register(function)
