"""Searches of the index, compared with a list of all instances."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from holdfast.errors import StorageBroken
from holdfast.kinds import INSTANCE_INDEX_TYPE
from holdfast.orchestration.index import instance_index, search, tree
from holdfast.orchestration.index.entries import Entry
from holdfast.orchestration.index.finder import counts, find
from holdfast.orchestration.index.instance_index import MOST_NOTES, InstanceIndexActor, shard_of
from holdfast.orchestration.index.search import Criteria, Search
from holdfast.orchestration.status import ENDED, NOT_ENDED, Status
from tests.support.index_contents import check_stored_index
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dapr.actor import Actor


class Stage(ActorStage):
    """The index alone, and the entries that it should have."""

    def __init__(self) -> None:
        super().__init__(idle_timeout=3600)
        self.entries: dict[str, Entry] = {}
        self._rank = 0

    def actors(self) -> Iterable[type[Actor]]:
        return (InstanceIndexActor,)

    async def note(self, entries: Sequence[Entry], removed: Sequence[str] = ()) -> None:
        self._rank += 1
        notes: list[dict[str, Any]] = [{"instance_id": name, "rank": [self._rank]} for name in removed]
        for name in removed:
            self.entries.pop(name, None)
        for entry in entries:
            fields = entry._asdict()
            notes.append({"instance_id": fields.pop("instance_id"), "entry": fields, "rank": [self._rank]})
            self.entries[entry.instance_id] = entry
        by_shard: dict[str, list[Any]] = {}
        for note in notes:
            by_shard.setdefault(shard_of(note["instance_id"]), []).append(note)
        for shard, some in by_shard.items():
            for start in range(0, len(some), MOST_NOTES):
                notes = some[start : start + MOST_NOTES]
                await self.invoke(INSTANCE_INDEX_TYPE, shard, "Update", {"notes": notes})

    async def found(self, criteria: Criteria, *, newest: bool = True, limit: int = 7) -> list[str]:
        """Returns all that is found, page by page."""
        found: list[str] = []
        position = None
        while True:
            part = await find(self.host.client, "default", Search(criteria, newest, limit, position))
            assert len(part.entries) <= limit
            found += [entry.instance_id for entry in part.entries]
            position = part.position
            if position is None:
                return found

    def expected(self, criteria: Criteria, *, newest: bool = True) -> list[str]:
        after, before = criteria.started_after, criteria.started_before
        matching = [
            entry
            for entry in self.entries.values()
            if criteria.match(entry)
            and (after is None or entry.created_at >= after)
            and (before is None or entry.created_at < before)
        ]
        return [entry.instance_id for entry in sorted(matching, key=lambda entry: entry[:2], reverse=newest)]

    async def pages_read(self, criteria: Criteria, limit: int = 50) -> int:
        """Returns how many state values the first answer reads."""
        read = 0
        load_state = self.host.client.load_state

        async def counted(actor_type: str, actor_id: str, keys: Sequence[str]) -> Any:
            nonlocal read
            read += len(keys)
            return await load_state(actor_type, actor_id, keys)

        with patch.object(self.host.client, "load_state", counted):
            await find(self.host.client, "default", Search(criteria, newest=True, limit=limit))
        return read


on_stage = on_simulated_host(Stage)


def an_entry(chance: random.Random, number: int) -> Entry:
    # Times that several have in common.
    created_at = float(chance.randrange(2000))
    status = chance.choice(list(Status))
    ended_at = created_at + chance.randrange(20_000) if status in ENDED else None
    tags = {key: chance.choice("abc") for key in ("env", "customer") if chance.random() < 0.5}
    name = chance.choice(("order", "order", "order", "rare" if chance.random() < 0.05 else "cart"))
    return Entry(created_at, f"i-{number:03}-{chance.randrange(10)}", name, chance.choice("12"), status, ended_at, tags)


def a_search(chance: random.Random) -> Criteria:
    def maybe(value: Any) -> Any:
        return value if chance.random() < 0.3 else None

    return Criteria(
        status=chance.sample(list(Status), chance.choice((0, 0, 1, 2, 4))),
        name=maybe(chance.choice(("order", "cart", "rare", "unknown"))),
        version=maybe(chance.choice("12")),
        tags=[[key, chance.choice("abc")] for key in ("env", "customer") if chance.random() < 0.3],
        started_after=maybe(float(chance.randrange(2000))),
        started_before=maybe(float(chance.randrange(2000))),
        ended_after=maybe(float(chance.randrange(20_000))),
        ended_before=maybe(float(chance.randrange(20_000))),
        id_prefix=maybe(f"i-{chance.randrange(10)}") or "",
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_search_finds_what_matches_in_order(seed: int) -> None:
    async def body(stage: Stage) -> None:
        chance = random.Random(seed)
        for _ in range(5):
            numbers = chance.sample(range(1000), 120)
            made = [an_entry(chance, number) for number in numbers]
            known = chance.sample(sorted(stage.entries), min(len(stage.entries), 60))
            changed = [an_entry(chance, 0)._replace(instance_id=name) for name in known[:40]]
            await stage.note([*made, *changed], known[40:])
            check_stored_index(stage.host.storage.rows)
            for _ in range(12):
                criteria, newest = a_search(chance), chance.random() < 0.5
                limit = chance.choice((1, 7, 50, 1000))
                assert await stage.found(criteria, newest=newest, limit=limit) == stage.expected(
                    criteria, newest=newest
                )
        numbers_of: Counter[tuple[str, str]] = Counter((entry.name, entry.status) for entry in stage.entries.values())
        found = await counts(stage.host.client, "default")
        assert {(name, status): n for name, by in found.items() for status, n in by.items()} == numbers_of
        await stage.note([], list(stage.entries))
        assert check_stored_index(stage.host.storage.rows) == 0
        assert await counts(stage.host.client, "default") == {}

    # Small pages, so that a few instances need a high tree, and searches end in the middle.
    sizes = {"LEAF_ENTRIES": 5, "INNER_ENTRIES": 4}
    with (
        patch.multiple(tree, **sizes),
        patch.multiple(search, PAGES_AT_ONCE=8, _PREFIX_IDS=20, _ENTRIES_AT_ONCE=4),
        patch.object(instance_index, "_PAGES_AT_ONCE", 3),
    ):
        on_stage(body)()


@on_stage
async def test_pages_that_change_meanwhile_miss_none_that_is_there_all_the_time(stage: Stage) -> None:
    chance = random.Random(3)
    lasting = [Entry(float(number), f"kept-{number}", "order", "1", "RUNNING", None, {}) for number in range(120)]
    await stage.note(lasting)
    for newest in (True, False):
        for criteria in (Criteria(), Criteria(status=["RUNNING"]), Criteria(status=list(NOT_ENDED), name="order")):
            found: list[str] = []
            position = None
            while True:
                part = await find(stage.host.client, "default", Search(criteria, newest, 20, position))
                found += [entry.instance_id for entry in part.entries]
                position = part.position
                if position is None:
                    break
                others = [name for name in stage.entries if name.startswith("other")]
                # Some start at any time, some end, some are deleted.
                started = [
                    Entry(chance.uniform(0, 120), f"other-{chance.random()}", "order", "1", "RUNNING", None, {})
                    for _ in range(12)
                ]
                ended = [stage.entries[name]._replace(status="COMPLETED", ended_at=400.0) for name in others[:5]]
                await stage.note([*started, *ended], others[5:12])
            assert len(found) == len(set(found))
            kept = [name for name in found if name.startswith("kept")]
            assert kept == [entry.instance_id for entry in lasting][:: -1 if newest else 1]


@on_stage
async def test_what_another_version_wrote_is_refused_in_a_sentence(stage: Stage) -> None:
    stage.host.storage.rows[f"holdfast||{INSTANCE_INDEX_TYPE}||0||shard"] = (b'{"format": 99}', None)
    with pytest.raises(StorageBroken, match=r"instance index has format 99, .* format 1\."):
        await counts(stage.host.client, "default")


@on_stage
async def test_a_late_update_does_not_replace_a_newer_one(stage: Stage) -> None:
    entry = Entry(1.0, "i", "order", "1", "COMPLETED", 2.0, {})
    fields = entry._asdict()
    fields.pop("instance_id")
    for status, rank in (("COMPLETED", [1.0, 1, 5, 0]), ("RUNNING", [1.0, 1, 4, 9]), (None, [1.0]), (None, [0.5])):
        noted = None if status is None else {**fields, "status": status}
        note = {"instance_id": "i", "entry": noted, "rank": rank}
        await stage.invoke(INSTANCE_INDEX_TYPE, shard_of("i"), "Update", {"notes": [note]})
    stage.entries["i"] = entry
    assert await stage.found(Criteria(status=["COMPLETED"])) == ["i"]
    assert await counts(stage.host.client, "default") == {"order": {"COMPLETED": 1}}


@on_stage
async def test_the_cost_of_an_answer_does_not_grow_with_the_number_of_instances(stage: Stage) -> None:
    chance = random.Random(1)

    def some(first: int, end: int) -> list[Entry]:
        return [
            Entry(
                float(number),
                f"{chance.random()}",
                "rare" if number % 200 == 0 else "order",
                "1",
                "FAILED" if number % 200 == 1 else "COMPLETED",
                number + 1.0,
                {"customer": f"c-{number % 200}"},
            )
            for number in range(first, end)
        ]

    searches = [
        Criteria(),
        Criteria(status=["FAILED"]),
        Criteria(name="rare"),
        Criteria(tags=[["customer", "c-7"]]),
        Criteria(status=["COMPLETED"], name="order", tags=[["customer", "c-7"]]),
        Criteria(started_after=100.0, started_before=150.0),
        Criteria(ended_after=100.0, ended_before=150.0),
    ]
    await stage.note(some(0, 1000))
    few = [await stage.pages_read(criteria) for criteria in searches]
    for first in range(1000, 9_000, 1000):
        await stage.note(some(first, first + 1000))
    many = [await stage.pages_read(criteria) for criteria in searches]
    # At the most a leaf more, in each shard and at each end of each list that is compared.
    assert all(b <= a + 2 * 2 * 4 for a, b in zip(few, many, strict=True)), (few, many)
    # One that matches nothing ends with a position, not at the end of the index.
    with patch.object(search, "PAGES_AT_ONCE", 4):
        part = await find(stage.host.client, "default", Search(Criteria(version="2"), newest=True, limit=50))
        assert part.entries == []
        assert part.position is not None
        assert await stage.pages_read(Criteria(version="2")) < 100


@on_stage
async def test_of_the_pages_only_some_above_the_leaves_stay_in_memory(stage: Stage) -> None:
    entries = [Entry(float(number), f"i-{number}", "order", "1", "RUNNING", None, {}) for number in range(2000)]

    async def pages_in_memory() -> list[Any]:
        await stage.note([entry._replace(status="CANCELLED") for entry in entries[::50]])
        await stage.found(Criteria(status=["RUNNING"]), limit=1000)
        manager = stage.host._runtime._actor_managers[INSTANCE_INDEX_TYPE]
        active: list[Any] = list(manager._active_actors.values())
        assert len(active) == instance_index.SHARDS
        turns = [actor.work.turn() for actor in active]
        return [turn.known_value(key) for turn in turns for key in turn.known() if key != "shard"]

    with patch.multiple(tree, INNER_ENTRIES=8):
        await stage.note(entries)
        kept = await pages_in_memory()
        assert len(kept) > instance_index.SHARDS
        assert all(page["level"] > 0 for page in kept)
        with patch.object(instance_index, "_PAGES_IN_MEMORY", 2):
            assert len(await pages_in_memory()) == instance_index.SHARDS


@pytest.mark.parametrize("tag", [[], ["key"], ["key", "value", "more"]])
def test_a_tag_that_is_not_a_pair_is_refused(tag: list[str]) -> None:
    with pytest.raises(ValidationError):
        Criteria(tags=[tag])
