"""A reader of a queue's stored values finds the same items as the queue itself, also with overdue ones."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

from holdfast.pushpop.core.due_index import TICKS_PER_SECOND
from holdfast.pushpop.reader import QueueReader, StoredItem, Totals
from holdfast.runtime.serialization import load
from tests.properties import stored
from tests.properties.operations import Known, Operations
from tests.properties.sizes import small
from tests.support.queue_driver import QueueDriver, drive
from tests.support.seeds import fresh_seeds, noting_seed

OPERATIONS = 6_000
OPERATIONS_PER_LOOK = 5


def test_a_reader_finds_what_the_queue_would_have() -> None:
    for seed in fresh_seeds(OPERATIONS):
        generator = random.Random(seed)
        with noting_seed(seed, "test_stored_queues.py"), small(generator):
            _compare(generator)


def _compare(generator: random.Random) -> None:
    queue = QueueDriver(generator.choice(("orders", "orders@1", "@acme@orders")))
    make = Operations(generator, driven=True)
    for number in range(1000):
        operation = make.next(_known(queue, generator))
        queue.turn((operation.method, operation.data))
        queue.pass_time(generator.choice((0, 0, 0.05, 0.5, 4, 31, 400, -3)))
        if number % OPERATIONS_PER_LOOK == 0:
            # When something expires is noticed at the next tick.
            queue.now = math.ceil(queue.now * TICKS_PER_SECOND) / TICKS_PER_SECOND
            _look(queue)


def _look(queue: QueueDriver) -> None:
    twin = queue.twin()
    twin.settle()
    if "metadata" not in queue.store:
        return
    contents = stored.read(twin.value, twin.partition)
    expected, unnoticed = _expected(twin, contents)
    found, totals = _read(queue)
    assert Counter((item.id, item.state, item.deliveries) for item in found) == expected
    errors = {entry.id(twin.partition): entry.error for entry, _ in contents.everything()}
    assert all(item.error == errors.get(item.id) for item in found)
    states = Counter(state for _, state, _ in expected.elements())
    assert (totals.waiting, totals.delayed, totals.locked) == (states["waiting"], states["delayed"], states["locked"])
    assert (totals.oldest is None) == (totals.waiting == 0)
    if twin.store == queue.store and not unnoticed:
        assert totals.oldest == drive(twin.queue.store.oldest(), lambda keys: [twin.value(key) for key in keys])


def _expected(queue: QueueDriver, contents: stored.Contents) -> tuple[Counter[tuple[str, str, int]], bool]:
    """Returns the expected items without expired ones, and whether an expired one is still stored."""
    expected: Counter[tuple[str, str, int]] = Counter()
    unnoticed = False
    for entry, where in contents.everything():
        state = "locked" if where.startswith(stored.LOCKED) else "moving" if "parcel" in where else where
        if state in ("waiting", "delayed") and entry.until is not None and entry.until <= queue.now:
            unnoticed = True
            if queue.queue.expired_target is None:
                continue
            state = "moving"
        expected[entry.id(contents.partition), state, entry.deliveries] += 1
    for item in contents.not_due:
        expected[item.id(contents.partition), "delayed", 0] += 1
    return expected, unnoticed


def _read(queue: QueueDriver) -> tuple[list[StoredItem], Totals]:
    """Each value by itself, as they come."""

    def driven(steps: Any) -> Any:
        return drive(steps, lambda keys: [queue.value(key) for key in keys])

    reader = QueueReader(queue.actor_id, queue.value("metadata"), queue.value("config"), queue.now)
    found: list[StoredItem] = []
    needed = set(reader.needed())
    assert needed <= queue.store.keys()
    for key, value in queue.store.items():
        if key.startswith("segment-"):
            waiting = driven(reader.in_segment(key, load(value)))
            found += waiting
            assert key in needed or not waiting
            pushed = reader.only_pushed(key, load(value))
            assert pushed is not None or not waiting or "more" in load(value)
            if pushed is not None:
                texts = pushed.lines.split("\n")
                ids = [f"{pushed.named}{pushed.first + number}" for number in range(len(texts))]
                times = pushed.enqueued_at
                times = times if isinstance(times, list) else [times] * len(texts)
                assert list(zip(ids, texts, times, strict=True)) == [(i.id, i.text, i.enqueued_at) for i in waiting]
        elif key.startswith("delayed-"):
            found += driven(reader.in_delayed(key, load(value)))
    for steps in (*reader.inline(), *(steps for _, steps in reader.held())):
        found += driven(steps)
    for _, transfer in reader.sent():
        sent = driven(transfer)
        found += [] if sent is None else sent.items
    return found, driven(reader.totals())


def _known(queue: QueueDriver, generator: random.Random) -> Known:
    contents = stored.read(queue.value, queue.partition)
    held = {lock_id: [entry.id(queue.partition) for entry in lock.entries] for lock_id, lock in contents.locks.items()}
    ids = [item_id for item_id, _, _ in contents.states()]
    paused = contents.config.get("paused", False)
    return Known(list(held), generator.sample(ids, min(10, len(ids))), held, paused=paused)
