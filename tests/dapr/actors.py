"""Actors for the tests of the Dapr host. They run in the test's own process, so tests share memory with them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from typing import Any

from dapr.actor import Actor, ActorInterface, Remindable
from dapr.actor.runtime.failure_policy import ActorReminderFailurePolicy

from holdfast import errors
from holdfast.runtime.unit_of_work import DurableActor

#: Opened by a test; awaited by a turn.
gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
#: Set by a turn when it stands at the gate of the same name.
reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
#: What reminders did, by actor.
fired: defaultdict[str, list[str]] = defaultdict(list)


class Tally(DurableActor, ActorInterface):
    """Counts, and remembers between turns."""

    async def add(self, by: int) -> int:
        async with self.work.turn() as turn:
            count: int = (await turn.load("count") or 0) + by
            turn.put("count", count)
        return count

    async def get(self) -> int:
        async with self.work.turn() as turn:
            return await turn.load("count") or 0

    async def where(self) -> int:
        """Which host this is, without a turn."""
        return id(self.host)

    async def add_at_gate(self, gate: str) -> int:
        """Stands between reading and saving until the gate is opened."""
        async with self.work.turn() as turn:
            count: int = (await turn.load("count") or 0) + 1
            reached[gate].set()
            async with asyncio.timeout(60):
                await gates[gate].wait()
            turn.put("count", count)
        return count


class Shelf(DurableActor, ActorInterface):
    """Keeps values of any size under any keys."""

    async def put(self, values: dict[str, Any]) -> None:
        async with self.work.turn() as turn:
            for key, value in values.items():
                turn.put(key, value)

    async def get(self, keys: list[str]) -> list[Any]:
        async with self.work.turn() as turn:
            return await turn.load_all(*keys)

    async def echo(self, value: Any) -> Any:
        return value


class Plain(Actor, ActorInterface):
    """As Dapr's documentation writes actors: the SDK's state manager keeps what it read."""

    async def add(self, by: int) -> int:
        found, count = await self._state_manager.try_get_state("count")
        count = (count if found else 0) + by
        await self._state_manager.set_state("count", count)
        return count

    async def add_at_gate(self, gate: str) -> int:
        """Stands between reading and saving until the gate is opened."""
        found, count = await self._state_manager.try_get_state("count")
        reached[gate].set()
        async with asyncio.timeout(60):
            await gates[gate].wait()
        count = (count if found else 0) + 1
        await self._state_manager.set_state("count", count)
        return count


class Grumpy(Actor, ActorInterface):
    """Fails in the way that its caller names."""

    async def refuse(self, code: str) -> None:
        raise errors.by_code(code, 'No {such} "thing": (500) ünï.', thing={"id": 7}, hint="kept")

    async def break_down(self) -> None:
        raise RuntimeError("the password is hunter2")

    async def relay(self, call: dict[str, Any]) -> None:
        await self.runtime_ctx.dapr_client.invoke_method(
            call["type"], call["id"], call["method"], call["body"].encode()
        )


class Reminded(Actor, Remindable, ActorInterface):
    """Registers reminders, and fails or registers again when one fires."""

    async def register(self, reminder: dict[str, Any]) -> None:
        await self._register(reminder)

    async def receive_reminder(self, name: str, state: bytes, due_time: Any, period: Any, ttl: Any = None) -> None:
        plan: dict[str, Any] = self.runtime_ctx.message_serializer.deserialize(state)
        times = len(fired[self.id.id])
        if times < plan.get("failures", 0):
            fired[self.id.id].append("failed")
            raise errors.Unavailable("not yet")
        fired[self.id.id].append("fired")
        if times < plan.get("again", 0):
            await self._register({**plan, "name": name})
            if times < plan.get("fail_after", 0):
                raise errors.Unavailable("too late")

    async def _register(self, reminder: dict[str, Any]) -> None:
        interval = reminder.get("retry_every")
        await self.register_reminder(
            reminder["name"],
            self.runtime_ctx.message_serializer.serialize(reminder),
            due_time=timedelta(seconds=reminder.get("due", 0)),
            period=None,
            failure_policy=interval
            and ActorReminderFailurePolicy.constant_policy(interval=timedelta(seconds=interval)),
        )


class Planned(DurableActor, Remindable, ActorInterface):
    """Has a deadline that nothing but its reminder comes for."""

    async def plan(self, seconds: float) -> None:
        async with self.work.turn() as turn:
            turn.put("planned", seconds)
            turn.wake_at(self.now() + seconds)


class Ticking(Actor, ActorInterface):
    """Starts timers."""

    async def start(self, timer: dict[str, Any]) -> None:
        due = timedelta(seconds=timer["due"])
        await self.register_timer(timer["name"], self.tick, timer["name"], due, None)

    async def tick(self, name: str) -> None:
        fired[self.id.id].append(name)


ACTORS: tuple[type[Actor], ...] = (Tally, Shelf, Plain, Grumpy, Reminded, Planned, Ticking)
