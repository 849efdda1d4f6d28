"""The clients of `examples/clients`, with the real SDKs, on the embedded host and on daprd."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ComponentMissing
from tests.sdks import golang, java, javascript
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.stacks.served import ServedStack

SECONDS_FOR_A_CLIENT = 60

BY_APP_ID = """\
items [{"task_id":123}]
locked 423
wrong lock 400
acknowledged 1
COMPLETED ["oar is on its way","rope is on its way"]
"""
BY_ACTOR_PROXY = """\
items [{"task_id":124}]
locked true
wrong lock INVALID_LOCK_ID
acknowledged 1
COMPLETED ["oar is on its way","rope is on its way"]
"""


OWN_ACTOR = """\
basket 1 oar
fired reminder timer
cleared 0
"""

#: What starts each client, and its arguments.
CLIENTS: dict[str, tuple[Callable[[Path], list[str | Path]], list[str]]] = {
    "javascript-http": (javascript.command, ["http", APP_ID]),
    "javascript-grpc": (javascript.command, ["grpc", APP_ID]),
    "go": (golang.command, [APP_ID]),
    "java": (java.command, [APP_ID]),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_queues_orchestrations_and_an_own_actor(stack: ServedStack, tmp_path: Path, client: str) -> None:
    command, arguments = CLIENTS[client]
    output = said(stack, [*prepared(command, tmp_path), *arguments])
    assert output == BY_APP_ID + BY_ACTOR_PROXY + OWN_ACTOR


def prepared(command: Callable[[Path], list[str | Path]], folder: Path) -> list[str | Path]:
    try:
        return command(folder)
    except ComponentMissing as error:
        pytest.fail(str(error), pytrace=False)


def said(stack: ServedStack, command: list[str | Path]) -> str:
    """Runs a client that has the stack as its sidecar, and returns what it prints."""
    output = ""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DAPR_")},
        "DAPR_HTTP_PORT": str(stack.api_port),
        "DAPR_GRPC_PORT": str(stack.grpc_port),
    }

    async def run() -> None:
        nonlocal output
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            written, errors = await asyncio.wait_for(process.communicate(), SECONDS_FOR_A_CLIENT)
        except TimeoutError:
            process.kill()
            raise
        output = written.decode()
        assert process.returncode == 0, f"{output}\n{errors.decode()}"

    stack.run(run())
    return output
