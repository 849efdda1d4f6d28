"""The SDK's actor runtime, one of its own for each host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dapr.actor import ActorRuntime

if TYPE_CHECKING:
    from dapr.actor.runtime.config import ActorRuntimeConfig


def private_runtime(config: ActorRuntimeConfig) -> type[ActorRuntime]:
    # The SDK keeps its registry in class attributes, one for the whole process. A class of its own keeps two hosts,
    # or two tests, apart.
    return type(
        "PrivateActorRuntime",
        (ActorRuntime,),
        {"_actor_config": config, "_actor_managers": {}, "_actor_managers_lock": asyncio.Lock()},
    )
