"""The app that the clients in this folder call: an actor with state, a reminder and a timer; an orchestration.

holdfast serve examples.clients.app:app --grpc-port 50001
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dapr.actor import Actor, ActorInterface, Remindable, actormethod

from holdfast import App, Context

app = App()


def sent(argument: Any) -> Any:
    """Returns the argument of a call, which JavaScript's actor proxy sends in an array."""
    return argument[0] if isinstance(argument, list) else argument


class BasketInterface(ActorInterface):
    @actormethod(name="Add")
    async def add(self, line: dict[str, Any]) -> int: ...

    @actormethod(name="Lines")
    async def lines(self) -> list[dict[str, Any]]: ...

    @actormethod(name="Remind")
    async def remind(self, seconds: float) -> None: ...

    @actormethod(name="Watch")
    async def watch(self, seconds: float) -> None: ...

    @actormethod(name="Fired")
    async def fired(self) -> list[str]: ...

    @actormethod(name="Clear")
    async def clear(self) -> None: ...


@app.actor
class BasketActor(Actor, Remindable, BasketInterface):
    """Lines of an order, and the names of the reminders and timers that fired."""

    async def add(self, line: dict[str, Any]) -> int:
        """Adds a line and returns the number of lines."""
        lines = [*await self.lines(), sent(line)]
        await self._state_manager.set_state("lines", lines)
        return len(lines)

    async def lines(self) -> list[dict[str, Any]]:
        _, lines = await self._state_manager.try_get_state("lines")
        return lines or []

    async def remind(self, seconds: float) -> None:
        """Registers a reminder, which fires also after a restart."""
        await self.register_reminder("reminder", b"", timedelta(seconds=sent(seconds)))

    async def watch(self, seconds: float) -> None:
        """Registers a timer, which fires while the actor is in memory."""
        await self.register_timer("timer", self.on_timer, "timer", timedelta(seconds=sent(seconds)), None)

    async def fired(self) -> list[str]:
        """Returns the names of what fired, in alphabetical order."""
        _, fired = await self._state_manager.try_get_state("fired")
        return fired or []

    async def clear(self) -> None:
        """Removes everything. Takes no argument and returns nothing."""
        for name in ("lines", "fired"):
            await self._state_manager.try_remove_state(name)

    async def receive_reminder(self, name: str, state: bytes, due_time: Any, period: Any, ttl: Any = None) -> None:
        await self._fire(name)

    async def on_timer(self, name: str) -> None:
        await self._fire(name)

    async def _fire(self, name: str) -> None:
        # A reminder can fire twice.
        await self._state_manager.set_state("fired", sorted({*await self.fired(), name}))


@app.activity
def ship(line: str) -> str:
    return f"{line} is on its way"


@app.orchestration
async def order(ctx: Context, lines: list[str]) -> list[str]:
    return [await ctx.call(ship, line) for line in lines]
