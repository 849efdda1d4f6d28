"""The core and the model side by side: the same random operations, and never a difference."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from holdfast.pushpop import holdings
from holdfast.runtime.serialization import load
from properties import stored
from properties.driven import MORNING, DrivenQueue
from properties.model import ModelQueue
from properties.operations import Operation, Operations
from properties.seeds import OPERATIONS_PER_SEED, told
from properties.sizes import small

if TYPE_CHECKING:
    from collections.abc import Sequence

    from properties.model import Parcel

# How often each is chosen.
QUEUES = {"orders": 8, "orders-deadletter": 1, "elsewhere": 1, "elsewhere-deadletter": 0.3}

SAVE_FAILS = 0.05
HEARD_TWICE = 0.2


def compare(seed: int) -> None:
    """Asks the same of both, and raises where they differ."""
    generator = random.Random(seed)
    with told(seed, "test_model.py"), small(generator):
        comparison = _Comparison(generator)
        while comparison.operations < OPERATIONS_PER_SEED:
            comparison.step()


class _Comparison:
    """A queue, those that take its dead letters, and a model of each."""

    def __init__(self, generator: random.Random) -> None:
        self.operations = 0
        self._random = generator
        self._make = Operations(generator)
        self._pairs = {name: _Pair(name) for name in QUEUES}
        self._now = MORNING

    def step(self) -> None:
        [act] = self._random.choices(
            (self._turn, self._pass_time, self._restart, self._transfer), weights=(80, 12, 4, 4)
        )
        act()

    def _turn(self) -> None:
        [name] = self._random.choices(list(QUEUES), weights=list(QUEUES.values()))
        pair = self._pairs[name]
        locks = [lock.id for lock in pair.model.locks] * 3 + pair.model.expired[-3:]
        asked = [self._make.next(locks) for _ in range(self._random.choice((1, 1, 1, 2, 4)))]
        self.operations += len(asked)
        pair.turn(asked, self._now, saved=self._random.random() > SAVE_FAILS)

    def _pass_time(self) -> None:
        self._now += self._random.choice((0.5, 1, 4, 10, 31, 400, -3, -50))

    def _restart(self) -> None:
        for pair in self._pairs.values():
            pair.real.restart()

    def _transfer(self) -> None:
        """Takes one parcel as far as it comes: lost before it is taken, taken twice, or taken and not crossed off."""
        for pair in self._pairs.values():
            parcel, sent = pair.next_parcel(self._now)
            if parcel is None:
                continue
            target = self._pairs[parcel.target]
            saved = self._random.random() > SAVE_FAILS
            for _ in range(1 + (self._random.random() < HEARD_TWICE)):
                target.receive(sent, pair.model, parcel, self._now, saved=saved)
            if saved and self._random.random() > HEARD_TWICE:
                pair.turn([Operation("Transferred", {"number": parcel.number})], self._now)


class _Pair:
    """One queue, and its model."""

    def __init__(self, name: str) -> None:
        self.real = DrivenQueue(name)
        self.model = ModelQueue(name, remembered=holdings.EXPIRED_REMEMBERED)

    def turn(self, asked: Sequence[Operation], now: float, *, saved: bool = True) -> None:
        """Asks both, and compares what they answer and what they then hold."""
        before = None if saved else deepcopy(self.model)
        self.real.now = now
        answers = self.real.turn(*((one.method, one.data) for one in asked), saved=saved)
        self.model.expire(now)
        for one, answer in zip(asked, answers, strict=True):
            expected = self._expected(one, now, answer)
            assert _comparable(answer) == _comparable(expected), f"{one} was answered {answer}, not {expected}"
        self.model = before or self.model
        self.compare_contents()

    def next_parcel(self, now: float) -> tuple[Parcel | None, dict[str, Any]]:
        """What is to be sent, once as the model has it and once as it is sent."""
        self.real.now = now
        self.model.expire(now)
        sent = self.real.call("Transferred")["next"]
        parcel = self.model.outbox[0] if self.model.outbox else None
        assert (sent is None) == (parcel is None)
        if parcel is not None:
            assert (sent["number"], sent["target"]) == (parcel.number, parcel.target)
            assert [
                (one["priority"], load(one["stored"]["item"]), one["stored"]["origin"]) for one in sent["items"]
            ] == [(item.priority, item.payload, parcel.origin_of(item, self.model.name)) for item in parcel.items]
        return parcel, sent

    def receive(self, sent: dict[str, Any], source: ModelQueue, parcel: Parcel, now: float, *, saved: bool) -> None:
        before = None if saved else deepcopy(self.model)
        self.real.now = now
        [answer] = self.real.turn(("Receive", sent), saved=saved)
        self.model.expire(now)
        assert answer == self.model.answer("Receive", sent, now, answer)
        if saved and answer["taken"]:
            arrived = [entry for entry in self._contents().waiting if entry.id not in self.model.ids]
            # As it was sent: in the parcel's order within each priority.
            arrived.sort(key=lambda entry: entry.place)
            ids = {id(item): entry.id for item, entry in zip(sorted(parcel.items), arrived, strict=True)}
            self.model.received([ids[id(item)] for item in parcel.items], source, parcel)
        self.model = before or self.model
        self.compare_contents()

    def compare_contents(self) -> None:
        contents, model = self._contents(), self.model
        assert [(entry.id, entry.deliveries, entry.error) for entry in contents.waiting] == [
            (item.id, item.deliveries, item.error) for item in model.waiting
        ]
        assert {
            lock_id: ([entry.id for entry in lock.entries], lock.expires_at) for lock_id, lock in contents.locks.items()
        } == {lock.id: ([item.id for item in lock.items], lock.expires_at) for lock in model.locks}
        assert {
            number: ([entry.id for entry in parcel.entries], parcel.target, parcel.reason)
            for number, parcel in contents.parcels.items()
        } == {
            parcel.number: ([item.id for item in parcel.items], parcel.target, parcel.reason) for parcel in model.outbox
        }
        assert sum(contents.counts.values()) == len(model.waiting)
        if not contents.garbage:
            assert set(self.real.store) <= contents.keys, "values are left that nothing needs"

    def _expected(self, one: Operation, now: float, answer: dict[str, Any]) -> dict[str, Any]:
        if one.nonsense:
            return {"success": False, "error_code": "INVALID_REQUEST"}
        return self.model.answer(one.method, one.data, now, answer)

    def _contents(self) -> stored.Contents:
        return stored.read(self.real.value)


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Without the words, which are free, and the order of locks, which is too."""
    comparable = {key: value for key, value in answer.items() if key != "message"}
    if "locks" in comparable:
        comparable["locks"] = sorted(comparable["locks"], key=lambda lock: sorted(lock.items()).__repr__())
    return comparable
