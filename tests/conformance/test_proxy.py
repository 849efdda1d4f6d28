"""The official SDK works against every host, unchanged: its ``ActorProxy`` and its ``DaprClient``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conformance import official_client, official_proxy
from tests.conformance.hosts import SERVED, on_hosts
from tests.support.stacks.served import APP_ID

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
    nothing, *counts, code, message = json.loads(output)
    assert (nothing, counts) == (None, [5, 5, 7])
    assert code == "ERR_ACTOR_INVOKE_METHOD"
    assert '"errorCode":"NOT_FOUND"' in message
    assert await stack.call("Counter", "official", "Get") == 7


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@on_hosts(*SERVED)
async def test_the_official_client(stack: ServedStack, protocol: str) -> None:
    sidecar = {
        "DAPR_RUNTIME_HOST": "127.0.0.1",
        "DAPR_HTTP_PORT": str(stack.api_port),
        "DAPR_GRPC_PORT": str(stack.grpc_port),
        "DAPR_API_METHOD_INVOCATION_PROTOCOL": protocol,
    }
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, official_client.__file__, APP_ID, f"official-{protocol}"),
        env={**os.environ, **sidecar},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        output, _ = await program.communicate()
    assert program.returncode == 0
    seen = json.loads(output)
    refusal = {"http": 423, "grpc": "UNKNOWN"}[protocol]
    assert seen["invoked"] == [1, [{"task": 1}], refusal, 1, 0]
    assert seen["later"] == 1
    # Data of a timer over gRPC are bytes, which reach the actor in base64.
    assert seen["actors"] == [5, 5, 5, {"a": [1.5, None]}, "", ["eyJhIjoxfQ=="], {"far": 1}]
