"""The search tree of the index, against a sorted list."""

from __future__ import annotations

import math
import random
from bisect import insort
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import StorageBroken
from holdfast.orchestration.index import tree as tree_module
from holdfast.orchestration.index.tree import INNER_ENTRIES, LEAF_BYTES, LEAF_ENTRIES, ROOT, Tree, page_key
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from holdfast.orchestration.index.tree import Key, Slice


class Store:
    """State values, and the tree that is made of them anew for each turn."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.next_page = ROOT + 1
        self.reads = 0
        self.written = 0

    def turn(self, *steps: Callable[[Tree], Generator[tuple[str, ...], list[Any], Any]]) -> list[Any]:
        tree = Tree(self.next_page, measure=_measure, size=len)
        answers = [self._driven(step(tree)) for step in steps]
        changes = tree.changes()
        self.written = len(changes)
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = dump(value)
        self.next_page = tree.next_page
        return answers

    def _driven(self, steps: Generator[tuple[str, ...], list[Any], Any]) -> Any:
        values: list[Any] | None = None
        try:
            while True:
                keys = steps.send(values) if values is not None else next(steps)
                self.reads += len(keys)
                values = [load(self.values[key]) if key in self.values else None for key in keys]
        except StopIteration as ended:
            return ended.value

    def scanned(self, low: Key, high: Key, *, reverse: bool = False, least: float = -math.inf) -> list[list[Any]]:
        found: list[list[Any]] = []
        while True:
            part = self._part(low, high, reverse=reverse, least=least)
            found += part.entries
            if part.bound is None:
                return found
            if reverse:
                assert part.bound < high
                high = part.bound
            else:
                assert part.bound > low
                low = part.bound

    def _part(self, low: Key, high: Key, *, reverse: bool, least: float) -> Slice:
        read = Tree.from_high if reverse else Tree.from_low
        part: Slice = self.turn(lambda tree: read(tree, low, high, least))[0]
        return part


def _measure(value: str) -> float:
    return float(value.partition(" ")[0])


def _key(random_: random.Random) -> Key:
    return [random_.choice("abc"), float(random_.randrange(500)), f"i{random_.randrange(3)}"]


@pytest.mark.parametrize("seed", range(6))
def test_it_has_what_a_sorted_list_has(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(tree_module, "LEAF_ENTRIES", 5)
        monkeypatch.setattr(tree_module, "INNER_ENTRIES", 4)
    store, model = Store(), {}
    for number in range(3000):
        # Grows, shrinks, and grows again.
        grows = chance.random() < (0.3 if 1200 < number < 2200 else 0.75)
        key = _key(chance) if grows or not model else list(chance.choice(sorted(model)))
        if grows:
            value = f"{chance.randrange(100)} {'x' * chance.choice((1, 1, 1, 3000))}"
            model[tuple(key)] = value
            store.turn(lambda tree, key=key, value=value: tree.put(key, value))
        else:
            model.pop(tuple(key), None)
            store.turn(lambda tree, key=key: tree.remove(key))
        if number % 60 == 0:
            _compare(store, model, chance)
    for key in list(model):
        store.turn(lambda tree, key=list(key): tree.remove(key))
    assert store.scanned(["a"], ["z"]) == []
    assert list(store.values) == [page_key(ROOT)]


def _compare(store: Store, model: dict[tuple[Any, ...], str], chance: random.Random) -> None:
    low, high = sorted((_key(chance), [*_key(chance)[:2], math.inf]), key=lambda key: (key[0], key[1]))
    low, high = low[: chance.randint(1, 2)], high[: chance.randint(1, 2)]
    entries = [[list(key), model[key]] for key in sorted(model) if low <= list(key) < high]
    assert store.scanned(low, high) == entries
    assert store.scanned(low, high, reverse=True) == entries[::-1]
    for least in (50, 99):
        wanted = [entry for entry in entries if _measure(entry[1]) >= least]
        for reverse in (False, True):
            found = store.scanned(low, high, reverse=reverse, least=least)
            assert [entry for entry in found if _measure(entry[1]) >= least] == wanted[:: -1 if reverse else 1]
    key = _key(chance)
    assert store.turn(lambda tree: tree.get(key)) == [model.get(tuple(key))]
    for name, value in store.values.items():
        page = load(value)
        assert len(page["entries"]) <= (INNER_ENTRIES if page["level"] else LEAF_ENTRIES), name
        sizes = [len(entry[1]) for entry in page["entries"]] if not page["level"] else []
        assert sum(sizes) <= 2 * LEAF_BYTES + max(sizes, default=0)


def test_a_change_reads_and_writes_a_few_pages_whatever_their_number() -> None:
    store = Store()
    chance = random.Random(1)
    keys: list[Key] = []
    for number in range(8_000):
        key: Key = ["a", float(number), "i"] if number % 2 else ["b", 0.0, f"{chance.random()}"]
        insort(keys, key)
        store.reads = 0
        store.turn(lambda tree, key=key: tree.put(key, "1"))
        assert store.reads <= 4
        assert store.written <= 7
    for key in chance.sample(keys, 1000):
        store.reads = 0
        store.turn(lambda tree, key=key: tree.remove(key))
        assert store.reads <= 8


@pytest.mark.parametrize("reverse", [False, True])
def test_a_list_is_read_without_the_leaves_beside_it(reverse: bool) -> None:
    store = Store()
    for number in range(1000):
        for name in ("a", "c") if number % 40 else ("a", "b", "c"):
            key: Key = [name, float(number), "i"]
            store.turn(lambda tree, key=key: tree.put(key, "1"))
    leaves = [page for page in map(load, store.values.values()) if page["level"] == 0]
    tree = Tree(store.next_page, measure=_measure, size=len)
    [found] = store.turn(lambda _: _read_list(tree, "b", reverse=reverse))
    assert len(found) == 25
    above = len(store.values) - len(leaves)
    assert tree.pages_read - above == sum(any(key[0] == "b" for key, _ in page["entries"]) for page in leaves)


def _read_list(tree: Tree, name: str, *, reverse: bool) -> Generator[tuple[str, ...], list[Any], list[Any]]:
    """Reads a list in one turn, up to two leaves at a time."""
    low, high, found = [name, -math.inf], [name, math.inf], []
    read = tree.from_high if reverse else tree.from_low
    while True:
        part = yield from read(low, high, -math.inf, 1)
        found += part.entries
        if part.bound is None:
            return found
        low, high = (low, part.bound) if reverse else (part.bound, high)


def test_a_list_that_grows_at_its_end_fills_its_pages() -> None:
    store = Store()
    # Between others, which do not grow.
    for name in "ac":
        for number in range(100):
            store.turn(lambda tree, name=name, number=number: tree.put([name, float(number), ""], "1"))
    before = len(store.values)
    for number in range(100 * LEAF_ENTRIES):
        store.turn(lambda tree, number=number: tree.put(["b", float(number), ""], "1"))
    assert len(store.values) - before <= 110


def test_a_scan_leaves_out_pages_below_the_measure() -> None:
    store = Store()
    for number in range(6_000):
        store.turn(lambda tree, number=number: tree.put(["a", float(number), ""], "9" if number in (7, 4000) else "1"))
    for reverse in (False, True):
        store.reads = 0
        found = store.scanned(["a"], ["b"], reverse=reverse, least=5)
        assert sum(_measure(entry[1]) == 9 for entry in found) == 2
        assert store.reads <= 30


def test_many_entries_are_fetched_level_by_level() -> None:
    store = Store()
    for number in range(5000):
        store.turn(lambda tree, number=number: tree.put(["a", float(number), ""], "1"))
    keys: list[Key] = [["a", float(number), ""] for number in range(0, 5000, 500)]
    rounds: list[int] = []

    def fetch_and_get(tree: Tree) -> Generator[tuple[str, ...], list[Any], Any]:
        steps = tree.fetch(keys)
        values: list[Any] | None = None
        try:
            while True:
                wanted = steps.send(values) if values is not None else next(steps)
                rounds.append(len(wanted))
                values = yield wanted
        except StopIteration:
            pass
        before = tree.pages_read
        for key in keys:
            assert (yield from tree.get(key)) == "1"
        assert tree.pages_read == before

    store.turn(fetch_and_get)
    assert len(rounds) == 3
    assert rounds[-1] == len(keys)


def test_a_missing_page_is_named_as_damage() -> None:
    store = Store()
    for number in range(100):
        store.turn(lambda tree, number=number: tree.put(["a", float(number), ""], "1"))
    del store.values[page_key(2)]
    with pytest.raises(StorageBroken, match="index is damaged"):
        store.turn(lambda tree: tree.get(["a", 0.0, ""]))
