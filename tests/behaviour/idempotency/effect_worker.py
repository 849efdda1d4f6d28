"""A program that handles messages once, and may die at it: ``python effect_worker.py URL QUEUE FILE [STEP]``.

Its effect is a line in the file. At the step it is to die at, it ends as with ``kill -9``: ``begin``, ``begun``,
``done`` (the effect has happened and is not recorded) or ``recorded`` (the message is not acknowledged).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import Client
from holdfast.client import Idempotency
from holdfast.client.idempotency import IdempotencyCalls

if TYPE_CHECKING:
    from holdfast.client import Message


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def happen(file: Path, what: str) -> None:
    with file.open("a") as effects:
        effects.write(f"{what}\n")


class Dying(IdempotencyCalls):
    """Asks as ever, and dies before or after."""

    step = ""

    async def _send(self, what: str, body: bytes) -> dict[str, Any]:
        if (what, self.step) == ("begin", "begin"):
            die()
        answer = await super()._send(what, body)
        if (what, self.step) in (("begin", "begun"), ("commit", "recorded")):
            die()
        return answer


async def main(url: str, queue: str, file: str, step: str = "") -> None:
    from holdfast.client import idempotent_handler as once

    Dying.step = step
    once.IdempotencyCalls = Dying  # type: ignore[misc]

    async def handler(message: Message) -> Any:
        happen(Path(file), message.item)
        if step == "done":
            die()
        return {"handled": message.item}

    async with Client(url) as client:
        await client.queue(queue).consume(handler, ttl_seconds=1, idempotency=Idempotency(lease_seconds=1))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
