"""A queue as its users understand it, in the plainest code there is. What the real one answers is compared with this.

Written from the design, not from the code: one list of items, sorted whenever something comes back. It answers with
the same JSON objects; what only the real queue can know (ids, and the words of a message) it is told or leaves out.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Answer = dict[str, Any]

LONGEST_LOCK = 300
MOST_AT_ONCE = 100

COUNTERS = (
    "pushed",
    "popped",
    "acknowledged",
    "abandoned",
    "expired",
    "redelivered",
    "dead_lettered",
    "purged",
    "revoked",
    "ttl_expired",
    "deduplicated",
    "redriven",
)


@dataclass(order=True, slots=True)
class Item:
    """Sorts as it is to be taken: by priority, then by age."""

    priority: int
    number: int
    id: str = field(compare=False)
    payload: Any = field(compare=False)
    enqueued_at: float = field(compare=False)
    deliveries: int = field(compare=False, default=0)
    error: str | None = field(compare=False, default=None)
    #: Of a dead letter, where it came from.
    origin: dict[str, Any] | None = field(compare=False, default=None)

    def message(self) -> dict[str, Any]:
        message = {
            "id": self.id,
            "priority": self.priority,
            "delivery_count": self.deliveries,
            "enqueued_at": _iso(self.enqueued_at),
            "partition": 0,
        }
        if self.error is not None:
            message["last_error"] = self.error
        if self.origin is not None:
            message["dead_letter"] = self.origin | {"dead_lettered_at": _iso(self.origin["dead_lettered_at"])}
        return message


@dataclass(slots=True)
class Lock:
    id: str
    items: list[Item]
    expires_at: float


@dataclass(slots=True)
class Parcel:
    """Dead letters on their way."""

    number: int
    target: str
    items: list[Item]
    reason: str
    at: float

    def origin_of(self, item: Item, queue: str) -> dict[str, Any]:
        return {
            "reason": self.reason,
            "attempts": item.deliveries,
            "last_error": item.error,
            "original_queue": queue,
            "original_partition": 0,
            "original_id": item.id,
            "tenant_id": "default",
            "idempotency_key": None,
            "dead_lettered_at": self.at,
        }


class Refused(Exception):
    def __init__(self, code: str, **details: Any) -> None:
        self.answer: Answer = {"success": False, "error_code": code, **details}


class ModelQueue:
    """One queue."""

    def __init__(self, name: str, *, remembered: int = 100) -> None:
        self.name = name
        self.config: dict[str, Any] = {
            "partitions": 1,
            "max_locks": 1,
            "max_deliveries": 10,
            "dead_letter_queue": None,
            "dedup_window_seconds": 300,
            "capacity": None,
            "default_ttl_seconds": None,
            "expired_to_dead_letters": False,
            "worker_queue": False,
            "rate_per_second": None,
        }
        self.waiting: list[Item] = []
        self.locks: list[Lock] = []
        self.expired: list[str] = []
        self.outbox: list[Parcel] = []
        self.ids: set[str] = set()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.takes_dead_letters = False
        self._remembered = remembered
        self._pushed = 0
        self._parcels = 0
        self._received: dict[str, int] = {}

    def answer(self, method: str, data: dict[str, Any] | None, now: float, given: Answer) -> Answer:
        """What is to be answered. ``given`` is what was, for the names that the queue is free to choose."""
        try:
            answer: Answer = getattr(self, f"_{method}")(data or {}, now, given)
        except Refused as refused:
            return refused.answer
        return answer

    def expire(self, now: float) -> None:
        """Comes before everything that is asked."""
        expired = [lock for lock in self.locks if lock.expires_at <= now]
        for lock in sorted(expired, key=lambda lock: (lock.expires_at, lock.items[0])):
            self.counters["expired"] += len(lock.items)
            most = max(self._remembered, self.config["max_locks"])
            self.expired = [*self.expired, lock.id][-most:]
            self._give_back(lock, now, None)

    @property
    def dead_letter_queue(self) -> str | None:
        if self.takes_dead_letters or self.name.endswith("-deadletter"):
            return None
        return self.config["dead_letter_queue"] or f"{self.name}-deadletter"

    # What may be asked

    def _Push(self, data: Answer, now: float, given: Answer) -> Answer:
        entries = data.get("items", [data])
        ids = given["ids"]
        assert len(ids) == len(entries)
        for item_id, entry in zip(ids, entries, strict=True):
            self._append(item_id, entry.get("priority", 0), entry["item"], now)
        return {"success": True, "count": len(ids), "ids": ids}

    def _Pop(self, data: Answer, now: float, given: Answer) -> Answer:
        return _popped(self._take(data))

    def _PopWithAck(self, data: Answer, now: float, given: Answer) -> Answer:
        items = self._take(data)
        if not items:
            return _popped([])
        ttl = min(max(data.get("ttl_seconds", 30), 1), LONGEST_LOCK)
        lock = Lock(given["lock_id"], items, now + ttl)
        self.locks.append(lock)
        return _popped(items) | {"locked": True, "lock_id": lock.id, "lock_expires_at": lock.expires_at}

    def _Acknowledge(self, data: Answer, now: float, given: Answer) -> Answer:
        lock = self._lock(data)
        self.locks.remove(lock)
        self.counters["acknowledged"] += len(lock.items)
        return {"success": True, "items_acknowledged": len(lock.items)}

    def _Abandon(self, data: Answer, now: float, given: Answer) -> Answer:
        lock = self._lock(data)
        self.counters["abandoned"] += len(lock.items)
        self._give_back(lock, now, data.get("error"))
        return {"success": True, "items_acknowledged": len(lock.items)}

    def _ExtendLock(self, data: Answer, now: float, given: Answer) -> Answer:
        lock = self._lock(data)
        lock.expires_at = min(lock.expires_at + data.get("additional_ttl_seconds", 30), now + LONGEST_LOCK)
        return {"success": True, "lock_expires_at": lock.expires_at}

    def _DeadLetter(self, data: Answer, now: float, given: Answer) -> Answer:
        lock = self._lock(data)
        if self.dead_letter_queue is None:
            raise Refused("INVALID_REQUEST")
        self.locks.remove(lock)
        self._send(lock.items, data.get("reason") or "rejected", now)
        return {"success": True, "items_acknowledged": len(lock.items)}

    def _Peek(self, data: Answer, now: float, given: Answer) -> Answer:
        return _popped(self.waiting[: data.get("count", 1)])

    def _InFlight(self, data: Answer, now: float, given: Answer) -> Answer:
        shown, room = [], MOST_AT_ONCE
        for lock in sorted(self.locks, key=lambda lock: (lock.expires_at, lock.items[0])):
            items, room = lock.items[:room], max(0, room - len(lock.items))
            shown.append(_popped(items) | _shown(lock))
        return {"locks": shown}

    def _Stats(self, data: Answer, now: float, given: Answer) -> Answer:
        priorities = sorted({item.priority for item in self.waiting})
        firsts = [next(item for item in self.waiting if item.priority == priority) for priority in priorities]
        oldest = min((item.enqueued_at for item in firsts), default=None)
        return {
            "queue": self.name,
            "partition": 0,
            "count": len(self.waiting),
            "priorities": {
                str(priority): sum(item.priority == priority for item in self.waiting) for priority in priorities
            },
            "locked": sum(len(lock.items) for lock in self.locks),
            "delayed": 0,
            "load": len(self.waiting) + sum(len(lock.items) for lock in self.locks),
            "oldest_age_seconds": None if oldest is None else max(0.0, now - oldest),
            "locks": [_shown(lock) for lock in self.locks],
            "counters": dict(self.counters),
            "config": dict(self.config),
            "dead_letter_queue": self.dead_letter_queue,
        }

    def _Purge(self, data: Answer, now: float, given: Answer) -> Answer:
        purged = len(self.waiting)
        self.waiting.clear()
        self.counters["purged"] += purged
        return {"success": True, "purged": purged}

    def _GetConfig(self, data: Answer, now: float, given: Answer) -> Answer:
        return dict(self.config)

    def _SetConfig(self, data: Answer, now: float, given: Answer) -> Answer:
        if data.get("dead_letter_queue") == self.name:
            raise Refused("INVALID_REQUEST")
        self.config |= data
        return dict(self.config)

    # Between queues

    def _Receive(self, data: Answer, now: float, given: Answer) -> Answer:
        if data["number"] <= self._received.get(data["source"], -1):
            return {"success": True, "taken": False}
        self._received[data["source"]] = data["number"]
        self.takes_dead_letters = True
        return {"success": True, "taken": True}

    def received(self, ids: list[str], source: ModelQueue, parcel: Parcel) -> None:
        """What a transfer that was taken has put into this queue."""
        for item_id, item in zip(ids, parcel.items, strict=True):
            arrived = self._append(item_id, item.priority, item.payload, item.enqueued_at)
            arrived.origin = parcel.origin_of(item, source.name)

    def _Transferred(self, data: Answer, now: float, given: Answer) -> Answer:
        self.outbox = [parcel for parcel in self.outbox if parcel.number != data.get("number")]
        following = None if not self.outbox else given["next"]
        return {"success": True, "next": following}

    # Inside

    def _append(self, item_id: str, priority: int, payload: Any, enqueued_at: float) -> Item:
        assert item_id not in self.ids, f"the id {item_id} was given twice"
        self.ids.add(item_id)
        self._pushed += 1
        self.counters["pushed"] += 1
        item = Item(priority, self._pushed, item_id, payload, enqueued_at)
        insort(self.waiting, item)
        return item

    def _take(self, data: Answer) -> list[Item]:
        if len(self.locks) >= self.config["max_locks"]:
            first = min(lock.expires_at for lock in self.locks)
            raise Refused("QUEUE_LOCKED", lock_expires_at=first, items=[], count=0, locked=True)
        taken = self.waiting[: data.get("count", 1)]
        del self.waiting[: len(taken)]
        for item in taken:
            self.counters["redelivered"] += item.deliveries > 0
            item.deliveries += 1
        self.counters["popped"] += len(taken)
        return taken

    def _lock(self, data: Answer) -> Lock:
        lock_id = data["lock_id"]
        if lock_id in self.expired:
            raise Refused("LOCK_EXPIRED")
        if not self.locks:
            raise Refused("LOCK_NOT_FOUND")
        for lock in self.locks:
            if lock.id == lock_id:
                return lock
        raise Refused("INVALID_LOCK_ID")

    def _give_back(self, lock: Lock, now: float, error: str | None) -> None:
        self.locks.remove(lock)
        hopeless = []
        for item in lock.items:
            item.error = error if error is not None else item.error
            if item.deliveries >= self.config["max_deliveries"] and self.dead_letter_queue is not None:
                hopeless.append(item)
            else:
                insort(self.waiting, item)
        if hopeless:
            self._send(hopeless, "max_deliveries", now)

    def _send(self, items: list[Item], reason: str, now: float) -> None:
        assert self.dead_letter_queue is not None
        self.counters["dead_lettered"] += len(items)
        self.outbox.append(Parcel(self._parcels, self.dead_letter_queue, items, reason, now))
        self._parcels += 1


def _popped(items: list[Item]) -> Answer:
    return {
        "items": [item.payload for item in items],
        "count": len(items),
        "messages": [item.message() for item in items],
    }


def _shown(lock: Lock) -> Answer:
    return {"lock_id_prefix": lock.id[:6], "count": len(lock.items), "expires_at": _iso(lock.expires_at)}


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
