"""A counter that survives restarts: one actor class that runs on the embedded host and on Dapr.

holdfast serve examples.counter:app
curl -X POST http://127.0.0.1:8080/v1.0/actors/CounterActor/demo/method/Add -d 1
"""

from __future__ import annotations

from dapr.actor import ActorInterface, actormethod

from holdfast import App, DurableActor

app = App()


class CounterInterface(ActorInterface):
    @actormethod(name="Add")
    async def add(self, amount: int) -> int: ...

    @actormethod(name="Get")
    async def get(self) -> int: ...


@app.actor
class CounterActor(DurableActor, CounterInterface):
    async def add(self, amount: int) -> int:
        async with self.work.turn() as turn:
            total = (await turn.load("total") or 0) + amount
            turn.put("total", total)
        return total

    async def get(self) -> int:
        async with self.work.turn() as turn:
            return await turn.load("total") or 0
