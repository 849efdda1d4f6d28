"""Merges the replies of a queue's partitions into the answer for the whole queue."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.core.budgets import MAX_LOCKS_SHOWN, MAX_POP_BYTES
from holdfast.pushpop.core.queue import MAX_POP
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.gateway.queues.partitions import Answer

# Fields of a partition's reply that are for the gateway only.
_INTERNAL = ("partition", "load", "dead_letter_queue")


def stats(answers: Sequence[Answer]) -> Answer:
    """Returns the sums over all partitions, with the configuration of the first, which stores it."""
    first = answers[0]
    merged = {key: value for key, value in first.items() if key not in _INTERNAL}
    if len(answers) == 1:
        return merged
    ages = [answer["oldest_age_seconds"] for answer in answers if answer["oldest_age_seconds"] is not None]
    priorities = _summed(answer["priorities"] for answer in answers)
    return merged | {
        **{key: sum(answer[key] for answer in answers) for key in ("count", "locked", "delayed")},
        "priorities": {priority: priorities[priority] for priority in sorted(priorities, key=int)},
        "oldest_age_seconds": max(ages, default=None),
        **_locks(answers),
        "counters": dict(_summed(answer["counters"] for answer in answers)),
    }


class Peek:
    """The next items of all partitions, as many as a pop would return. A pop may ask partitions in another order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._only: Answer | None = None
        self._shown: list[tuple[Answer, Any, int]] = []
        self._asked = 0

    def add(self, answers: Sequence[Answer]) -> None:
        """Adds the replies of some partitions. Only the items to be shown are kept."""
        self._asked += len(answers)
        self._only = answers[0] if self._asked == 1 else None
        for answer in answers:
            for message, item in zip(answer["messages"], answer["items"], strict=True):
                self._shown.append((message, item, len(dump(item))))
        self._shown.sort(key=lambda shown: (shown[0]["priority"], shown[0]["enqueued_at"]))
        room = MAX_POP_BYTES
        for number, (_, _, size) in enumerate(self._shown):
            room -= size
            if number == self._count or (number and room < 0):
                del self._shown[number:]
                break

    def answer(self) -> Answer:
        if self._only is not None:
            return self._only
        return {
            "items": [item for _, item, _ in self._shown],
            "count": len(self._shown),
            "messages": [message for message, _, _ in self._shown],
        }


class InFlight:
    """The locks of all partitions, with the payloads of as many items as a pop would return."""

    def __init__(self) -> None:
        self._locks: list[Answer] = []
        self._not_shown = 0
        self._count = MAX_POP
        self._room = MAX_POP_BYTES

    def request(self, partitions: int) -> Answer:
        """Returns the request for the next partitions, ``partitions`` of them at once."""
        count = self._count if self._room > 0 else 0
        return {"count": count, "max_bytes": max(0, self._room // partitions)}

    def add(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            self._not_shown += answer.get("locks_not_shown", 0)
            for lock in answer["locks"]:
                if len(self._locks) == MAX_LOCKS_SHOWN:
                    self._not_shown += 1
                    continue
                self._count = max(0, self._count - len(lock["items"]))
                self._room -= len(dump(lock["items"]))
                self._locks.append(lock)

    def answer(self) -> Answer:
        return {"locks": self._locks} | _not_shown(self._not_shown)


def purged(answers: Iterable[Answer]) -> Answer:
    return {"success": True, "purged": sum(answer["purged"] for answer in answers)}


def _locks(answers: Sequence[Answer]) -> Answer:
    locks = [lock for answer in answers for lock in answer["locks"]]
    others = sum(answer.get("locks_not_shown", 0) for answer in answers) + max(0, len(locks) - MAX_LOCKS_SHOWN)
    return {"locks": locks[:MAX_LOCKS_SHOWN]} | _not_shown(others)


def _not_shown(locks: int) -> Answer:
    return {"locks_not_shown": locks} if locks else {}


def _summed(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total
