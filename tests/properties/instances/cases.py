"""The calls of a user on an instance, and the expected outcome."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import SubOrchestrationFailed
from holdfast.kinds import ORCHESTRATION_TYPE
from tests.properties.instances.programs import UNFIT

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable

    from tests.properties.instances.server import Server

#: How long an instance may take to its end when nothing is wrong any more and everything it waits for has happened.
PATIENCE = 600.0
#: How late the index may be.
LISTED_WITHIN = 60.0
#: What a clock is ahead by for the one turn in which it is wrong.
A_DAY = 86_400.0
#: A letter with this goes many times into what one transaction may write.
LOAD = "x" * 200

EXPECTED: dict[str, Callable[[int], Any]] = {
    "in_a_row": lambda number: number * (number - 1),
    "side_by_side": lambda number: [2 * step for step in range(number)],
    "on_two_queues": lambda number: [factor * step for step in range(number) for factor in (2, 3)],
    "patient": lambda number: [True, number],
    "family": lambda number: [*(size * (size - 1) for size in range(number)), SubOrchestrationFailed.__name__],
    "again_and_again": lambda number: number + 1,
    "long_winded": lambda number: number,
    "unordered": lambda number: {
        "doubles": [2 * step for step in range(number)],
        "naps": [True] * number,
        "children": [step * (step - 1) for step in range(number)],
    },
}
CHANGED = frozenset(name for _, names in UNFIT.values() for name in names)


@dataclass(kw_only=True)
class Case:
    """An instance: :meth:`drive` acts as its user during faults, :meth:`check` runs after the last fault."""

    instance_id: str
    name: str
    number: int
    #: When its user begins, in seconds.
    begins_at: float
    random: random.Random
    #: Whether its start was acknowledged.
    started: bool = field(default=False, init=False)
    #: How it must end.
    status: str = field(default="COMPLETED", init=False)
    #: Whether it is there in the end.
    kept: bool = field(default=True, init=False)

    async def drive(self, server: Server) -> None:
        await self.start(server, self.number)

    async def check(self, server: Server) -> None:
        status = await self.ended(server)
        assert (status["status"], status["output"]) == (self.status, self.expected()), status
        if self.name == "in_a_row":
            assert status["custom_status"] == ({"step": self.number - 1} if self.number else None), status
        check_history(await history(server, self.instance_id))

    def expected(self) -> Any:
        return EXPECTED[self.name](self.number)

    async def start(self, server: Server, given: Any) -> None:
        async with server.starting(changed=self.name in CHANGED):
            body = {"name": self.name, "input": given, "seed": self.instance_id}
            await server.instance(self.instance_id, "Start", body)
            self.started = True

    async def ended(self, server: Server, instance_id: str | None = None) -> dict[str, Any]:
        """Its status once it has ended. Raises when it has not in time."""
        status: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while status.get("ended_at") is None:
                    status = await server.instance(instance_id or self.instance_id, "Status")
                    await asyncio.sleep(1)
        except TimeoutError:
            events = await history(server, instance_id or self.instance_id)
            raise AssertionError(f"nothing is missing, and yet it waits: {status} {events[-6:]}") from None
        return status

    async def pause(self) -> None:
        await asyncio.sleep(self.random.choice((0.0, self.random.uniform(0, 1), self.random.expovariate(1 / 20))))

    @asynccontextmanager
    async def perhaps_suspended(self, server: Server) -> AsyncIterator[None]:
        suspended = self.random.random() < 0.5
        if suspended:
            await server.instance(self.instance_id, "Suspend", {"reason": "for a while"})
        yield
        if suspended:
            await self.pause()
            await server.instance(self.instance_id, "Resume")

    async def send(self, server: Server, name: str, number: int, data: Any) -> None:
        """Sends an event until it is recorded, and sometimes once more, as a client does whose answer was lost."""
        body = {"name": name, "data": data, "event_id": f"{name} {number}"}
        while True:
            answer = await server.instance(self.instance_id, "RaiseEvent", body)
            if answer.get("outcome") in ("recorded", "duplicate") or answer["success"] is False:
                break
            await self.pause()
        if self.random.random() < 0.1:
            await server.instance(self.instance_id, "RaiseEvent", body)


class Letters(Case):
    """Letters, one after the other, for one that reads them in one execution."""

    async def drive(self, server: Server) -> None:
        await self.start(server, self.number)
        await self.pause()
        async with self.perhaps_suspended(server):
            for letter in range(self.number):
                await self.send(server, "letters", letter, letter)
                await self.pause()

    def expected(self) -> Any:
        return [*([self.number] if self.name == "settled" else []), *range(self.number)]


class Delayed(Case):
    """An instance with a later ``start_at``: it keeps events sent before, and the letter that its start brings."""

    async def drive(self, server: Server) -> None:
        self.begin_at = server.loop.wall_clock() + self.random.expovariate(1 / 30)
        body = {
            "name": self.name,
            "input": self.number,
            "seed": self.instance_id,
            "tags": {"given": "yes", "kept": "yes"},
            "priority": self.random.choice((None, 3)),
            "start_at": datetime.fromtimestamp(self.begin_at, UTC).isoformat(),
            "event": {"name": "letters", "data": 0, "event_id": "letters 0"},
        }
        await server.instance(self.instance_id, "Start", body)
        self.started = True
        for letter in range(1, self.number + 1):
            async with self.perhaps_suspended(server):
                await self.send(server, "letters", letter, letter)
            await self.pause()

    async def check(self, server: Server) -> None:
        await super().check(server)
        status = await server.instance(self.instance_id, "Status")
        assert status["tags"] == {"kept": "yes", "first": "yes", "second": "True"}, status
        [started] = (await server.instance(self.instance_id, "History", {"execution_id": 1, "limit": 1}))["events"]
        assert "start_at" in started or self.begin_at <= datetime.fromisoformat(started["timestamp"]).timestamp() + 1

    def expected(self) -> Any:
        return [*range(self.number + 1)]


class Limited(Case):
    """An instance whose time limit is over before it ends."""

    async def drive(self, server: Server) -> None:
        self.status = "FAILED"
        await self.start(server, self.number)
        await self.pause()
        async with self.perhaps_suspended(server):
            await self.pause()

    async def check(self, server: Server) -> None:
        await super().check(server)
        status = await server.instance(self.instance_id, "Status")
        assert status["error"]["kind"] == "timeout", status

    def expected(self) -> Any:
        return None


class Forgotten(Case):
    """An instance that is deleted half a minute after its end."""

    async def drive(self, server: Server) -> None:
        self.kept = False
        await self.start(server, self.number)

    async def check(self, server: Server) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await server.ask(ORCHESTRATION_TYPE, self.instance_id, "Status")).get("success") is not False:
                await asyncio.sleep(5)


class Collected(Case):
    """Letters in bulk for one that reads one in each execution: each is read once, in order."""

    async def drive(self, server: Server) -> None:
        await self.start(server, {"wanted": self.number, "letters": []})
        sent = 0
        while sent < self.number:
            async with self.perhaps_suspended(server):
                bulk = min(self.random.choice((1, 5, self.number)), self.number - sent)
                bodies = [self._letter(number) for number in range(sent, sent + bulk)]
                if self.random.random() < 0.5:
                    await server.together(self.instance_id, [("RaiseEvent", body) for body in bodies])
                else:
                    for body in bodies:
                        await server.instance(self.instance_id, "RaiseEvent", body)
                sent += bulk
            if self.random.random() < 0.3:
                # It was heard of already.
                await server.instance(self.instance_id, "RaiseEvent", self._letter(self.random.randrange(sent)))
            await self.pause()

    def expected(self) -> Any:
        return list(range(self.number))

    def _letter(self, number: int) -> dict[str, Any]:
        return {"name": "letters", "data": {"number": number, "load": LOAD}, "event_id": f"letter {number}"}


class Asked(Case):
    """Requests that are repeated until they have a reply: each is taken once, in order, and keeps its reply."""

    async def drive(self, server: Server) -> None:
        await self.start(server, {"wanted": self.number, "numbers": [], "one_each": self.random.random() < 0.5})
        for number in range(self.number):
            async with self.perhaps_suspended(server):
                await server.instance(self.instance_id, "Request", self._request(number))
                if self.random.random() < 0.3:
                    await server.instance(self.instance_id, "Request", self._request(self.random.randint(0, number)))
                await self.pause()

    async def check(self, server: Server) -> None:
        await super().check(server)
        for number in range(self.number):
            for call, body in (("Request", self._request(number)), ("Reply", {"request_id": f"request {number}"})):
                answer = await server.instance(self.instance_id, call, body)
                assert answer["reply"] == {"place": number + 1, "number": number}, answer

    def expected(self) -> Any:
        return list(range(self.number))

    def _request(self, number: int) -> dict[str, Any]:
        return {"name": "number", "data": number, "request_id": f"request {number}"}


class Cancelled(Case):
    """An instance that never ends by itself, with letters and suspensions before it is cancelled."""

    async def drive(self, server: Server) -> None:
        self.status = "CANCELLED"
        await self.start(server, self.number)
        await self.pause()
        async with self.perhaps_suspended(server):
            for letter in range(self.random.randint(0, self.number - 1 if self.name in CHANGED else 3)):
                await self.send(server, "letters", letter, letter)
            await self.pause()
            await server.instance(self.instance_id, "Cancel", {"reason": "enough"})

    def expected(self) -> Any:
        return None


class Family(Case):
    """A parent that is cancelled, or deleted: its children end with it."""

    async def drive(self, server: Server) -> None:
        self.kept = self.random.random() < 0.5
        self.status = "CANCELLED"
        self.children = [f"{self.instance_id[:240]}-child-{number}" for number in range(self.number)]
        await self.start(server, self.children)
        await self.pause()
        if self.children and self.random.random() < 0.5:
            await self._letter(server, self.random.choice(self.children))
        if not self.kept:
            # Not there any more: it was deleted, though the answer was lost.
            await server.ask(ORCHESTRATION_TYPE, self.instance_id, "Delete", {"force": True})
        else:
            await server.instance(self.instance_id, "Cancel", {"reason": "enough"})

    async def check(self, server: Server) -> None:
        if self.kept:
            await super().check(server)
        for child in self.children:
            status = await server.ask(ORCHESTRATION_TYPE, child, "Status")
            if status.get("success") is False:
                assert status["error_code"] == "NOT_FOUND"
                continue
            assert (await self.ended(server, child))["status"] == "CANCELLED"

    def expected(self) -> Any:
        return None

    async def _letter(self, server: Server, child: str) -> None:
        body = {"name": "letters", "data": 1, "event_id": "a letter"}
        await server.ask(ORCHESTRATION_TYPE, child, "RaiseEvent", body)


class Collision(Case):
    """An instance whose id another orchestration wants for its child: it is not affected."""

    async def drive(self, server: Server) -> None:
        await self.start(server, 1)
        other = {"name": "careless", "input": self.instance_id, "seed": self.instance_id}
        await server.instance(self.careless, "Start", other)
        await self.pause()
        await self._ended_carelessly(server)
        await self.send(server, "letters", 0, 0)

    @property
    def careless(self) -> str:
        return f"{self.instance_id[:240]}-careless"

    async def _ended_carelessly(self, server: Server) -> None:
        while (await server.instance(self.careless, "Status"))["ended_at"] is None:
            await asyncio.sleep(5)

    def expected(self) -> Any:
        return [0]


class Replaced(Case):
    """An id that is given to another orchestration in the turn that deletes the one before: it is listed as that."""

    async def drive(self, server: Server) -> None:
        await server.instance(self.instance_id, "Start", {"name": "perpetual", "input": 1, "seed": "before"})
        await self.pause()
        body = {"name": self.name, "input": 1, "seed": "after"}
        status: dict[str, Any] = {"name": "perpetual"}
        while status["name"] == "perpetual":
            await server.together(self.instance_id, [("Delete", {"force": True}), ("Start", body)])
            status = await server.instance(self.instance_id, "Status")

    async def check(self, server: Server) -> None:
        try:
            async with asyncio.timeout(LISTED_WITHIN):
                while (await server.listed()).get(self.instance_id) != (self.name, "RUNNING"):
                    await asyncio.sleep(5)
        except TimeoutError:
            listed = (await server.listed()).get(self.instance_id)
            raise AssertionError(f"{self.instance_id} is listed as {listed}") from None
        await self.send(server, "letters", 0, 0)
        await super().check(server)

    def expected(self) -> Any:
        return [0]


class Nap(Case):
    """An instance with one turn whose clock is a day ahead: its later sleep takes no longer for that."""

    async def drive(self, server: Server) -> None:
        await self.start(server, self.number)
        await self.pause()
        await server.instance(self.instance_id, "RaiseEvent", self._event("first"), ahead=A_DAY)
        await self.pause()
        await self.send(server, "second", 0, 0)

    def expected(self) -> Any:
        return 60.0

    def _event(self, name: str) -> dict[str, Any]:
        return {"name": name, "data": 0, "event_id": f"{name} 0"}


async def history(server: Server, instance_id: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while True:
        page = await server.instance(instance_id, "History", {"limit": 7, "cursor": len(events)})
        events += page["events"]
        if "next_cursor" not in page:
            return events


ENDS = ("OrchestrationCompleted", "OrchestrationFailed", "OrchestrationCancelled")
PAIRS = {
    "ActivityCompleted": "ActivityScheduled",
    "ActivityFailed": "ActivityScheduled",
    "TimerFired": "TimerCreated",
    "SubOrchestrationCompleted": "SubOrchestrationScheduled",
    "SubOrchestrationFailed": "SubOrchestrationScheduled",
}


def check_history(events: list[dict[str, Any]]) -> None:
    """Contiguous, one end, and every completion has its schedule."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "OrchestrationStarted"
    assert [event for event in events if event["type"] in ENDS] == [events[-1]]
    answered: set[int] = set()
    for event in events:
        if event["type"] in PAIRS:
            assert events[event["scheduled_seq"] - 1]["type"] == PAIRS[event["type"]]
            assert event["scheduled_seq"] not in answered
            answered.add(event["scheduled_seq"])
