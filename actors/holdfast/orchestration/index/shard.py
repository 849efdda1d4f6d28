"""One shard of the index as a state machine: its lists, and how many instances of each name and status it has.

No I/O: methods that need stored values yield their keys. The numbers are saved in the transaction that changes the
lists, so that they are right whatever crashes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageBroken
from holdfast.orchestration.index.entries import ALL, IDS, Entry, measure, size
from holdfast.orchestration.index.tree import ROOT, Tree, page_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.orchestration.index.tree import Key
    from holdfast.runtime.reads import Reads

#: The format, the number of the next page, and the numbers of instances.
HEAD = "shard"
FORMAT = 1
#: The root of the lists. These two are all that stays in memory.
ROOT_KEY = page_key(ROOT)


class Shard:
    def __init__(self, head: dict[str, Any] | None) -> None:
        head = head or {"format": FORMAT, "next_page": ROOT + 1, "counts": {}}
        if head["format"] != FORMAT:
            raise StorageBroken(
                f"The instance index has format {head['format']}, of another version of Holdfast. "
                f"This version reads format {FORMAT}."
            )
        self.tree = Tree(head["next_page"], measure=measure, size=size)
        #: By name and status.
        self.counts: dict[str, dict[str, int]] = head["counts"]

    def fetch(self, updates: Mapping[str, Entry | None]) -> Reads[None]:
        """Reads the pages that these updates need, all of a kind together."""
        tree = self.tree
        yield from tree.fetch([_id_key(instance_id) for instance_id in updates])
        known: list[Key] = []
        for instance_id in updates:
            created_at = yield from tree.get(_id_key(instance_id))
            if created_at is not None:
                known.append([ALL, created_at, instance_id])
        yield from tree.fetch(known)
        entries = [entry for entry in updates.values() if entry is not None]
        for key in known:
            value = yield from tree.get(key)
            if value is not None:
                entries.append(Entry.of(key, value))
        keys: list[Key] = [[ALL, entry.created_at, entry.instance_id] for entry in entries]
        yield from tree.fetch([*keys, *(key for entry in entries for key in entry.keys())])  # noqa: SIM118 (no mapping)

    def update(self, instance_id: str, entry: Entry | None, rank: list[float]) -> Reads[None]:
        """Replaces the entry of an instance, unless it has one of a higher rank. Without an entry it is removed."""
        known, known_rank = yield from self._find(instance_id)
        if known is not None and known_rank > rank:
            return
        tree = self.tree
        if known is not None:
            kept = [] if entry is None else list(entry.keys())
            for key in known.keys():  # noqa: SIM118
                if key not in kept:
                    yield from tree.remove(key)
            if entry is None or entry.created_at != known.created_at:
                yield from tree.remove([ALL, known.created_at, instance_id])
            self._count(known, -1)
        if entry is None:
            yield from tree.remove(_id_key(instance_id))
            return
        self._count(entry, 1)
        if known is None or entry.created_at != known.created_at:
            yield from tree.put(_id_key(instance_id), entry.created_at)
        yield from tree.put([ALL, entry.created_at, instance_id], [*entry.value, rank])
        if known is None or entry.value != known.value or entry.created_at != known.created_at:
            for key in entry.keys():  # noqa: SIM118
                yield from tree.put(key, entry.value)

    @property
    def count(self) -> int:
        """The number of instances."""
        return sum(number for statuses in self.counts.values() for number in statuses.values())

    def listed(self, ids: Iterable[str]) -> Reads[list[str]]:
        """Reads which of these instances have an entry."""
        ids = list(ids)
        yield from self.tree.fetch(list(map(_id_key, ids)))
        found: list[str] = []
        for instance_id in ids:
            if (yield from self.tree.get(_id_key(instance_id))) is not None:
                found.append(instance_id)
        return found

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes a value."""
        changed = self.tree.changes()
        if changed:
            changed[HEAD] = {"format": FORMAT, "next_page": self.tree.next_page, "counts": self.counts}
        return changed

    def _find(self, instance_id: str) -> Reads[tuple[Entry | None, list[float]]]:
        created_at = yield from self.tree.get(_id_key(instance_id))
        if created_at is None:
            return None, []
        key: Key = [ALL, created_at, instance_id]
        value = yield from self.tree.get(key)
        return (None, []) if value is None else (Entry.of(key, value), value[5])

    def _count(self, entry: Entry, change: int) -> None:
        statuses = Counter(self.counts.get(entry.name))
        statuses[entry.status] += change
        self.counts[entry.name] = dict(+statuses)
        if not self.counts[entry.name]:
            del self.counts[entry.name]


def _id_key(instance_id: str) -> Key:
    return [IDS, 0.0, instance_id]
