"""The core and the model side by side: the same random operations, and never a difference."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from holdfast.names import split_partition
from holdfast.pushpop.core import in_flight, item_store
from holdfast.pushpop.core.transfers import LONGEST_PAUSE, RESEND_SECONDS
from holdfast.runtime.serialization import load
from tests.properties import stored
from tests.properties.model import ModelQueue
from tests.properties.model_stock import CaughtUp
from tests.properties.operations import Known, Operation, Operations
from tests.properties.sizes import small
from tests.support.queue_driver import MORNING, QueueDriver
from tests.support.seeds import OPERATIONS_PER_SEED, noting_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.properties.model_state import Sent

# How often each is chosen.
QUEUES = {"orders": 8, "orders@1": 2, "orders-deadletter": 1, "elsewhere": 1, "elsewhere-deadletter": 0.3}

SAVE_FAILS = 0.05
HEARD_TWICE = 0.2
# How often a queue does not take what is sent to it, and how often something is being sent to it already.
REFUSED = 0.2
BUSY = 0.1
# How often what is due is done before the next operation, however many turns it takes; as reminders would.
SETTLED = 0.5
# A queue that needs more turns for what is due does not come on.
MOST_TURNS = 2000


def compare(seed: int) -> None:
    """Asks the same of both, and raises where they differ."""
    generator = random.Random(seed)
    with noting_seed(seed, "test_model.py"), small(generator):
        comparison = _Comparison(generator)
        while comparison.operations < OPERATIONS_PER_SEED:
            comparison.step()
        comparison.end()


class _Comparison:
    """A queue, its partition, their dead-letter queues, and a model of each."""

    def __init__(self, generator: random.Random) -> None:
        self.operations = 0
        self._random = generator
        self._make = Operations(generator, driven=True)
        self._pairs = {name: _Pair(name) for name in QUEUES}
        self._now = MORNING
        if generator.random() < 0.8:
            self._pairs["orders"].turn([Operation("SetConfig", {"partitions": 2})], self._now)
            self._tell()

    def step(self) -> None:
        [act] = self._random.choices(
            (
                self._turn,
                self._pass_time,
                self._restart,
                self._transfer,
                self._tell,
                self._go_through_letters,
                self._delete,
            ),
            weights=(80, 14, 4, 5, 1, 1, 0.7),
        )
        act()

    def end(self) -> None:
        """Time passes until nothing lies ahead, and nothing is left that nothing needs."""
        for pair in self._pairs.values():
            pair.settle(self._now)
        while any(pair.next_deadline() is not None for pair in self._pairs.values()):
            for pair in self._pairs.values():
                pair.confirm(self._now)
            while any(pair.model.outbox for pair in self._pairs.values()):
                self._transfer()
                self._now += self._random.choice((0, 0, LONGEST_PAUSE))
            for pair in self._pairs.values():
                self._now = max(self._now, pair.next_deadline() or self._now)
                pair.settle(self._now)
        for pair in self._pairs.values():
            pair.turn([Operation("Purge")], self._now)
            pair.settle(self._now)
            left = {key for key in pair.real.store if not key.startswith("received-")}
            assert left <= {"metadata", "config", "expired-locks"}

    def _turn(self) -> None:
        [name] = self._random.choices(list(QUEUES), weights=list(QUEUES.values()))
        pair = self._pairs[name]
        if self._random.random() < SETTLED:
            pair.settle(self._now)
        asked = [self._make.next(pair.known(self._random)) for _ in range(self._random.choice((1, 1, 1, 2, 4)))]
        self.operations += len(asked)
        pair.turn(asked, self._now, saved=self._random.random() > SAVE_FAILS)

    def _pass_time(self) -> None:
        self._now += self._random.choice((0.05, 0.5, 1, 4, 10, 31, 400, -3, -50))

    def _restart(self) -> None:
        for pair in self._pairs.values():
            pair.restart()

    def _transfer(self) -> None:
        """Takes one parcel as far as it comes: refused, lost, taken twice, or taken and not crossed off."""
        for pair in self._pairs.values():
            busy = [name for name in QUEUES if self._random.random() < BUSY]
            sent, message = pair.next_parcel(self._now, busy)
            if not sent:
                continue
            if self._random.random() < REFUSED:
                pair.not_transferred(message, self._now)
                continue
            target = self._pairs[message["target"]]
            saved = self._random.random() > SAVE_FAILS
            for _ in range(1 + (self._random.random() < HEARD_TWICE)):
                target.receive(message, sent, self._now, saved=saved)
            if saved and self._random.random() > HEARD_TWICE:
                pair.transferred(message["number"], sent, self._now)

    def _tell(self) -> None:
        """The partition hears of the configuration: perhaps late, perhaps twice."""
        first, other = self._pairs["orders"], self._pairs["orders@1"]
        [news] = first.turn([Operation("PendingConfig")], self._now)
        body = {key: news[key] for key in ("config", "version", "generation")}
        for _ in range(1 + (self._random.random() < HEARD_TWICE)):
            other.turn([Operation("Configure", body)], self._now)
        if self._random.random() > HEARD_TWICE:
            told = {"partition": 1, "version": self._random.choice((news["version"], max(0, news["version"] - 1)))}
            first.turn([Operation("PendingConfig", {"told": told})], self._now)

    def _delete(self) -> None:
        """A queue is deleted, or only some of what that takes is done."""
        pair = self._pairs[self._random.choice(list(QUEUES))]
        force = self._random.random() < 0.5
        if force:
            pair.turn([Operation("FinishDeletion", {"force": True})], self._now)
        else:
            self._delete_an_empty_one(pair)
        if self._random.random() < 0.7:
            self._tell()

    def _delete_an_empty_one(self, pair: _Pair) -> None:
        if self._random.random() < 0.8:
            pair.turn([Operation("FinishDeletion", {"force": True})], self._now)
            if self._random.random() < 0.5:
                if self._random.random() < 0.7:
                    self._tell()
                pair.turn([Operation("SetConfig", {"partitions": 2})], self._now)
                self._tell()
        [begun] = pair.turn([Operation("BeginDeletion")], self._now)
        if "version" not in begun or self._random.random() < 0.1:
            return
        if begun["partitions"]:
            close = Operation("Close", {"version": begun["version"] - (self._random.random() < 0.1)})
            [closed] = self._pairs["orders@1"].turn([close], self._now)
            if self._random.random() < 0.3:
                self._tell()
            if "error_code" in closed or self._random.random() < 0.3:
                pair.turn([Operation("AbortDeletion")], self._now)
                return
        version = begun["version"] if begun["partitions"] else None
        pair.turn([Operation("FinishDeletion", {"force": False, "version": version})], self._now)

    def _go_through_letters(self) -> None:
        """Page by page, all of them are shown; or all of them are sent back, or as many as were asked for."""
        pair = self._pairs[self._random.choice(("orders-deadletter", "elsewhere"))]
        origin = self._random.choice(({}, {"original_queue": "orders"}))
        pair.settle(self._now)
        if self._random.random() < 0.7:
            pair.show_all(origin, self._random, self._now)
        else:
            pair.redrive_all(origin, self._random.choice((None, 3)), self._now)


class _Pair:
    """A queue and its model."""

    def __init__(self, name: str) -> None:
        self.real = QueueDriver(name, told=False)
        self.model = ModelQueue(
            *split_partition(name), remembered=in_flight.EXPIRED_REMEMBERED, passed=item_store.EXPIRED_AT_ONCE
        )
        #: Until when nothing is sent to a queue that took nothing, and how long that was meant to be.
        self._refused: dict[str, tuple[float, float]] = {}
        #: What the real one held when it was last looked at.
        self._seen = self._contents()

    def known(self, generator: random.Random) -> Known:
        """Returns ids and locks for callers to use: existing ones, and some former ones."""
        model = self.model
        there = [*model.waiting, *model.not_due, *(item for group in model.postponed for item in group.items)]
        locked = [item for lock in model.locks for item in lock.items]
        gone = sorted(model.ids)
        ids = [item.id for item in (*there, *locked, *locked)] + generator.sample(gone, min(3, len(gone)))
        held = {lock.id: [item.id for item in lock.items] for lock in model.locks}
        locks = [lock.id for lock in model.locks] * 3 + model.expired[-3:]
        return Known(locks, ids, held, paused=model.config["paused"])

    def restart(self) -> None:
        self.real.restart()
        self.model.restarted()
        self._refused.clear()

    def next_deadline(self) -> float | None:
        return self.real.queue.next_deadline(self.real.now)

    def confirm(self, now: float) -> None:
        """The index and the other partitions know all that they are to know."""
        self.real.now = now
        queue = self.real.queue
        if queue.needs_indexing:
            self.real.call("ConfirmIndexed")
        if queue.needs_removal_from_index:
            self.real.call("ConfirmRemovedFromIndex")
        for partition in list(self.model.pending_partitions):
            told = {"partition": partition, "version": self.model.config_version}
            self.turn([Operation("PendingConfig", {"told": told})], now)

    def settle(self, now: float) -> None:
        """All that is due is done, in as many turns as it takes."""
        self.real.now = now
        for _ in range(MOST_TURNS):
            deadline = self.next_deadline()
            if deadline is None or deadline > now:
                assert self.model.is_caught_up(now), "nothing is to be done, though something is due"
                return
            self.turn([], now)
        raise AssertionError("what is due is never done")

    def turn(self, asked: Sequence[Operation], now: float, *, saved: bool = True) -> list[dict[str, Any]]:
        """Asks both, and compares what they answer and what they then hold."""
        before = None if saved else deepcopy(self.model)
        self._catch_up(now)
        answers = self.real.turn(*((one.method, one.data) for one in asked), saved=saved)
        for one, answer in zip(asked, answers, strict=True):
            is_so, should_be = _comparable(answer), _comparable(self._expected(one, now, answer))
            assert is_so == should_be, f"{one} was answered otherwise: {_difference(is_so, should_be)}"
        self._undo(before)
        self.compare_contents()
        return answers

    def next_parcel(self, now: float, busy: Sequence[str]) -> tuple[list[Sent], dict[str, Any]]:
        """Returns the next transfer, as the model predicts it and as the queue sends it."""
        self._catch_up(now)
        message = self.real.call("Transferred", {"busy": busy})["next"]
        self.compare_contents()
        # Of each other queue the first parcel, unless something is being sent there or it took nothing a moment ago.
        ready = [entry for entry in self.model.outbox if entry.target not in busy and not self._pauses(entry, now)]
        if message is None:
            assert not ready
            return [], {}
        sent = [entry for entry in ready if entry.target == ready[0].target][: len(message["items"])]
        assert {entry.target for entry in sent} == {message["target"]}
        assert [
            (one["priority"], load(one["stored"]["item"]), one["stored"].get("origin")) for one in message["items"]
        ] == [(entry.item.priority, entry.item.payload, entry.origin) for entry in sent]
        return sent, message

    def receive(self, message: dict[str, Any], sent: list[Sent], now: float, *, saved: bool) -> None:
        before = None if saved else deepcopy(self.model)
        self._catch_up(now)
        [answer] = self.real.turn(("Receive", message), saved=saved)
        assert answer == self.model.answer("Receive", message, now, answer)
        if saved and answer["accepted"]:
            contents = self._contents()
            # A partition that is no part of the queue sends them on in the same turn.
            held = [entry for entry, _ in contents.everything()]
            arrived = [entry for entry in held if entry.id(contents.partition) not in self.model.ids]
            # As it was sent: in the parcel's order within each priority.
            arrived.sort(key=lambda entry: entry.place)
            by_priority = sorted(range(len(sent)), key=lambda number: sent[number].item.priority)
            ids = dict(zip(by_priority, (entry.id(contents.partition) for entry in arrived), strict=True))
            self.model.received([ids[number] for number in range(len(sent))], sent)
        self._undo(before)
        self.compare_contents()

    def transferred(self, number: int, sent: list[Sent], now: float) -> None:
        self._catch_up(now)
        self.real.call("Transferred", {"number": number})
        self.model.transferred(sent)
        self._refused.pop(sent[0].target, None)
        self.compare_contents()

    def not_transferred(self, message: dict[str, Any], now: float) -> None:
        """The other queue did not take it: it gets the same again, after a pause."""
        self._catch_up(now)
        self.real.call("Transferred", {"number": message["number"], "accepted": False})
        _, seconds = self._refused.get(message["target"], (now, RESEND_SECONDS / 2))
        seconds = min(2 * seconds, LONGEST_PAUSE)
        self._refused[message["target"]] = (now + seconds, seconds)
        self.compare_contents()

    def show_all(self, origin: dict[str, Any], generator: random.Random, now: float) -> None:
        shown: list[dict[str, Any]] = []
        for page in self._pages("DeadLetters", origin | {"limit": generator.randint(1, 4)}, "next_cursor"):
            shown += page["dead_letters"]
        letters = self.model.answer("DeadLetters", origin, now, {})["dead_letters"]
        assert shown == letters

    def redrive_all(self, origin: dict[str, Any], most: int | None, now: float) -> None:
        expected = len(self.model.answer("DeadLetters", origin, now, {})["dead_letters"])
        redriven = 0
        data = origin
        while most is None or redriven < most:
            data = data if most is None else data | {"max": most - redriven}
            [answer] = self.turn([Operation("Redrive", data)], now)
            redriven += answer["redriven"]
            if not answer["more"]:
                break
            data = data | {"cursor": answer["cursor"]}
        assert redriven == (expected if most is None else min(most, expected))

    def compare_contents(self) -> None:
        contents, model = self._contents(), self.model
        self._seen = contents
        partition = contents.partition
        contents.check()
        assert [(entry.id(partition), entry.deliveries, entry.error) for entry in contents.waiting] == [
            (item.id, item.deliveries, item.error) for item in model.waiting
        ]
        assert sorted((item.due, item.id(partition)) for item in contents.not_due) == sorted(
            (item.due, item.id) for item in model.not_due
        )
        assert sorted(
            (group.due, [entry.id(partition) for entry in group.entries]) for group in contents.postponed
        ) == (sorted((group.due, [item.id for item in group.items]) for group in model.postponed if group.items))
        assert {
            lock_id: ([entry.id(partition) for entry in lock.entries], lock.expires_at)
            for lock_id, lock in contents.locks.items()
        } == {lock.id: ([item.id for item in lock.items], lock.expires_at) for lock in model.locks}
        assert [
            (entry.id(partition), transfer.target, transfer.reason)
            for _, transfer in sorted(contents.parcels.items())
            for entry in transfer.entries
        ] == [(sent.item.id, sent.target, sent.origin and sent.origin["reason"]) for sent in model.outbox]
        if not contents.garbage:
            left = (contents.inline | set(self.real.store)) - contents.keys
            assert not left, f"values are left that nothing needs: {left}"

    def _catch_up(self, now: float) -> None:
        """Tells the model how far the queue will come with what is due: a twin of it goes first."""
        self.real.now = now
        deadline = self.next_deadline()
        contents = self._seen
        if deadline is not None and deadline <= now:
            twin = self.real.twin()
            twin.turn()
            contents = stored.read(twin.value, twin.partition)
        kept = [*contents.waiting, *(entry for group in contents.postponed for entry in group.entries)]
        sent = [entry for _, transfer in sorted(contents.parcels.items()) for entry in transfer.entries]
        partition = contents.partition
        self.model.catch_up(
            now,
            CaughtUp(
                len(contents.not_due),
                {entry.id(partition) for entry in kept},
                [entry.id(partition) for entry in sent],
            ),
        )

    def _undo(self, before: ModelQueue | None) -> None:
        """The save has failed, and what is in memory is thrown away."""
        if before is not None:
            self.model = before
            self.model.restarted()
            self._refused.clear()

    def _pauses(self, sent: Sent, now: float) -> bool:
        until, seconds = self._refused.get(sent.target, (now, 0.0))
        return 0 < until - now <= seconds

    def _pages(self, method: str, data: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        while True:
            page = self.real.call(method, data)
            yield page
            if name not in page:
                return
            data = data | {"cursor": page[name]}

    def _expected(self, one: Operation, now: float, answer: dict[str, Any]) -> dict[str, Any]:
        if one.nonsense:
            return {"success": False, "error_code": "INVALID_REQUEST"}
        return self.model.answer(one.method, one.data, now, answer)

    def _contents(self) -> stored.Contents:
        return stored.read(self.real.value, self.real.partition)


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Without the words, which are free, and the order of locks, which is too."""
    comparable = {key: value for key, value in answer.items() if key != "message"}
    if "locks" in comparable:
        comparable["locks"] = sorted(comparable["locks"], key=lambda lock: sorted(lock.items()).__repr__())
    return comparable


def _difference(is_so: Any, should_be: Any) -> str:
    """The first place where they differ, for people to read."""
    if isinstance(is_so, dict) and isinstance(should_be, dict):
        key = next(key for key in is_so | should_be if is_so.get(key) != should_be.get(key))
        return f"{key}, {_difference(is_so.get(key), should_be.get(key))}"
    if isinstance(is_so, list) and isinstance(should_be, list) and len(is_so) == len(should_be):
        number = next(number for number, one in enumerate(is_so) if one != should_be[number])
        return f"{number}, {_difference(is_so[number], should_be[number])}"
    return f"{is_so!r} and not {should_be!r}"
