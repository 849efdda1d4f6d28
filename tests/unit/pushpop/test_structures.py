"""Data structures of a queue against plain models of them: due times, delayed items, dedup ids, token bucket."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import pytest

from holdfast.pushpop.core import dedup_log as dedup
from holdfast.pushpop.core import delayed as delayed_items
from holdfast.pushpop.core import due_index
from holdfast.pushpop.core.dedup_log import DedupLog
from holdfast.pushpop.core.delayed import DelayedItems
from holdfast.pushpop.core.due_index import DueIndex, moment_of, tick_of
from holdfast.pushpop.core.items import DelayedPlace, Item, Place
from holdfast.pushpop.core.token_bucket import TokenBucket
from holdfast.runtime.serialization import dump, load
from tests.support.queue_driver import MORNING, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.runtime.reads import Reads

Reply = TypeVar("Reply")
YEAR = 365 * 24 * 60 * 60

seeded = pytest.mark.parametrize("seed", range(4))


class Store:
    """State values, as JSON."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def drive(self, steps: Reads[Reply]) -> Reply:
        return drive(steps, lambda keys: [load(self.values[key]) if key in self.values else None for key in keys])

    def save(self, changes: dict[str, Any]) -> None:
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = dump(value)


def through_json(value: Any) -> Any:
    return load(dump(value))


def at_most(room: int) -> Callable[[Any], Reads[bool]]:
    """Lets so many of them through."""
    numbers = count()

    def fits(_: Any) -> Reads[bool]:
        yield from ()
        return next(numbers) < room

    return fits


@pytest.fixture(autouse=True, params=[1, 3, 100], ids=lambda size: f"chunks of {size}")
def _chunks(request: pytest.FixtureRequest) -> Iterator[None]:
    with (
        patch.object(due_index, "CHUNK", request.param),
        patch.object(dedup, "CHUNK", request.param),
        patch.object(delayed_items, "FILE_ITEMS", request.param),
    ):
        yield


@seeded
def test_a_calendar_gives_what_is_due_in_order(seed: int) -> None:
    generator, store, kept = random.Random(seed), Store(), DueIndex()
    model: list[tuple[int, int]] = []
    now = MORNING
    for number in range(200):
        if generator.random() < 0.6:
            ahead = generator.choice((0, 0.1, 1, 10, 1000, 10**6, YEAR)) * generator.random()
            store.drive(kept.add(now + ahead, [number]))
            model.append((tick_of(now + ahead), number))
        else:
            now += generator.choice((0, 0.1, 5, 100, 10**5))
            enough = generator.choice((1, 5, 1000))
            taken = [number for [number] in store.drive(kept.take_due(now, at_most(enough)))]
            due = [number for tick, number in sorted(model) if moment_of(tick) <= now]
            assert taken == due[: len(taken)]
            assert len(taken) == min(enough, len(due))
            model = [entry for entry in model if entry[1] not in taken]
        assert kept.next_due == min((moment_of(tick) for tick, _ in model), default=None)
        store.save(kept.changes())
        if generator.random() < 0.3:
            kept = DueIndex.from_json(through_json(kept.to_json()))
    taken = [number for [number] in store.drive(kept.take_due(now + 2 * YEAR, at_most(1000)))]
    store.save(kept.changes())
    assert taken == [number for _, number in sorted(model)]
    assert (store.values, kept.to_json()) == ({}, None)


@pytest.mark.parametrize("moment", [MORNING, MORNING + 0.05, MORNING + 0.1, MORNING + 0.3, 0.1 + 0.2])
def test_a_tick_is_never_before_its_moment_and_less_than_two_after(moment: float) -> None:
    assert -1e-5 <= moment_of(tick_of(moment)) - moment < 0.1


@seeded
def test_a_shelf_keeps_what_is_not_removed(seed: int) -> None:
    generator, store, kept = random.Random(seed), Store(), DelayedItems()
    not_due: dict[DelayedPlace, str] = {}
    due: dict[DelayedPlace, str] = {}
    ever: list[DelayedPlace] = []
    for number in range(150):
        match generator.choice(("put", "put", "fall due", "remove", "restart", "purge" if number % 30 == 0 else "put")):
            case "put":
                place = store.drive(kept.put(3, Item(f"{number}", MORNING)))
                assert place not in ever
                ever.append(place)
                not_due[place] = f"{number}"
            case "fall due" if not_due:
                place = generator.choice(list(not_due))
                store.drive(kept.fall_due(place, Place(3, 7, number)))
                due[place] = not_due.pop(place)
            case "remove" if ever:
                place = generator.choice(ever)
                store.drive(kept.remove(place))
                not_due.pop(place, None)
                due.pop(place, None)
            case "restart":
                store.save(kept.changes())
                kept = DelayedItems.from_json(through_json(kept.to_json()))
            case "purge":
                store.save(kept.changes())
                first, last = kept.purge()
                for file in range(first, last + 1):
                    kept.discard(file)
                not_due.clear()
                due.clear()
        assert kept.waiting == len(not_due)
        for place in generator.sample(ever, min(10, len(ever))):
            slot = store.drive(kept.get(place))
            text = (not_due | due).get(place)
            assert (slot and slot["item"]) == text
            assert slot is None or ("lane" in slot) == (place in due)
        store.save(kept.changes())
        assert set(store.values) == {place.key for place in (*not_due, *due)}


@seeded
def test_dedup_ids_are_known_for_as_long_as_the_window(seed: int) -> None:
    generator, store, kept = random.Random(seed), Store(), DedupLog("dedup")
    model: dict[str, tuple[int, float]] = {}
    now, window = MORNING, 60
    for number in range(300):
        now += generator.choice((0, 0, 1, 5, 50))
        kept.forget(now, window)
        dedup_id = generator.choice("abcdefghijklmnop")
        value, at = model.get(dedup_id, (None, 0.0))
        known = value if at + window > now else None
        assert kept.get(dedup_id, now, window) == known
        if known is None:
            kept.remember(dedup_id, number, now)
            model[dedup_id] = number, now
        store.save(kept.changes())
        if generator.random() < 0.2:
            kept = store.drive(DedupLog.restore("dedup", through_json(kept.to_json())))
    end = kept.next_end(window)
    while end is not None:
        kept.forget(end, window)
        end = kept.next_end(window)
    store.save(kept.changes())
    assert store.values == {}


@seeded
def test_a_pace_lets_through_what_it_says_and_no_more(seed: int) -> None:
    generator, pace = random.Random(seed), TokenBucket()
    rate = generator.choice((0.5, 3, 100))
    now, since = MORNING, MORNING
    passed = last = 0
    for _ in range(1000):
        wait = pace.wait(now, rate)
        if wait:
            # A caller that waits for the returned time is admitted.
            now += generator.choice((0.01, wait / 2, wait))
            if now - since >= 1:
                assert pace.wait(now + wait, rate) == 0
                now += wait
        else:
            last = generator.choice((1, 1, 2, 10))
            pace.spend(last)
            passed += last
        # What comes in a second at once, and one request that is larger than that.
        assert passed - last <= max(1, rate) + (now - since) * rate
    assert passed >= (now - since) * rate * 0.2
