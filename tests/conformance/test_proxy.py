"""The official SDK's ``ActorProxy`` works against every host, unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

from tests.conformance import official_proxy
from tests.conformance.hosts import SERVED, on_hosts

if TYPE_CHECKING:
    from tests.support.stacks.served import ServedStack


@on_hosts(*SERVED)
async def test_the_official_proxy(stack: ServedStack) -> None:
    sidecar = {"DAPR_RUNTIME_HOST": "127.0.0.1", "DAPR_HTTP_PORT": str(stack.api_port)}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, official_proxy.__file__, "official"),
        env={**os.environ, **sidecar},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, _ = await program.communicate()
    assert program.returncode == 0
    *counts, code, message = json.loads(output)
    assert counts == [5, 5, 7]
    assert code == "ERR_ACTOR_INVOKE_METHOD"
    assert '"errorCode":"NOT_FOUND"' in message
    assert await stack.call("Counter", "official", "Get") == 7
