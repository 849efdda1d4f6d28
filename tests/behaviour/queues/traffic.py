"""Callers that push and consume whatever happens to their calls, and remember what they were told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.stacks.base import CallFailed

if TYPE_CHECKING:
    from tests.support.rest import Answer, Queue

#: An item's name: who pushed it, and as which.
Name = tuple[int, int]

LOCK_SECONDS = 5
PAUSE = 0.05


@dataclass
class Ledger:
    """The combined knowledge of all callers. Time is logical: it increases by one with each event."""

    stopping: bool = False
    moment: int = 0
    pushed: dict[Name, str] = field(default_factory=dict)
    #: The answer did not come, or was not a success: it may be there or not.
    unsure_pushed: set[Name] = field(default_factory=set)
    acknowledged: dict[Name, int] = field(default_factory=dict)
    unsure_acknowledged: set[Name] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def now(self) -> int:
        self.moment += 1
        return self.moment


async def _answer(call: Any) -> Answer | None:
    try:
        answer: Answer = await call
    except CallFailed:
        return None
    return answer


@dataclass
class Producer:
    """Pushes one item after the other, each once, into one priority."""

    queue: Queue
    ledger: Ledger
    number: int
    priority: int
    tried: int = 0
    done: int = 0

    async def run(self) -> None:
        while not self.ledger.stopping:
            name = (self.number, self.tried)
            self.tried += 1
            answer = await _answer(self.queue.push(name, priority=self.priority))
            if answer is not None and answer.status == 200:
                [self.ledger.pushed[name]] = answer.body["ids"]
                self.done += 1
            else:
                self.ledger.unsure_pushed.add(name)
                if answer is not None:
                    answer.refused(503, "UNAVAILABLE")
                await asyncio.sleep(PAUSE)


@dataclass
class Consumer:
    """Locks some items and acknowledges them."""

    queue: Queue
    ledger: Ledger
    wait_seconds: float
    #: daprd makes a call again when an actor moves before it was answered: what was done by the first is not found.
    moving: bool = False
    done: int = 0

    async def run(self) -> None:
        query = {"count": 2, "ttl_seconds": LOCK_SECONDS, "wait_seconds": self.wait_seconds}
        while not self.ledger.stopping:
            began = self.ledger.now()
            answer = await _answer(self.queue.pop(require_ack=True, **query))
            if answer is None or answer.status != 200 or not answer.body["items"]:
                if answer is not None and answer.status not in (200, 423):
                    answer.refused(503, "UNAVAILABLE")
                await asyncio.sleep(PAUSE)
                continue
            names: list[Name] = [(who, which) for who, which in answer.body["items"]]
            for name in names:
                if self.ledger.acknowledged.get(name, began) < began:
                    self.ledger.wrong.append(f"{name} was delivered after it had been acknowledged")
            await self._acknowledge(answer.body["lock_id"], names)

    async def _acknowledge(self, lock_id: str, names: list[Name]) -> None:
        answer = await _answer(self.queue.acknowledge(lock_id))
        if answer is not None and answer.status == 200:
            if answer.body["items_acknowledged"] != len(names):
                self.ledger.wrong.append(f"{names} were acknowledged as {answer.body}")
            for name in names:
                if name in self.ledger.acknowledged:
                    self.ledger.wrong.append(f"{name} was acknowledged twice")
                self.ledger.acknowledged[name] = self.ledger.now()
            self.done += len(names)
        elif answer is None or answer.status == 503 or (self.moving and answer.status in (400, 404)):
            self.ledger.unsure_acknowledged.update(names)
        else:
            answer.refused(410, "LOCK_EXPIRED")
