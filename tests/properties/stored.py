"""What lies in a store under one queue's keys, read without the code that wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


# Where an item is; the latter two are followed by whose it is.
WAITING = "waiting"
LOCKED = "locked by "
IN_PARCEL = "in parcel "


Place = tuple[int, int, int]


class Entry(NamedTuple):
    """One item: its priority, segment and ordinal there, and what came of it since. Sorts as it was pushed."""

    place: Place
    deliveries: int = 0
    error: str | None = None

    @property
    def priority(self) -> int:
        return self.place[0]

    @property
    def id(self) -> str:
        return "0-{}-{}-{}".format(*self.place)


@dataclass(slots=True)
class StoredLock:
    entries: list[Entry]
    created_at: float
    expires_at: float


@dataclass(slots=True)
class StoredParcel:
    entries: list[Entry]
    target: str
    reason: str


@dataclass(slots=True)
class Contents:
    """Everything a queue holds."""

    #: In the order in which a pop would take them.
    waiting: list[Entry] = field(default_factory=list)
    locks: dict[str, StoredLock] = field(default_factory=dict)
    parcels: dict[int, StoredParcel] = field(default_factory=dict)
    #: What the queue itself says of how many wait, by priority.
    counts: dict[int, int] = field(default_factory=dict)
    max_locks: int = 1
    max_deliveries: int = 10
    takes_dead_letters: bool = False
    listed: bool = False
    #: How many segments nobody wants any more.
    garbage: int = 0
    #: The keys of all that is not a segment.
    own_keys: set[str] = field(default_factory=set)

    @property
    def keys(self) -> set[str]:
        """Every key the queue still needs."""
        return self.own_keys | {"segment-{}-{}".format(*entry.place) for entry, _ in self.everything()}

    def everything(self) -> Iterator[tuple[Entry, str]]:
        """Each item with where it is."""
        for entry in self.waiting:
            yield entry, WAITING
        for lock_id, lock in self.locks.items():
            for entry in lock.entries:
                yield entry, LOCKED + lock_id
        for number, parcel in self.parcels.items():
            for entry in parcel.entries:
                yield entry, f"{IN_PARCEL}{number}"


def read(value: Callable[[str], Any]) -> Contents:
    """Reads a queue; ``value`` gives what is stored under a key, or None."""
    metadata = value("metadata")
    if metadata is None:
        return Contents()
    config = value("config") or {}
    contents = Contents(
        counts={int(key): count for key, count in metadata.items() if key.isdigit()},
        max_locks=config.get("max_locks", 1),
        max_deliveries=config.get("max_deliveries", 10),
        takes_dead_letters=metadata.get("_takes_dead_letters", False),
        listed=metadata.get("_listed", False),
        garbage=sum(last - first + 1 for _, first, last in metadata.get("_garbage", ())),
        own_keys={"metadata", "config", "expired-locks"} | ({"lock-errors"} if "_active_lock" in metadata else set()),
    )
    holdings = metadata["_holdings"]
    locks = {"metadata": metadata.get("_active_lock")} | _numbered(value, "lock", 1, holdings["locks"])
    parcels = _numbered(value, "parcel", *holdings["parcels"])
    groups = _numbered(value, "returned", 0, holdings["returned"])
    for key, lock in locks.items():
        if lock is not None:
            entries = _entries(item["taken"] for item in lock["items_with_priority"])
            if key == "metadata" and (errors := value("lock-errors")):
                entries = [entry._replace(error=error) for entry, error in zip(entries, errors, strict=True)]
            contents.locks[lock["lock_id"]] = StoredLock(entries, lock["created_at"], lock["expires_at"])
    for key, parcel in parcels.items():
        if parcel is not None:
            number = int(key.removeprefix("parcel-"))
            entries = _entries(parcel["taken"])
            contents.parcels[number] = StoredParcel(entries, parcel["target"], parcel["reason"])
    returned = sorted(_entries(taken for group in groups.values() if group is not None for taken in group["taken"]))
    contents.own_keys.update(key for key, found in (locks | parcels | groups).items() if found is not None)
    lanes = {int(priority): lane for priority, lane in metadata["_lanes"].items()}
    for priority in sorted(lanes):
        contents.waiting += [entry for entry in returned if entry.priority == priority]
        contents.waiting += _never_taken(value, priority, lanes[priority])
    return contents


def _numbered(value: Callable[[str], Any], name: str, first: int, end: int) -> dict[str, Any]:
    return {key: value(key) for key in (f"{name}-{number}" for number in range(first, end))}


def _entries(taken: Iterable[list[Any]]) -> list[Entry]:
    return [Entry((priority, segment, ordinal), *rest) for priority, segment, ordinal, *rest in taken]


def _never_taken(value: Callable[[str], Any], priority: int, lane: list[int]) -> list[Entry]:
    head, offset, tail, filled, *_ = lane
    found: list[Entry] = []
    for segment in range(head, tail + 1 if filled else tail):
        length = len(value(f"segment-{priority}-{segment}")["items"])
        assert segment < tail or length == filled, f"segment-{priority}-{segment} has {length} items, not {filled}"
        found += _whole_segment(priority, segment, length)[offset if segment == head else 0 :]
    return found


@lru_cache(maxsize=10_000)
def _whole_segment(priority: int, segment: int, length: int) -> list[Entry]:
    # Kept, because the same queue is read again after every change to it.
    return [Entry((priority, segment, ordinal)) for ordinal in range(length)]
