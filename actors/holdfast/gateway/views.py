"""What the partitions of a queue show, put together as one queue."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.gateway.partitions import Answer

# What a partition says of itself, and for the gateway.
_INTERNAL = ("partition", "load", "dead_letter_queue")


def stats(answers: Sequence[Answer]) -> Answer:
    """Sums; the configuration is the first partition's, which has it from the user."""
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
        "locks": [lock for answer in answers for lock in answer["locks"]],
        "counters": dict(_summed(answer["counters"] for answer in answers)),
    }


def peek(answers: Sequence[Answer], count: int) -> Answer:
    """The next of all partitions. Which of them a pop asks first is not said by that."""
    if len(answers) == 1:
        return answers[0]
    shown = [pair for answer in answers for pair in zip(answer["messages"], answer["items"], strict=True)]
    shown.sort(key=lambda pair: (pair[0]["priority"], pair[0]["enqueued_at"]))
    del shown[count:]
    return {"items": [item for _, item in shown], "count": len(shown), "messages": [message for message, _ in shown]}


def in_flight(answers: Iterable[Answer]) -> Answer:
    return {"locks": [lock for answer in answers for lock in answer["locks"]]}


def purged(answers: Iterable[Answer]) -> Answer:
    return {"success": True, "purged": sum(answer["purged"] for answer in answers)}


def _summed(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total
