"""Random operations, from a seeded generator: what callers ask of a queue, sensible and otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

WEIGHTS = {
    "Push": 30,
    "Pop": 8,
    "PopWithAck": 24,
    "Acknowledge": 14,
    "Abandon": 7,
    "ExtendLock": 4,
    "DeadLetter": 3,
    "Peek": 2,
    "InFlight": 1,
    "Stats": 2,
    "Purge": 0.3,
    "GetConfig": 0.5,
    "SetConfig": 1.2,
    "nonsense": 3,
}

ENDS_A_LOCK = ("Acknowledge", "Abandon", "DeadLetter")

# Sizes, characters and numbers that have been trouble somewhere.
LOADS: Sequence[Any] = ("x" * 300, "ä" * 40, "\"\\\u2028\0'", "2024-01-01", 2**70, 0.1, None, [[]], {})

# Each is refused, whatever the state of the queue.
NONSENSE: Sequence[tuple[str, Any]] = (
    ("Push", {}),
    ("Push", {"items": []}),
    ("Push", {"item": 1, "priority": -1}),
    ("Push", {"items": [{"item": 1}, {"item": 2, "priority": "high"}]}),
    ("Push", {"items": [{"item": 1}, {"items": 2}]}),
    ("Pop", {"count": 0}),
    ("Pop", {"count": 101}),
    ("PopWithAck", {"ttl_seconds": "30"}),
    ("PopWithAck", {"ttl_seconds": 1.5}),
    ("PopWithAck", {"count": True}),
    ("Acknowledge", {}),
    ("Acknowledge", {"lock_id": ""}),
    ("Acknowledge", {"lock_id": 7}),
    ("Abandon", {"lock_id": None}),
    ("ExtendLock", {"lock_id": "x", "additional_ttl_seconds": 0}),
    ("DeadLetter", {"reason": "no lock"}),
    ("Peek", {"count": -1}),
    ("SetConfig", {"max_locks": 0}),
    ("SetConfig", {"max_deliveries": "many"}),
    ("SetConfig", {"dead_letter_queue": "not/an/id"}),
    ("SetConfig", {"unheard_of": 1}),
)


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    data: Any = None
    #: Whether it is to be refused as INVALID_REQUEST.
    nonsense: bool = False


class Operations:
    """Makes operations. Every item that is pushed is one of a kind."""

    def __init__(self, random: random.Random, name: str = "") -> None:
        self._random = random
        self._name = name
        self._made = 0
        self._methods = list(WEIGHTS)
        self._weights = list(WEIGHTS.values())
        self._make: dict[str, Callable[[Sequence[str]], Any]] = {
            "Push": self._push,
            "Pop": self._pop,
            "PopWithAck": self._pop_with_ack,
            "Acknowledge": lambda locks: {"lock_id": self._lock_id(locks)},
            "Abandon": lambda locks: {"lock_id": self._lock_id(locks)} | self._maybe(error="it broke"),
            "ExtendLock": self._extend,
            "DeadLetter": lambda locks: {"lock_id": self._lock_id(locks)} | self._maybe(reason="unwanted"),
            "Peek": lambda locks: {"count": self._random.randint(1, 5)},
            "SetConfig": self._configure,
        }

    def next(self, locks: Sequence[str] = ()) -> Operation:
        """One operation; ``locks`` are ids that may be of use to it."""
        [method] = self._random.choices(self._methods, self._weights)
        if method == "nonsense":
            return Operation(*self._random.choice(NONSENSE), nonsense=True)
        if method in (*ENDS_A_LOCK, "ExtendLock") and not locks and self._random.random() < 0.9:
            method = self._random.choice(("Push", "Pop", "PopWithAck"))
        make = self._make.get(method)
        return Operation(method, make(locks) if make else None)

    def _push(self, locks: Sequence[str]) -> Any:
        if self._random.random() < 0.7:
            return self._item()
        return {"items": [self._item() for _ in range(self._random.choice((1, 2, 3, 5, 8)))]}

    def _item(self) -> dict[str, Any]:
        self._made += 1
        payload: Any = {"tag": f"{self._name}{self._made}"}
        if self._random.random() < 0.3:
            payload["load"] = self._random.choice(LOADS)
        return {"item": payload} | self._maybe(priority=self._random.randint(0, 2))

    def _pop(self, locks: Sequence[str]) -> Any:
        return self._maybe(count=self._random.choice((1, 1, 2, 3, 10, 100)))

    def _pop_with_ack(self, locks: Sequence[str]) -> Any:
        ttl = self._random.choice((-5, 0, 1, 2, 5, 10, 30, 60, 300, 1000))
        return self._pop(locks) | self._maybe(ttl_seconds=ttl)

    def _extend(self, locks: Sequence[str]) -> Any:
        seconds = self._random.choice((1, 30, 300))
        return {"lock_id": self._lock_id(locks)} | self._maybe(additional_ttl_seconds=seconds)

    def _configure(self, locks: Sequence[str]) -> Any:
        return self._random.choice(
            (
                {"max_locks": self._random.randint(1, 5)},
                {"max_deliveries": self._random.randint(1, 4)},
                {"dead_letter_queue": self._random.choice((None, "elsewhere"))},
            )
        )

    def _lock_id(self, locks: Sequence[str]) -> str:
        if not locks or self._random.random() < 0.03:
            return "nobody-has-this"
        return self._random.choice(locks)

    def _maybe(self, **fields: Any) -> dict[str, Any]:
        return fields if self._random.random() < 0.7 else {}
