"""The SDK's actor runtime, one of its own for each host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dapr.actor import ActorRuntime

from holdfast.errors import SettingsError
from holdfast.runtime.serialization import JsonSerializer

if TYPE_CHECKING:
    from dapr.actor import Actor
    from dapr.actor.runtime.config import ActorRuntimeConfig

    from holdfast.runtime.contract import HostClient


def private_runtime(config: ActorRuntimeConfig) -> type[ActorRuntime]:
    # The SDK keeps its registry in class attributes, one for the whole process. A class of its own keeps two hosts,
    # or two tests, apart.
    return type(
        "PrivateActorRuntime",
        (ActorRuntime,),
        {"_actor_config": config, "_actor_managers": {}, "_actor_managers_lock": asyncio.Lock()},
    )


async def register(runtime: type[ActorRuntime], actor_class: type[Actor], client: HostClient) -> None:
    """Raises SettingsError for a second class of a name: the SDK would put it in the place of the first in silence."""
    if known := runtime._actor_managers.get(actor_class.__name__):
        first = known._runtime_ctx.actor_type_info.implementation_type
        if first is actor_class:
            return
        raise SettingsError(
            f"Two actor classes are called {actor_class.__name__}, one in {first.__module__} and one in "
            f"{actor_class.__module__}: rename one of them, for its name is its actor type."
        )
    serializer = JsonSerializer()
    await runtime.register_actor(
        actor_class, message_serializer=serializer, state_serializer=serializer, actor_client=client
    )
