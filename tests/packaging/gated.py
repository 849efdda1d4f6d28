"""An app whose one actor saves when it is let: a turn that still runs while its pod ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dapr.actor import ActorInterface, actormethod

from holdfast import App
from holdfast.runtime.unit_of_work import DurableActor

app = App()


class GatedInterface(ActorInterface):
    @actormethod(name="Save")
    async def save(self, value: str) -> str: ...

    @actormethod(name="Get")
    async def get(self) -> str: ...


@app.actor
class GatedActor(DurableActor, GatedInterface):
    async def save(self, value: str) -> str:
        gate = Path(os.environ["GATE"])
        async with self.work.turn() as turn:
            gate.with_suffix(".reached").touch()
            # Nothing to await: the test that opens it is another process.
            while not gate.with_suffix(".open").exists():
                await asyncio.sleep(0.02)
            turn.put("value", value)
        return value

    async def get(self) -> str:
        async with self.work.turn() as turn:
            return str(await turn.load("value"))
