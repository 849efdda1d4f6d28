"""Finds instances of a tenant: asks all shards of the index, and merges what they found."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from holdfast.kinds import INSTANCE_INDEX_TYPE
from holdfast.orchestration.index.entries import Entry
from holdfast.orchestration.index.instance_index import MOST_NOTES, SHARDS, shard_of, shards_of
from holdfast.orchestration.index.search import Found
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.orchestration.index.search import Search
    from holdfast.runtime.contract import HostClient

# How often the shards are asked for one answer.
_ROUNDS = 4


async def find(client: HostClient, tenant: str, search: Search) -> Found:
    """Finds the next instances. It may find fewer than the limit and still return a position from which to go on."""
    # Instances are spread over the shards at random: it is unlikely that one of them has many more.
    limit = min(search.limit, math.ceil(search.limit / SHARDS + 1.5 * math.sqrt(search.limit)))
    parts = {shard: Found([], search.position) for shard in shards_of(tenant)}
    asked = list(parts)
    merged = Found([], search.position)
    for _ in range(_ROUNDS):
        answers = await asyncio.gather(
            *(find_in_shard(client, shard, search, limit, parts[shard].position) for shard in asked)
        )
        for shard, answer in zip(asked, answers, strict=True):
            parts[shard] = Found([*parts[shard].entries, *answer.entries], answer.position)
        merged = search.merge(list(parts.values()))
        if len(merged.entries) >= search.limit or merged.position is None:
            break
        # The shards that hold the others up, and those that would soon.
        short = {shard for shard, answer in zip(asked, answers, strict=True) if len(answer.entries) < limit}
        asked = [
            shard
            for shard, part in parts.items()
            if part.position is not None and (part.position == merged.position or shard in short)
        ]
    return merged


async def find_in_shard(
    client: HostClient, shard: str, search: Search, limit: int, position: tuple[float, str] | None
) -> Found:
    """Finds the next instances in one shard."""
    body = {
        "criteria": search.criteria.model_dump(exclude_defaults=True),
        "order": "newest" if search.newest else "oldest",
        "limit": limit,
        "position": position,
    }
    answer = load(await client.invoke_method(INSTANCE_INDEX_TYPE, shard, "Find", dump(body)))
    position = None if answer["position"] is None else tuple(answer["position"])
    return Found([Entry(*entry) for entry in answer["entries"]], position)


async def counts(client: HostClient, tenant: str) -> dict[str, dict[str, int]]:
    """Returns the number of a tenant's instances by name and status."""
    numbers: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for answer in await asyncio.gather(
        *(client.invoke_method(INSTANCE_INDEX_TYPE, shard, "Counts") for shard in shards_of(tenant))
    ):
        found: dict[str, Any] = load(answer)
        for name, statuses in found.items():
            for status, number in statuses.items():
                numbers[name][status] += number
    return {name: dict(sorted(numbers[name].items())) for name in sorted(numbers)}


async def count(client: HostClient, tenant: str, ids: Collection[str]) -> tuple[int, set[str]]:
    """Returns the number of a tenant's instances, and those of ``ids`` that this number includes."""
    by_shard: dict[str, list[str]] = {shard: [] for shard in shards_of(tenant)}
    for instance_id in ids:
        by_shard[shard_of(instance_id, tenant)].append(instance_id)

    async def ask(shard: str, ids: list[str]) -> tuple[int, set[str]]:
        listed: set[str] = set()
        number = 0
        for start in range(0, max(1, len(ids)), MOST_NOTES):
            asked = dump({"ids": ids[start : start + MOST_NOTES]})
            answer = load(await client.invoke_method(INSTANCE_INDEX_TYPE, shard, "Count", asked))
            # Ids of an earlier part may have been listed since: they count twice until the next call, not never.
            number = answer["count"]
            listed.update(answer["listed"])
        return number, listed

    answers = await asyncio.gather(*(ask(shard, ids) for shard, ids in by_shard.items()))
    return sum(number for number, _ in answers), set().union(*(listed for _, listed in answers))
