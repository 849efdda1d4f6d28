"""A queue as its users understand it, in the plainest code there is. What the real one answers is compared with this.

Written from the design, not from the code. It answers with the same JSON objects; what only the real queue can know
(ids, and the texts of messages) it is given or leaves out.
"""

from __future__ import annotations

from math import ceil
from typing import Any, TypeGuard

from tests.properties.model_state import Item, Lock, Refused, Remembered, Sent, iso, origin_shown
from tests.properties.model_stock import DEFAULTS, ModelStock

Answer = dict[str, Any]

LONGEST_LOCK = 300
MOST_AT_ONCE = 100
#: After this, a deletion that was begun is given up.
DELETION_SECONDS = 30


class ModelQueue(ModelStock):
    """The replies of a queue, or of a partition."""

    def answer(self, method: str, data: dict[str, Any] | None, now: float, given: Answer) -> Answer:
        """Returns the expected reply. ``given`` is the real one, for the ids that the queue is free to choose."""
        try:
            answer: Answer = getattr(self, f"_{method}")(data or {}, now, given)
        except Refused as refused:
            return refused.answer
        return answer

    # What may be asked

    def _Push(self, data: Answer, now: float, given: Answer) -> Answer:
        if not self.is_member:
            raise Refused("NOT_FOUND")
        entries = data.get("items", [data])
        ids = given.get("ids", [None] * len(entries))
        seen = set()
        new = []
        for number, entry in enumerate(entries):
            dedup_id = entry.get("dedup_id")
            if dedup_id is None or not self.config["dedup_window_seconds"]:
                new.append(number)
            elif dedup_id not in seen:
                seen.add(dedup_id)
                if not self._is_duplicate(dedup_id, now, ids[number]):
                    new.append(number)
                    if self._is_elsewhere(dedup_id, now, given):
                        raise Refused("CONFLICT")
        self._refuse_too_many(len(new), data.get("elsewhere", 0), now)
        expected = []
        for number, (item_id, entry) in enumerate(zip(ids, entries, strict=True)):
            dedup_id = entry.get("dedup_id")
            if number in new:
                self._append(item_id, entry, now)
                if dedup_id is not None and self.config["dedup_window_seconds"]:
                    self._dedup[dedup_id] = Remembered(item_id, now)
                expected.append(item_id)
            else:
                expected.append(self._dedup[dedup_id].value)
        self.counters["deduplicated"] += len(entries) - len(new)
        return {"success": True, "count": len(new), "ids": expected}

    def _Claim(self, data: Answer, now: float, given: Answer) -> Answer:
        homes = []
        chosen = data["partition"] if data["partition"] < self.config["partitions"] else 0
        for dedup_id, told in zip(data["dedup_ids"], given["partitions"], strict=True):
            claimed, pushed = self._claims.get(dedup_id), self._dedup.get(dedup_id)
            home = chosen
            if self._is_fresh(claimed, now) and not (claimed.lapsed and told != claimed.value):
                home = claimed.value
            elif self._is_fresh(pushed, now) and not pushed.lapsed:
                home = self.partition
            elif (claimed and told == claimed.value) or (pushed and told == self.partition):
                home = told  # it need not be forgotten at once
            # Every claim is renewed, as the push that follows it may be the first one that is stored.
            if self.config["dedup_window_seconds"]:
                self._claims[dedup_id] = Remembered(home, now)
            homes.append(home)
        return {"success": True, "partitions": homes}

    def _Pop(self, data: Answer, now: float, given: Answer) -> Answer:
        if self.config["paused"]:
            return self._popped([]) | {"paused": True}
        return self._popped(self._take(data, now))

    def _PopWithAck(self, data: Answer, now: float, given: Answer) -> Answer:
        if self.config["paused"]:
            return self._popped([]) | {"paused": True}
        items = self._take(data, now)
        if not items:
            return self._popped([])
        ttl = min(max(data.get("ttl_seconds", 30), 1), LONGEST_LOCK)
        lock = Lock(given["lock_id"], items, now + ttl)
        self.locks.append(lock)
        return self._popped(items) | {"locked": True, "lock_id": lock.id, "lock_expires_at": lock.expires_at}

    def _Acknowledge(self, data: Answer, now: float, given: Answer) -> Answer:
        lock = self._lock(data)
        self.locks.remove(lock)
        self.counters["acknowledged"] += len(lock.items)
        return {"success": True, "items_acknowledged": len(lock.items)}

    def _Complete(self, data: Answer, now: float, given: Answer) -> Answer:
        completed, ignored, not_leased = 0, 0, []
        free = {item.id for item in (*self._not_locked(), *self.not_due)}
        for item_id in data["ids"]:
            lock = next((lock for lock in self.locks if item_id in {item.id for item in lock.items}), None)
            if lock is not None:
                completed += 1
                lock.items = [item for item in lock.items if item.id != item_id]
                if not lock.items:
                    self.locks.remove(lock)
            elif item_id in free:
                not_leased.append(item_id)
            else:
                ignored += 1
        self.counters["acknowledged"] += completed
        counts = {"completed": completed, "ignored": ignored}
        if not_leased:
            return {"success": False, "error_code": "NOT_LEASED", "not_leased": not_leased} | counts
        return {"success": True} | counts

    def _Abandon(self, data: Answer, now: float, given: Answer) -> Answer:
        return self._abandon(self._lock(data), data, now)

    def _Requeue(self, data: Answer, now: float, given: Answer) -> Answer:
        return self._abandon(self._lock_named(data["lock_id_prefix"]), data, now)

    def _abandon(self, lock: Lock, data: Answer, now: float) -> Answer:
        items = self._release(lock, data.get("ids"))
        self.counters["abandoned"] += len(items)
        before = self.counters["dead_lettered"]
        counted = not data.get("uncounted", False)
        error, delay = data.get("error"), data.get("delay_seconds")
        failed = delay is None and error is not None and counted
        self._give_back(items, now, error, delay or 0, counted=counted, failed_at=now if failed else None)
        dead = self.counters["dead_lettered"] - before
        return {"success": True, "items_acknowledged": len(items)} | ({"dead_lettered": dead} if dead else {})

    def _ExtendLock(self, data: Answer, now: float, given: Answer) -> Answer:
        return self._extend(self._lock(data), data, now)

    def _ExtendByPrefix(self, data: Answer, now: float, given: Answer) -> Answer:
        return self._extend(self._lock_named(data["lock_id_prefix"]), data, now)

    def _extend(self, lock: Lock, data: Answer, now: float) -> Answer:
        lock.expires_at = min(lock.expires_at + data.get("additional_ttl_seconds", 30), now + LONGEST_LOCK)
        return {"success": True, "lock_expires_at": lock.expires_at}

    def _DeadLetter(self, data: Answer, now: float, given: Answer) -> Answer:
        lock = self._lock(data)
        if self.dead_letter_queue is None:
            raise Refused("INVALID_REQUEST")
        items = self._release(lock, data.get("ids"))
        self._send_to_dead_letters(items, data.get("reason") or "rejected", now)
        return {"success": True, "items_acknowledged": len(items)}

    def _Peek(self, data: Answer, now: float, given: Answer) -> Answer:
        fresh = [item for item in self.waiting if not item.expired(now)]
        return self._popped(fresh[: data.get("count", 1)])

    def _InFlight(self, data: Answer, now: float, given: Answer) -> Answer:
        shown, room = [], MOST_AT_ONCE
        for lock in sorted(self.locks, key=lambda lock: (lock.expires_at, lock.items[0])):
            items, room = lock.items[:room], max(0, room - len(lock.items))
            shown.append(self._popped(items) | _shown(lock))
        return {"locks": shown}

    def _Stats(self, data: Answer, now: float, given: Answer) -> Answer:
        priorities = sorted({item.priority for item in self.waiting})
        firsts = [next(item for item in self.waiting if item.priority == priority) for priority in priorities]
        oldest = min((item.due or item.enqueued_at for item in firsts), default=None)
        return {
            "queue": self.name,
            "partition": self.partition,
            "count": len(self.waiting) + self.delayed,
            "priorities": {
                str(priority): sum(item.priority == priority for item in self.waiting) for priority in priorities
            },
            "locked": self.locked,
            "delayed": self.delayed,
            "load": self.load,
            "oldest_age_seconds": None if oldest is None else max(0.0, now - oldest),
            "locks": [_shown(lock) for lock in self.locks],
            "counters": dict(self.counters),
            "config": dict(self.config),
            "dead_letter_queue": self.dead_letter_queue,
        }

    def _Purge(self, data: Answer, now: float, given: Answer) -> Answer:
        purged = len(self.waiting) + self.delayed
        for items in (self.waiting, self.not_due, self.postponed):
            items.clear()  # type: ignore[attr-defined]
        self.counters["purged"] += purged
        return {"success": True, "purged": purged}

    def _Revoke(self, data: Answer, now: float, given: Answer) -> Answer:
        if any(item.id == data["id"] for lock in self.locks for item in lock.items):
            raise Refused("CONFLICT")
        found = [item for item in (*self._not_locked(), *self.not_due) if item.id == data["id"]]
        if not found:
            raise Refused("NOT_FOUND")
        self._remove(found)
        self.counters["revoked"] += 1
        return {"success": True, "purged": 1}

    # Dead letters

    def _DeadLetters(self, data: Answer, now: float, given: Answer) -> Answer:
        """The first ones; how many is for the queue to choose as long as it says that there are more."""
        letters = self._letters(data)
        if "next_cursor" in given:
            letters = letters[: len(given["dead_letters"])]
        answer: Answer = {"dead_letters": [self.letter(item) for item in letters]}
        return answer | ({"next_cursor": given["next_cursor"]} if "next_cursor" in given else {})

    def _Redrive(self, data: Answer, now: float, given: Answer) -> Answer:
        letters, answer = self._selected(data, given, "redriven")
        self._send_back(letters)
        return answer

    def _DeleteDeadLetters(self, data: Answer, now: float, given: Answer) -> Answer:
        letters, answer = self._selected(data, given, "deleted")
        self._remove(letters)
        self.counters["purged"] += len(letters)
        return answer

    def _selected(self, data: Answer, given: Answer, done: str) -> tuple[list[Item], Answer]:
        letters = self._letters(data)
        most = min(MOST_AT_ONCE, data.get("max", MOST_AT_ONCE))
        if "ids" in data:
            wanted = list(dict.fromkeys(data["ids"]))
            letters = sorted((item for item in letters if item.id in wanted), key=lambda item: wanted.index(item.id))
            answer: Answer = {"success": True, done: min(most, len(letters)), "more": len(letters) > most}
        else:
            # How many it looks at is for the queue to choose.
            count = given[done] if given["more"] else len(letters)
            answer = {"success": True, done: min(most, count), "more": given["more"]}
            answer |= {"cursor": given["cursor"]} if given["more"] else {}
        return letters[: answer[done]], answer

    def letter(self, item: Item) -> Answer:
        assert item.origin is not None
        return {"id": item.id, "item": item.payload} | origin_shown(item.origin)

    def _letters(self, data: Answer) -> list[Item]:
        return [item for item in self.waiting if item.origin is not None and _is_wanted(item.origin, data)]

    def _send_back(self, letters: list[Item]) -> None:
        self._remove(letters)
        self.counters["redriven"] += len(letters)
        sent = [Sent(item, _home(item), None) for item in letters]
        # One message for each of the queues, in the order in which they come up.
        targets = list(dict.fromkeys(entry.target for entry in sent))
        self.outbox += sorted(sent, key=lambda entry: targets.index(entry.target))

    # The configuration

    def _GetConfig(self, data: Answer, now: float, given: Answer) -> Answer:
        return dict(self.config)

    def _SetConfig(self, data: Answer, now: float, given: Answer) -> Answer:
        changes = {key: value for key, value in data.items() if key != "elsewhere"}
        capacity = changes.get("capacity")
        if (
            self.partition
            or changes.get("dead_letter_queue") == self.name
            or changes.get("partitions", self.config["partitions"]) < self.config["partitions"]
            or (capacity not in (None, self.config["capacity"]) and capacity < self.load + data.get("elsewhere", 0))
        ):
            raise Refused("INVALID_REQUEST")
        grown = range(1, changes.get("partitions", 1))
        if self.config["partitions"] == 1 and not set(self.pending_partitions).isdisjoint(grown):
            raise Refused("CONFLICT")
        self.config |= changes
        self.deleted = False
        self.changed()
        return dict(self.config)

    def _PendingConfig(self, data: Answer, now: float, given: Answer) -> Answer:
        told = data.get("told")
        if told is not None and told["version"] == self.config_version:
            self.pending_partitions = [
                partition for partition in self.pending_partitions if partition != told["partition"]
            ]
        changed = {key: value for key, value in self.config.items() if value != DEFAULTS[key]}
        return {
            "success": True,
            "config": changed,
            "version": self.config_version,
            "generation": self.generation,
            "partitions": list(self.pending_partitions),
        }

    def _Configure(self, data: Answer, now: float, given: Answer) -> Answer:
        erased = 0
        if data["version"] > self.config_version:
            self.config = DEFAULTS | data["config"]
            self.config_version = data["version"]
            self.closed = False
            if data["generation"] > self.generation:
                self.generation = data["generation"]
                erased = self.erase()
        return {"success": True, "purged": erased}

    # Its deletion

    def _BeginDeletion(self, data: Answer, now: float, given: Answer) -> Answer:
        if self.partition:
            raise Refused("INVALID_REQUEST")
        self._refuse_to_lose_items()
        if self.config["partitions"] > 1:
            self.config_version += 1
            self.deletion = self.config_version, now + DELETION_SECONDS
        return {
            "success": True,
            "version": self.config_version,
            "partitions": list(range(1, self.config["partitions"])),
        }

    def _Close(self, data: Answer, now: float, given: Answer) -> Answer:
        self._refuse_to_lose_items()
        if data["version"] < self.config_version:
            raise Refused("CONFLICT")
        self.config_version, self.closed = data["version"], True
        return {"success": True}

    def _AbortDeletion(self, data: Answer, now: float, given: Answer) -> Answer:
        if self.deletion is not None:
            self.changed()
        return {"success": True}

    def _FinishDeletion(self, data: Answer, now: float, given: Answer) -> Answer:
        version = data.get("version")
        if self.partition:
            raise Refused("INVALID_REQUEST")
        used = self.config_version or self.load or any(self.counters.values())
        if not used and not self.generation:
            return {"success": True, "purged": 0}
        if not data["force"]:
            self._refuse_to_lose_items()
        if self.deleted and not self.counters["pushed"]:
            return {"success": True, "purged": 0}
        if version is not None and (self.deletion is None or self.deletion[0] != version):
            raise Refused("CONFLICT")
        self.generation += 1
        self.deleted = True
        self.pending_partitions = list(range(1, self.config["partitions"]))
        self.config = dict(DEFAULTS)
        self.changed()
        return {"success": True, "purged": self.erase()}

    def _refuse_to_lose_items(self) -> None:
        if self.load:
            raise Refused("CONFLICT")

    # Between queues

    def _Receive(self, data: Answer, now: float, given: Answer) -> Answer:
        if data["number"] <= self._received.get(data["source"], -1):
            return {"success": True, "accepted": False}
        self._received[data["source"]] = data["number"]
        return {"success": True, "accepted": True}

    # Inside

    def _is_fresh(self, known: Remembered | None, now: float) -> TypeGuard[Remembered]:
        window = self.config["dedup_window_seconds"]
        # Without a window nothing counts, not even what a clock that was set back has yet to come to.
        return known is not None and window > 0 and known.at + window > now

    def _is_duplicate(self, dedup_id: str, now: float, given: str | None) -> bool:
        """``given`` is the id that was answered, where the queue may have forgotten it or not."""
        known = self._dedup.get(dedup_id)
        return self._is_fresh(known, now) and not (known.lapsed and given != known.value)

    def _is_elsewhere(self, dedup_id: str, now: float, given: Answer) -> bool:
        """Returns whether another partition claimed the dedup id. A claim may outlast its window.

        Nor need the id itself: it may have been a duplicate, in a push that was refused for something else.
        """
        claimed = self._claims.get(dedup_id)
        if claimed is None or claimed.value == self.partition:
            return False
        duplicate = "ids" not in given and self._is_fresh(self._dedup.get(dedup_id), now)
        sure = self._is_fresh(claimed, now) and not claimed.lapsed and not duplicate
        return sure or given.get("error_code") == "CONFLICT"

    def _refuse_too_many(self, new: int, elsewhere: int, now: float) -> None:
        capacity, rate = self.config["capacity"], self.config["rate_per_second"]
        if new and capacity is not None and self.load + elsewhere + new > capacity:
            raise Refused("CAPACITY", retry_after=1)
        if new and rate is not None:
            share = rate / self.config["partitions"]
            earned = max(0.0, now - self._free_at) * share
            self._free, self._free_at = min(max(1.0, share), self._free + earned), now
            if self._free < 1:
                raise Refused("RATE_LIMITED", retry_after=max(1, ceil((1 - self._free) / share)))
            self._free -= new

    def _take(self, data: Answer, now: float) -> list[Item]:
        if len(self.locks) >= self.config["max_locks"]:
            first = min(lock.expires_at for lock in self.locks)
            raise Refused("QUEUE_LOCKED", lock_expires_at=first, items=[], count=0, locked=True)
        taken: list[Item] = []
        spoiled: list[Item] = []
        for item in self.waiting:
            if len(taken) == data.get("count", 1) or (item.expired(now) and len(spoiled) == self._passed):
                break
            (spoiled if item.expired(now) else taken).append(item)
        self._expire(spoiled, now)
        self._remove(taken)
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

    def _lock_named(self, prefix: str) -> Lock:
        found = [lock for lock in self.locks if lock.id.startswith(prefix)]
        if len(found) != 1:
            raise Refused("CONFLICT" if found else "LOCK_NOT_FOUND")
        return found[0]

    def _popped(self, items: list[Item]) -> Answer:
        return {
            "items": [item.payload for item in items],
            "count": len(items),
            "messages": [item.message(self.partition) for item in items],
        }


def _is_wanted(origin: Answer, data: Answer) -> bool:
    wanted = data.get("filter", {})
    return (
        data.get("original_queue") in (None, origin["original_queue"])
        and wanted.get("reason") in (None, origin["reason"])
        and wanted.get("error_contains", "") in (origin["last_error"] or "")
        and not ("before" in wanted and iso(origin["dead_lettered_at"]) >= wanted["before"])
    )


def _home(letter: Item) -> str:
    assert letter.origin is not None
    queue, partition = letter.origin["original_queue"], letter.origin["original_partition"]
    return f"{queue}@{partition}" if partition else queue


def _shown(lock: Lock) -> Answer:
    prefix, mark, rest = lock.id.rpartition(".")
    return {
        "lock_id_prefix": prefix + mark + rest[:6],
        "count": len(lock.items),
        "expires_at": iso(lock.expires_at),
    }
