"""The actors that are measured: one class for every host, in one app that every stack serves."""

# The SDK has no types, and an actor's interface no bodies.
# mypy: disable-error-code="untyped-decorator, empty-body"

from __future__ import annotations

import ctypes
import gc
import time
from typing import Any

from dapr.actor import ActorInterface, actormethod

from holdfast import App
from holdfast.runtime.unit_of_work import DurableActor

app = App()

TARGET = "BenchTarget"
DRIVER = "BenchDriver"


class BenchTargetInterface(ActorInterface):
    @actormethod(name="Nothing")
    async def nothing(self) -> None: ...

    @actormethod(name="Save")
    async def save(self) -> int: ...


@app.actor
class BenchTarget(DurableActor, BenchTargetInterface):
    async def nothing(self) -> None:
        return None

    async def save(self) -> int:
        """A durable turn: one key changes, and the answer comes when it is saved."""
        async with self.work.turn() as turn:
            count = (await turn.load("count") or 0) + 1
            turn.put("count", count)
        return count


class BenchDriverInterface(ActorInterface):
    @actormethod(name="CallFor")
    async def call_for(self, request: dict[str, Any]) -> int: ...

    @actormethod(name="CallEach")
    async def call_each(self, request: dict[str, Any]) -> int: ...

    @actormethod(name="Trim")
    async def trim(self) -> None: ...


@app.actor
class BenchDriver(DurableActor, BenchDriverInterface):
    """Calls other actors from within a turn: in the same process on the embedded host, through daprd on Dapr."""

    async def call_for(self, request: dict[str, Any]) -> int:
        """Calls one target, one call after the other, until the seconds are over; returns the number of calls."""
        target, method = request["target"], request["method"]
        deadline = time.perf_counter() + request["seconds"]
        calls = 0
        while time.perf_counter() < deadline:
            await self.host.invoke_method(TARGET, target, method)
            calls += 1
        return calls

    async def call_each(self, request: dict[str, Any]) -> int:
        """Calls each target of a numbered range once; returns the number of calls."""
        numbers = range(request["first"], request["last"])
        for number in numbers:
            await self.host.invoke_method(TARGET, f"{request['prefix']}{number}", request["method"])
        return len(numbers)

    async def trim(self) -> None:
        """Gives the system back what Python has freed already but keeps for later."""
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)
