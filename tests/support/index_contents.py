"""The contents of the index of instances: as a search finds them, and as they are stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from holdfast.kinds import INSTANCE_INDEX_TYPE
from holdfast.orchestration.index.entries import ALL, IDS, Entry
from holdfast.orchestration.index.finder import find
from holdfast.orchestration.index.search import MOST_FOUND, Criteria, Search
from holdfast.orchestration.index.shard import HEAD
from holdfast.orchestration.index.tree import ROOT, page_key
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.runtime.contract import HostClient


async def entries_in_index(client: HostClient, tenant: str = "default") -> dict[str, Entry]:
    """Returns the entries of a tenant by their instances."""
    found: dict[str, Entry] = {}
    position = None
    while True:
        part = await find(client, tenant, Search(Criteria(), newest=True, limit=MOST_FOUND, position=position))
        found |= {entry.instance_id: entry for entry in part.entries}
        position = part.position
        if position is None:
            return found


def check_stored_index(rows: Mapping[str, tuple[bytes, float | None]]) -> int:
    """Asserts that the lists of each stored shard agree with each other and with its counts.

    Returns the number of instances.
    """
    shards: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row, (value, _) in rows.items():
        _, actor_type, actor_id, key = row.split("||")
        if actor_type == INSTANCE_INDEX_TYPE:
            shards[actor_id][key] = load(value)
    return sum(_check_shard(values) for values in shards.values())


def _check_shard(values: dict[str, Any]) -> int:
    lists: defaultdict[str, list[Any]] = defaultdict(list)
    pages = _pages(values, ROOT)
    assert len(pages) + 1 == len(values), "a page that nothing refers to"
    stored = [entry for page in pages if not page["level"] for entry in page["entries"]]
    assert [key for key, _ in stored] == sorted(key for key, _ in stored)
    for (name, created_at, instance_id), value in stored:
        lists[name].append((created_at, instance_id, value))
    entries = [Entry(created_at, name, *value[:5]) for created_at, name, value in lists.pop(ALL, [])]
    assert {name: at for _, name, at in lists.pop(IDS, [])} == {
        entry.instance_id: entry.created_at for entry in entries
    }
    expected: defaultdict[str, list[Any]] = defaultdict(list)
    for entry in entries:
        for name, created_at, instance_id in entry.keys():  # noqa: SIM118
            expected[str(name)].append((created_at, instance_id, entry.value))
    assert lists == expected
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        counts[entry.name][entry.status] += 1
    assert values[HEAD]["counts"] == counts
    return len(entries)


def _pages(values: dict[str, Any], number: int) -> list[Any]:
    page = values[page_key(number)]
    below = [child for entry in page["entries"] for child in _pages(values, entry[1])] if page["level"] else []
    return [page, *below]
