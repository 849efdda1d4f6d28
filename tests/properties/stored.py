"""The stored values of a queue, decoded without the code that wrote them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Where an item is; the latter two are followed by whose it is.
WAITING = "waiting"
DELAYED = "delayed"
LOCKED = "locked by "
IN_PARCEL = "in parcel "

Place = tuple[int, int, int]
Shelved = tuple[int, int]

# What a calendar's tree is made of: the root, nodes, pages of ticks, and chunks of entries.
LEVELS = 4
TICKS_PER_SECOND = 10
# Values that say what was taken from other queues.
ARRIVALS = 16


class Entry(NamedTuple):
    """The place of an item in a lane, or of a former one. Sorts as the items became available."""

    place: Place
    deliveries: int = 0
    error: str | None = None
    #: Of one that was pushed with a delay: where it really lies.
    shelved: Shelved | None = None
    #: When it expires.
    until: float | None = None

    @property
    def priority(self) -> int:
        return self.place[0]

    @property
    def key(self) -> str:
        return "segment-{}-{}".format(*self.place)

    def id(self, partition: int) -> str:
        priority, segment, ordinal = self.place
        if self.shelved is None:
            return f"{partition}-{priority}-{segment}-{ordinal}"
        return "{}-{}-d{}-{}".format(partition, priority, *self.shelved)


class NotDue(NamedTuple):
    """A delayed item that is not due."""

    priority: int
    shelved: Shelved
    due: float

    def id(self, partition: int) -> str:
        return "{}-{}-d{}-{}".format(partition, self.priority, *self.shelved)


@dataclass(slots=True)
class StoredLock:
    entries: list[Entry]
    created_at: float
    expires_at: float


@dataclass(slots=True)
class StoredParcel:
    entries: list[Entry]
    target: str
    reason: str | None


@dataclass(slots=True)
class StoredGroup:
    """Items that were given back, and are kept back for a while."""

    entries: list[Entry]
    due: float


@dataclass(slots=True)
class Contents:
    """Everything a queue holds."""

    partition: int = 0
    #: In the order in which a pop would take them.
    waiting: list[Entry] = field(default_factory=list)
    not_due: list[NotDue] = field(default_factory=list)
    postponed: list[StoredGroup] = field(default_factory=list)
    locks: dict[str, StoredLock] = field(default_factory=dict)
    parcels: dict[int, StoredParcel] = field(default_factory=dict)
    #: What the queue itself says of how many wait, by priority, and of how many are not due yet.
    counts: dict[int, int] = field(default_factory=dict)
    counted_not_due: int = 0
    #: What it says of how many bytes they all have, and how many those are that lie there.
    counted_bytes: int = 0
    bytes: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    config_version: int = 0
    pending_partitions: list[int] = field(default_factory=list)
    is_dead_letter_queue: bool = False
    listed: bool = False
    #: Whether it was deleted, and nothing was put into it since; and when a deletion that was begun is given up.
    deleted: bool = False
    deletion_ends: float | None = None
    #: The number of state values that are to be deleted.
    garbage: int = 0
    #: What is to happen, with the tick it is for.
    due_index: list[tuple[int, list[Any]]] = field(default_factory=list)
    #: The chunks of dedup ids and claims, with when the last of each was added, or of one before it: they go in order.
    remembered: dict[str, float] = field(default_factory=dict)
    #: The segments that have no keys: they lie in the metadata.
    inline: set[str] = field(default_factory=set)
    #: The keys of all that items do not lie in.
    own_keys: set[str] = field(default_factory=set)

    @property
    def keys(self) -> set[str]:
        """Every key the queue still needs, and the names of segments without one."""
        held = [entry for entry, _ in self.everything()]
        segments = {entry.key for entry in held}
        files = {f"delayed-{entry.shelved[0]}" for entry in (*held, *self.not_due) if entry.shelved is not None}
        return self.own_keys | segments | files

    @property
    def delayed(self) -> int:
        return len(self.not_due) + sum(len(group.entries) for group in self.postponed)

    def everything(self) -> Iterator[tuple[Entry, str]]:
        """Each item that has a place, with where it is."""
        for entry in self.waiting:
            yield entry, WAITING
        for group in self.postponed:
            for entry in group.entries:
                yield entry, DELAYED
        for lock_id, lock in self.locks.items():
            for entry in lock.entries:
                yield entry, LOCKED + lock_id
        for number, transfer in self.parcels.items():
            for entry in transfer.entries:
                yield entry, f"{IN_PARCEL}{number}"

    def states(self) -> Iterator[tuple[str, str, int]]:
        """The id of each item, where it is, and how often it was delivered."""
        for entry, where in self.everything():
            yield entry.id(self.partition), where, entry.deliveries
        for item in self.not_due:
            yield item.id(self.partition), DELAYED, 0

    def check(self) -> None:
        """Asserts that the counts match the items, and that due times are in the due index."""
        found = dict.fromkeys(self.counts, 0)
        for entry in self.waiting:
            found[entry.priority] = found.get(entry.priority, 0) + 1
        assert found == self.counts, f"the queue counts {self.counts} but holds {found}"
        assert self.counted_not_due == len(self.not_due)
        assert self.counted_bytes == self.bytes, f"the queue counts {self.counted_bytes} bytes, and has {self.bytes}"
        ids = [item_id for item_id, *_ in self.states()]
        assert len(ids) == len(set(ids)), f"in two places at once: {sorted(ids)}"
        ahead = {(tick, tuple(what)) for tick, what in self.due_index}
        for item in self.not_due:
            entry = round(item.due * TICKS_PER_SECOND), ("due", item.priority, *item.shelved)
            assert entry in ahead, f"nothing will happen to {item}"
        looks: dict[tuple[int, int], int] = {}
        for tick, (what, *where) in self.due_index:
            if what == "expire":
                priority, segment = where
                looks[priority, segment] = min(tick, looks.get((priority, segment), tick))
        for entry in (*self.waiting, *(entry for group in self.postponed for entry in group.entries)):
            if entry.until is not None:
                looked_at = looks.get(entry.place[:2])
                assert looked_at is not None, f"{entry} will never expire"


def read(value: Callable[[str], Any], partition: int = 0) -> Contents:
    """Reads a queue; ``value`` gives what is stored under a key, or None."""
    metadata = value("metadata")
    if metadata is None:
        return Contents(partition)
    contents = Contents(
        partition,
        counts={int(key): count for key, count in metadata.items() if key.isdigit()},
        counted_bytes=metadata["_bytes"],
        config=value("config") or {},
        config_version=metadata.get("_config_version", 0),
        pending_partitions=metadata.get("_pending_partitions", []),
        is_dead_letter_queue=metadata.get("_is_dead_letter_queue", False),
        listed=metadata.get("_indexed", False),
        deleted=metadata.get("_deleted", False),
        deletion_ends=metadata.get("_deletion", (0, None))[1],
        inline=set(metadata.get("_segments", ())),
        garbage=sum(last - first + 1 for _, first, last in metadata.get("_deferred_deletes", ())),
        own_keys={"metadata", "config", "expired-locks"} | ({"lock-errors"} if "_active_lock" in metadata else set()),
    )
    _Reader(value, contents).read(metadata)
    return contents


def with_segments(value: Callable[[str], Any]) -> Callable[[str], Any]:
    """Gives what lies in a segment, also in one that is in the metadata."""

    def found(key: str) -> Any:
        stored = value(key)
        if not key.startswith("segment-"):
            return stored
        inline = value("metadata").get("_segments", {})
        assert stored is None or key not in inline, f"{key} is in two places"
        segment = inline.get(key, stored)
        return None if segment is None else list(_entries(segment))

    return found


def _entries(segment: dict[str, Any]) -> Iterator[Any]:
    lines, times, more = segment["lines"].split("\n"), segment["at"], segment.get("more", {})
    times = times if isinstance(times, list) else [times] * len(lines)
    for number, (line, at) in enumerate(zip(lines, times, strict=True)):
        rest = more.get(str(number), {})
        yield rest if at is None else {"item": line, "at": at} | rest


class _Reader:
    def __init__(self, value: Callable[[str], Any], contents: Contents) -> None:
        self._value = with_segments(value)
        self._contents = contents

    def read(self, metadata: dict[str, Any]) -> None:
        contents = self._contents
        returned = self._holdings(metadata)
        for priority, lane in sorted((int(priority), lane) for priority, lane in metadata["_lanes"].items()):
            contents.waiting += [entry for entry in returned if entry.priority == priority]
            contents.waiting += self._never_taken(priority, lane)
        self._shelf(metadata.get("_delayed"))
        generation = metadata.get("_generation", 0)
        self._calendar(metadata.get("_due_index"), generation, self._contents.due_index)
        for old, due_index in metadata.get("_old_due_indexes", ()):
            outdated: list[tuple[int, list[Any]]] = []
            self._calendar(due_index, old, outdated)
            self._contents.garbage += len(outdated)
        for number in range(ARRIVALS):
            self._own(f"received-{number}")
        for name in ("dedup", "claims"):
            end = 0.0
            for number in range(*metadata.get(f"_{name}", (0, 0))):
                end = max(end, *(at for _, _, at in self._own(f"{name}-{number}")))
                contents.remembered[f"{name}-{number}"] = end

    def _holdings(self, metadata: dict[str, Any]) -> list[Entry]:
        """Answers what was given back."""
        contents, extents = self._contents, metadata["_in_flight"]
        locks = [metadata.get("_active_lock")]
        locks += [self._own(f"lock-{slot}") for slot in range(1, extents["locks"])]
        for slot, lock in enumerate(locks):
            if lock is not None:
                entries = self._entries(item["delivered"] for item in lock["items_with_priority"])
                if slot == 0 and (errors := self._value("lock-errors")):
                    entries = [entry._replace(error=error) for entry, error in zip(entries, errors, strict=True)]
                contents.locks[lock["lock_id"]] = StoredLock(entries, lock["created_at"], lock["expires_at"])
        for slot in range(extents["transfers"][0]):
            if (transfer := self._own(f"transfer-{slot}")) is not None:
                entries = self._entries(transfer["delivered"])
                contents.parcels[transfer["number"]] = StoredParcel(entries, transfer["target"], transfer["reason"])
        returned: list[Entry] = []
        for number in range(extents["redeliveries"]):
            if (group := self._own(f"redelivery-{number}")) is not None:
                entries = self._entries(group["delivered"])
                if "due" in group:
                    contents.postponed.append(StoredGroup(entries, group["due"]))
                else:
                    returned += entries
        return sorted(returned, key=lambda entry: entry.place)

    def _never_taken(self, priority: int, lane: list[Any]) -> list[Entry]:
        head, offset, tail, filled, *_ = lane
        found: list[Entry] = []
        for segment in range(head, tail + 1 if filled else tail):
            items = self._own(f"segment-{priority}-{segment}")
            assert segment < tail or len(items) == filled, f"segment-{priority}-{segment} has not {filled} items"
            first = offset if segment == head else 0
            for ordinal, item in enumerate(items[first:], first):
                if item is not None and "removed" not in item:
                    shelved = tuple(item["shelved"]) if "shelved" in item else None
                    self._count(item, shelved)
                    found.append(Entry((priority, segment, ordinal), 0, None, shelved, item.get("until")))
        return found

    def _shelf(self, delayed_items: list[int] | None) -> None:
        if delayed_items is None:
            return
        self._contents.counted_not_due, floor, low, tail, *_ = delayed_items
        assert floor <= low <= tail
        for file in range(low, tail + 1):
            for ordinal, slot in enumerate(self._value(f"delayed-{file}") or ()):
                if slot is not None and "lane" not in slot:
                    self._count(slot, None)
                    self._contents.not_due.append(NotDue(slot["priority"], (file, ordinal), slot["due"]))

    def _calendar(self, due_index: list[Any] | None, generation: int, entries: list[tuple[int, list[Any]]]) -> None:
        if due_index is None:
            return
        first, numbers = due_index
        prefix = f"due{generation or ''}"
        for level in range(LEVELS, 1, -1):
            numbers = [child for number in numbers for child in self._own(f"{prefix}-{level}-{number}")]
        for number in numbers:
            page = self._own(f"{prefix}-1-{number}")
            for tick, (begin, last, _) in sorted((int(tick), chunks) for tick, chunks in page.items()):
                for chunk in range(begin, last + 1):
                    entries += [(tick, what) for what in self._own(f"{prefix}-0-{tick}-{chunk}")]
        assert first == min(tick for tick, _ in entries), f"the calendar looks at {first}, not at what comes first"

    def _entries(self, taken: Iterable[list[Any]]) -> list[Entry]:
        found = []
        for priority, segment, ordinal, deliveries, size, *more in taken:
            error, *shelved = more or [None]
            item = self._value(f"segment-{priority}-{segment}")[ordinal]
            assert size == self._count(item, tuple(shelved) or None)
            # One that is on its way elsewhere may have been withdrawn from where it lies.
            until = item.get("until") if item else None
            found.append(Entry((priority, segment, ordinal), deliveries, error, tuple(shelved) or None, until))  # type: ignore[arg-type]
        return found

    def _count(self, item: Any, shelved: Any) -> int:
        slot = item if shelved is None else self._value(f"delayed-{shelved[0]}")[shelved[1]]
        size = 64 + len(slot["item"].encode())
        self._contents.bytes += size
        return size

    def _own(self, key: str) -> Any:
        found = self._value(key)
        if found is not None:
            self._contents.own_keys.add(key)
        return found
