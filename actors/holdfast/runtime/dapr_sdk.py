"""The SDK's actor runtime, a separate one for each host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dapr.actor import ActorRuntime
from dapr.actor.runtime.manager import ActorManager
from dapr.serializers import Serializer

from holdfast.errors import HoldfastError, InvalidRequest, SettingsError
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dapr.actor import Actor
    from dapr.actor.id import ActorId
    from dapr.actor.runtime.config import ActorRuntimeConfig
    from dapr.actor.runtime.method_context import ActorMethodContext

    from holdfast.runtime.contract import HostClient


class JsonSerializer(Serializer):
    """The serializer of all of Holdfast's actors, for messages and for state."""

    def serialize(self, obj: object, custom_hook: Callable[[object], bytes] | None = None) -> bytes:
        return custom_hook(obj) if custom_hook else dump(obj)

    def deserialize(
        self,
        data: bytes,
        data_type: type | None = object,
        custom_hook: Callable[[bytes], object] | None = None,
    ) -> Any:
        if custom_hook:
            return custom_hook(data)
        try:
            return load(data) if data else None
        except ValueError as error:
            raise InvalidRequest(f"The body is not JSON: {error}.") from error


class ResettingManager(ActorManager):
    """Clears the cached state of an actor whose call failed with a HoldfastError.

    The SDK (1.18) does that for errors of its own family only, so a failed save would leave its changes in memory.
    """

    async def _dispatch_internal(
        self,
        actor_id: ActorId,
        method_context: ActorMethodContext,
        dispatch_action: Callable[[Actor], Coroutine[Any, Any, bytes | None]],
    ) -> object:
        ran: Actor | None = None

        async def action(actor: Actor) -> bytes | None:
            # Not looked up after the failure: another activation may have taken this one's place by then.
            nonlocal ran
            ran = actor
            return await dispatch_action(actor)

        try:
            return await super()._dispatch_internal(actor_id, method_context, action)
        except HoldfastError as error:
            if ran is not None:
                await ran._on_invoke_failed_internal(error)  # type: ignore[no-untyped-call]
            raise


def private_runtime(config: ActorRuntimeConfig) -> type[ActorRuntime]:
    # The SDK has its registry in class attributes, shared by the whole process. A class per host separates two hosts,
    # or two tests.
    return type(
        "PrivateActorRuntime",
        (ActorRuntime,),
        {"_actor_config": config, "_actor_managers": {}, "_actor_managers_lock": asyncio.Lock()},
    )


async def register(runtime: type[ActorRuntime], actor_class: type[Actor], client: HostClient) -> None:
    """Registers an actor class. Raises SettingsError for a second one of the same name, which the SDK would accept."""
    if known := runtime._actor_managers.get(actor_class.__name__):
        first = known._runtime_ctx.actor_type_info.implementation_type
        if first is actor_class:
            return
        raise SettingsError(
            f"Two actor classes are called {actor_class.__name__}, one in {first.__module__} and one in "
            f"{actor_class.__module__}: rename one of them, because the class name is the actor type."
        )
    serializer = JsonSerializer()
    await runtime.register_actor(
        actor_class, message_serializer=serializer, state_serializer=serializer, actor_client=client
    )
    context = runtime._actor_managers[actor_class.__name__]._runtime_ctx
    runtime._actor_managers[actor_class.__name__] = ResettingManager(context)
