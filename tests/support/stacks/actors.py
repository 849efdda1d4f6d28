"""The actors of the suite. They are written once and know nothing of the host they run on.

Some keep their state as Dapr's own documentation shows it, with the SDK's state manager; the others use Holdfast's
unit of work. An actor of the second kind can be told to break its own next save.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from dapr.actor import Actor, ActorInterface, Remindable, actormethod
from dapr.actor.runtime.failure_policy import ActorReminderFailurePolicy

from holdfast import errors
from holdfast.runtime.unit_of_work import DurableActor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.runtime.contract import HostClient, StateChange

#: What happened in this process, and dies with it.
_barriers: dict[str, asyncio.Barrier] = {}
_gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
_lives: defaultdict[str, list[str]] = defaultdict(list)


def forget_the_process() -> None:
    """For a host that only pretends to be a process that ends."""
    for memory in (_barriers, _gates, _lives):
        memory.clear()


PARTS = tuple(f"part-{number}" for number in range(8))


class CounterInterface(ActorInterface):
    @actormethod(name="Add")
    async def add(self, by: int) -> int: ...

    @actormethod(name="Get")
    async def get(self) -> int: ...


class Counter(Actor, CounterInterface):
    """An actor as Dapr's documentation writes it."""

    async def add(self, by: int) -> int:
        value = await self.get() + by
        await self._state_manager.set_state("count", value)
        return value

    async def get(self) -> int:
        _, value = await self._state_manager.try_get_state("count")
        return value or 0


class Shelf(Actor, ActorInterface):
    """Keeps any value under any key, with the SDK's state manager."""

    async def put(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            await self._state_manager.set_state(key, value)

    async def get(self, key: str) -> list[Any]:
        """Nothing, or one value."""
        found, value = await self._state_manager.try_get_state(key)
        return [value] if found else []

    async def remove(self, key: str) -> bool:
        return bool(await self._state_manager.try_remove_state(key))

    async def put_and_refuse(self, values: dict[str, Any]) -> None:
        await self.put(values)
        raise errors.InvalidRequest("refused after it was put")


class Keeper(DurableActor, ActorInterface):
    """Keeps any value under any key, with the unit of work."""

    async def put(self, values: dict[str, Any]) -> None:
        async with self.work.turn() as turn:
            for key, value in values.items():
                turn.put(key, value)

    async def get(self, key: str) -> list[Any]:
        """Nothing, or one value."""
        async with self.work.turn() as turn:
            value = await turn.load(key)
        return [] if value is None else [value]

    async def remove(self, key: str) -> bool:
        async with self.work.turn() as turn:
            found = await turn.load(key)
            turn.delete(key)
        return found is not None

    async def put_and_refuse(self, values: dict[str, Any]) -> None:
        async with self.work.turn() as turn:
            for key, value in values.items():
                turn.put(key, value)
            raise errors.InvalidRequest("refused after it was put")

    async def put_and_break(self, values: dict[str, Any]) -> None:
        async with self.work.turn() as turn:
            for key, value in values.items():
                turn.put(key, value)
            raise RuntimeError("an error that is not expected")

    async def echo(self, value: Any) -> Any:
        return value

    async def nothing(self) -> None:
        """Takes no argument, and returns nothing."""


class Ledger(DurableActor, ActorInterface):
    """Writes one number into several keys: they are never seen to differ."""

    async def write(self, number: int) -> int:
        async with self.work.turn() as turn:
            for part in PARTS:
                turn.put(part, number)
        return number

    async def write_slowly(self, write: dict[str, Any]) -> int:
        """A turn that takes a second after it has been seen at the gate."""
        async with self.work.turn() as turn:
            _gates[write["gate"]].set()
            await asyncio.sleep(1)
            for part in PARTS:
                turn.put(part, write["number"])
        return int(write["number"])

    async def add(self, by: int) -> int:
        async with self.work.turn() as turn:
            number: int = (await turn.load(PARTS[0]) or 0) + by
            for part in PARTS:
                turn.put(part, number)
        return number

    async def read(self) -> list[Any]:
        async with self.work.turn() as turn:
            return await turn.load_all(*PARTS)

    async def break_next_save(self, how: str) -> None:
        self.host = cast("HostClient", FaultyHost(self.host, how))


class FaultyHost:
    """A host whose next save is ``refused``, or done and ``unanswered``; or whose next read fails."""

    def __init__(self, host: HostClient, fault: str) -> None:
        self._host = host
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def load_state(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        if self._fault == "unreadable":
            self._fault = ""
            raise OSError("the store did not answer")
        return await self._host.load_state(actor_type, actor_id, keys)

    async def save_state(self, actor_type: str, actor_id: str, changes: Sequence[StateChange]) -> None:
        fault, self._fault = self._fault, ""
        if fault == "refused":
            raise OSError("the store refused it")
        await self._host.save_state(actor_type, actor_id, changes)
        if fault == "unanswered":
            raise TimeoutError("the store did not answer")


class Recorder(Actor, ActorInterface):
    """Records when its turns begin and end, in memory."""

    def __init__(self, ctx: Any, actor_id: Any) -> None:
        super().__init__(ctx, actor_id)
        self._log: list[str] = []

    async def record(self, name: str) -> None:
        self._log.append(f"begin {name}")
        await asyncio.sleep(0.01)
        self._log.append(f"end {name}")

    async def hold(self, gate: str) -> None:
        """A turn that lasts until the gate is opened."""
        self._log.append(f"begin {gate}")
        async with asyncio.timeout(30):
            await _gates[gate].wait()
        self._log.append(f"end {gate}")

    async def log(self) -> list[str]:
        return self._log


class Porter(Actor, ActorInterface):
    """Opens gates, and says who stands at one."""

    async def open(self, gate: str) -> None:
        _gates[gate].set()

    async def awaited(self, gate: str) -> bool:
        return gate in _gates


class Guest(Actor, ActorInterface):
    """Its turn ends when so many others' have begun."""

    async def meet(self, party: dict[str, Any]) -> None:
        barrier = _barriers.setdefault(party["name"], asyncio.Barrier(party["size"]))
        async with asyncio.timeout(15):
            await barrier.wait()


class Reminded(Actor, Remindable, ActorInterface):
    """Reminders as Dapr's documentation writes them; what fired is in its state."""

    async def register(self, reminder: dict[str, Any]) -> None:
        await self._register(reminder)
        await self._state_manager.set_state(f"script.{reminder['name']}", reminder)

    async def cancel(self, name: str) -> None:
        await self.unregister_reminder(name)

    async def fired(self) -> list[dict[str, Any]]:
        _, fired = await self._state_manager.try_get_state("fired")
        return fired or []

    async def receive_reminder(self, name: str, state: bytes, due_time: Any, period: Any, ttl: Any = None) -> None:
        script: Any = await self._state_manager.get_state(f"script.{name}")
        failing = script.get("failures", 0) > 0
        at = self._now()
        event = {"name": name, "data": state.decode(), "at": at, "late": at - script["due_at"], "failed": failing}
        await self._state_manager.set_state("fired", [*await self.fired(), event])
        if failing:
            script["failures"] -= 1
        elif script.get("again", 0) > 0:
            script["again"] -= 1
            await self._register(script)
        await self._state_manager.set_state(f"script.{name}", script)
        if failing:
            await self._state_manager.save_state()
            raise errors.Unavailable("not yet")

    async def _register(self, reminder: dict[str, Any]) -> None:
        """With the moment of its first firing, so that it can be seen whether it came early."""
        period, ttl = reminder.get("period"), reminder.get("ttl")
        reminder["due_at"] = self._now() + reminder["due"]
        await self.register_reminder(
            reminder["name"],
            reminder.get("data", "").encode(),
            due_time=timedelta(seconds=reminder["due"]),
            period=None if period is None else timedelta(seconds=period),
            ttl=None if ttl is None else timedelta(seconds=ttl),
            failure_policy=_policy(reminder.get("retry")),
        )

    def _now(self) -> float:
        host: Any = self.runtime_ctx.dapr_client
        return float(host.now())


def _policy(retry: dict[str, Any] | None) -> ActorReminderFailurePolicy | None:
    if retry is None:
        return None
    if retry["max"] == 0:
        return ActorReminderFailurePolicy.drop_policy()
    interval = timedelta(seconds=retry["interval"])
    return ActorReminderFailurePolicy.constant_policy(interval=interval, max_retries=retry["max"])


class Counted(Actor, Remindable, ActorInterface):
    """Counts how often each of its reminders fires; some register or end themselves in the callback."""

    async def register(self, reminders: dict[str, dict[str, Any]]) -> None:
        """By name: the body of Dapr's call, how often to register it ``again``, after which firing to ``end`` it."""
        for name, plan in reminders.items():
            await self._state_manager.set_state(f"plan.{name}", plan)
            await self._register(name, plan)

    async def counts(self) -> dict[str, int]:
        _, counts = await self._state_manager.try_get_state("counts")
        return counts or {}

    async def receive_reminder(self, name: str, state: bytes, due_time: Any, period: Any, ttl: Any = None) -> None:
        plan: Any = await self._state_manager.get_state(f"plan.{name}")
        counts = await self.counts()
        fired = counts.get(name, 0) + 1
        await self._state_manager.set_state("counts", {**counts, name: fired})
        if fired <= plan.get("again", 0):
            await self._register(name, plan)
        if fired == plan.get("end"):
            await self.unregister_reminder(name)

    async def _register(self, name: str, plan: dict[str, Any]) -> None:
        # Past the SDK, which has no words for a period that ends after so many firings.
        await self.runtime_ctx.dapr_client.register_reminder(
            type(self).__name__, self.id.id, name, json.dumps(plan["body"]).encode()
        )


class Alarm(DurableActor, Remindable, ActorInterface):
    """The unit of work's one reminder."""

    async def wake_in(self, seconds: float) -> None:
        async with self.work.turn() as turn:
            turn.put("asked", await turn.load("asked") or 1)
            turn.wake_at(self.now() + seconds)

    async def plan(self, plan: dict[str, int]) -> None:
        """How many of the next calls to fail, and how often to ask to be woken again."""
        async with self.work.turn() as turn:
            turn.put("failures", plan.get("failures", 0))
            turn.put("again", plan.get("again", 0))

    async def woken(self) -> list[Any]:
        async with self.work.turn() as turn:
            return await turn.load("woken") or []

    async def on_wake(self) -> None:
        async with self.work.turn() as turn:
            failures, again, woken = await turn.load_all("failures", "again", "woken")
            turn.put("woken", [*(woken or []), {"at": self.now(), "failed": bool(failures)}])
            if failures:
                turn.put("failures", failures - 1)
            elif again:
                turn.put("again", again - 1)
                turn.wake_at(self.now() + 1)
        if failures:
            raise errors.Unavailable("not yet")


class Timed(Actor, ActorInterface):
    """Timers; what fired is in its state."""

    async def start(self, timer: dict[str, Any]) -> None:
        period = timer.get("period")
        await self.register_timer(
            timer["name"],
            self.tick,
            timer.get("data"),
            timedelta(seconds=timer["due"]),
            None if period is None else timedelta(seconds=period),  # type: ignore[arg-type]
        )
        # The turn that registered it goes on for so long.
        await asyncio.sleep(timer.get("stay", 0))

    async def stop(self, name: str) -> None:
        await self.unregister_timer(name)

    async def tick(self, data: Any) -> None:
        await self._state_manager.set_state("ticks", [*await self.ticks(), data])

    async def ticks(self) -> list[Any]:
        _, ticks = await self._state_manager.try_get_state("ticks")
        return ticks or []


class Faulty(Actor, ActorInterface):
    """Raises the error that its caller names."""

    async def refuse(self, code: str) -> None:
        raise errors.by_code(code, "the suite asked for it", asked=True)

    async def fail(self) -> None:
        raise ValueError("an error that is not expected")


class Caller(Actor, ActorInterface):
    """Calls another actor in its own turn."""

    async def relay(self, call: dict[str, Any]) -> Any:
        serializer = self.runtime_ctx.message_serializer
        body = serializer.serialize(call["data"]) if "data" in call else None
        reply = await self.runtime_ctx.dapr_client.invoke_method(call["type"], call["id"], call["method"], body)
        return serializer.deserialize(reply)


class Mortal(DurableActor, ActorInterface):
    """Tells when it is activated and deactivated, and keeps count of its calls in its state."""

    async def _on_activate(self) -> None:
        _lives[self.id.id].append("activated")

    async def _on_deactivate(self) -> None:
        _lives[self.id.id].append("deactivated")

    async def touch(self) -> int:
        async with self.work.turn() as turn:
            touched: int = (await turn.load("touched") or 0) + 1
            turn.put("touched", touched)
        return touched

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Witness(Actor, ActorInterface):
    """Has seen what became of the mortals of this process."""

    async def lives(self, mortal: str) -> list[str]:
        return _lives[mortal]


ACTORS: tuple[type[Actor], ...] = (
    Counter,
    Shelf,
    Keeper,
    Ledger,
    Recorder,
    Porter,
    Guest,
    Reminded,
    Counted,
    Alarm,
    Timed,
    Faulty,
    Caller,
    Mortal,
    Witness,
)
