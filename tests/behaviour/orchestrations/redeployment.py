"""Deploys other code: the app is stopped or killed, and started with the orchestrations of ``changing_definitions``."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.rest import Server
    from tests.support.runs import Run

FILE = "deployed.json"


class Deploys:
    """Deploys other code on a server, with a restart each time."""

    def __init__(self, server: Server) -> None:
        self._stack = server.stack

    async def deploy(self, *, kill: bool = False, hash_seed: str | None = None, **changes: Any) -> None:
        """Starts the app with some changes of ``changing_definitions``; without any it is the first code again."""
        (self._stack.folder / FILE).write_text(json.dumps(changes))
        if kill:
            await self._stack.kill_app()
        else:
            assert await self._stack.stop_app() == 0
        [app] = [process for process in self._stack.processes if process.name == "app"]
        app.environment["PYTHONHASHSEED"] = hash_seed or "random"
        await self._stack.start_app()


@asynccontextmanager
async def deploys(server: Server) -> AsyncIterator[Deploys]:
    """Afterwards the first code is deployed again."""
    changing = Deploys(server)
    try:
        yield changing
    finally:
        await changing.deploy(kill=True)


async def blocked(run: Run) -> Any:
    """Until it is BLOCKED: the reason."""

    async def reason() -> Any:
        answer = await run.get("")
        return answer.body.get("blocked") if answer.status == 200 else None

    found = await eventually(reason, within=30)
    status = await run.status()
    assert (status["status"], status["error"], status["ended_at"]) == ("BLOCKED", None, None)
    return found


def release(run: Run) -> None:
    """Lets the activities of an instance end."""
    (run.server.stack.folder / f"released-{run.id}").touch()
