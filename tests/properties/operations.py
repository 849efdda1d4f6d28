"""Random operations, from a seeded generator: what callers ask of a queue, sensible and otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

WEIGHTS = {
    "Push": 34,
    "Pop": 7,
    "PopWithAck": 24,
    "Acknowledge": 10,
    "Complete": 6,
    "Abandon": 7,
    "Requeue": 2,
    "ExtendLock": 3,
    "ExtendByPrefix": 1,
    "DeadLetter": 4,
    "Revoke": 4,
    "Redrive": 2,
    "DeleteDeadLetters": 0.7,
    "Peek": 2,
    "InFlight": 1,
    "DeadLetters": 1,
    "Stats": 2,
    "Purge": 0.3,
    "Claim": 1,
    "GetConfig": 0.5,
    "SetConfig": 2,
    "Delete": 0.3,
    "nonsense": 3,
}

ENDS_A_LOCK = ("Acknowledge", "Abandon", "DeadLetter")
NEEDS_A_LOCK = (*ENDS_A_LOCK, "ExtendLock", "Requeue", "ExtendByPrefix")
NEEDS_ITEMS = ("Complete", "Revoke")

# Which queue's dead letters are wanted.
ORIGINS = ("orders", "elsewhere", "orders", None)

# Which dead letters are wanted besides.
LETTERS: Sequence[dict[str, Any]] = (
    *({"reason": reason} for reason in ("unwanted", "rejected", "max_deliveries", "expired", "no such reason")),
    *({"error_contains": part} for part in ("broke", "it broke", "BROKE")),
    *({"before": time} for time in ("2001-01-01T00:00:00Z", "2100-01-01T00:00:00Z")),
    {"reason": "max_deliveries", "error_contains": "it"},
)

# Sizes, characters and numbers that have been trouble somewhere.
LOADS: Sequence[Any] = ("x" * 300, "ä" * 40, "\"\\\u2028\0'", "2024-01-01", 2**70, 0.1, None, [[]], {})

# Each is refused, whatever the state of the queue.
NONSENSE: Sequence[tuple[str, Any]] = (
    ("Push", {}),
    ("Push", {"items": []}),
    ("Push", {"item": 1, "priority": -1}),
    ("Push", {"items": [{"item": 1}, {"item": 2, "priority": "high"}]}),
    ("Push", {"items": [{"item": 1}, {"items": 2}]}),
    ("Push", {"item": 1, "delay_seconds": -1}),
    ("Push", {"item": 1, "delay_seconds": "5"}),
    ("Push", {"item": 1, "delay_seconds": 1e9}),
    ("Push", {"item": 1, "ttl_seconds": 0}),
    ("Push", {"item": 1, "ttl_seconds": 1.5}),
    ("Push", {"items": [{"item": 1}, {"item": 2, "dedup_id": ""}]}),
    ("Push", {"item": 1, "dedup_id": 7}),
    ("Push", {"item": 1, "elsewhere": -1}),
    ("Pop", {"count": 0}),
    ("Pop", {"count": 101}),
    ("PopWithAck", {"ttl_seconds": "30"}),
    ("PopWithAck", {"ttl_seconds": 1.5}),
    ("PopWithAck", {"count": True}),
    ("Acknowledge", {}),
    ("Acknowledge", {"lock_id": ""}),
    ("Acknowledge", {"lock_id": 7}),
    ("Abandon", {"lock_id": None}),
    ("Abandon", {"lock_id": "x", "delay_seconds": True}),
    ("Abandon", {"lock_id": "x", "uncounted": "yes"}),
    ("Requeue", {"lock_id_prefix": ""}),
    ("Requeue", {"lock_id_prefix": "x", "delay_seconds": -0.1}),
    ("ExtendByPrefix", {"lock_id": "x"}),
    ("ExtendLock", {"lock_id": "x", "additional_ttl_seconds": 0}),
    ("Complete", {}),
    ("Complete", {"ids": []}),
    ("Complete", {"ids": "0-0-0-0"}),
    ("Complete", {"ids": [1]}),
    ("Revoke", {}),
    ("DeadLetters", {"limit": 0}),
    ("DeadLetters", {"cursor": "1-2"}),
    ("Redrive", {"max": 0}),
    ("Redrive", {"ids": []}),
    ("Redrive", {"cursor": "a-b-c"}),
    ("Redrive", {"filter": {"before": "yesterday"}}),
    ("DeleteDeadLetters", {"filter": {"reason": 7}}),
    ("DeleteDeadLetters", {"filter": {"error_contains": ""}}),
    ("DeleteDeadLetters", {"filter": {"text": "x"}}),
    ("Claim", {"dedup_ids": [], "partition": 0}),
    ("Claim", {"dedup_ids": ["a"]}),
    ("DeadLetter", {"reason": "no lock"}),
    ("Peek", {"count": -1}),
    ("SetConfig", {"max_locks": 0}),
    ("SetConfig", {"max_deliveries": "many"}),
    ("SetConfig", {"dead_letter_queue": "not/an/id"}),
    ("SetConfig", {"unheard_of": 1}),
    ("SetConfig", {"partitions": 0}),
    ("SetConfig", {"partitions": 257}),
    ("SetConfig", {"capacity": 0}),
    ("SetConfig", {"rate_per_second": 0}),
    ("SetConfig", {"dedup_window_seconds": -1}),
    ("SetConfig", {"default_ttl_seconds": 0}),
    ("SetConfig", {"expired_to_dead_letters": 1}),
    ("SetConfig", {"retry_delay_seconds": -1}),
    ("SetConfig", {"retry_delay_factor": 0.5}),
    ("SetConfig", {"retry_delay_max_seconds": "300"}),
    ("SetConfig", {"paused": 1}),
    ("Close", {"version": 0}),
    ("Configure", {"config": {}, "version": 1, "generation": -1}),
)


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    data: Any = None
    #: Whether it is to be refused as INVALID_REQUEST.
    nonsense: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A caller's knowledge of a queue."""

    locks: Sequence[str] = ()
    #: Items, and dead letters, that are there or were.
    ids: Sequence[str] = ()
    #: Of some locks, what they hold.
    held: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Whether the queue is paused.
    paused: bool = False


class Operations:
    """Makes operations. Every item that is pushed is one of a kind."""

    def __init__(self, random: random.Random, name: str = "", *, driven: bool = False) -> None:
        self._random = random
        self._name = name
        #: Whether it is for a queue that is driven by hand: such a one has all the time in the world, and is also told
        #: what only the gateway says.
        self._driven = driven
        self._made = 0
        # A deletion takes several turns: the comparison takes them one by one.
        weights = {method: weight for method, weight in WEIGHTS.items() if method != "Delete" or not driven}
        self._methods = list(weights)
        self._weights = list(weights.values())
        self._make: dict[str, Callable[[Known], Any]] = {
            "Push": self._push,
            "Pop": self._pop,
            "PopWithAck": self._pop_with_ack,
            "Acknowledge": self._of_lock,
            "Complete": lambda known: {"ids": self._ids(known)},
            "Abandon": lambda known: self._some_of_lock(known) | self._return() | self._count(),
            "Requeue": lambda known: self._of_another(known) | self._return(),
            "ExtendLock": lambda known: self._of_lock(known) | self._extension(),
            "ExtendByPrefix": lambda known: self._of_another(known) | self._extension(),
            "DeadLetter": lambda known: self._some_of_lock(known) | self._maybe(reason="unwanted"),
            "Revoke": lambda known: {"id": self._ids(known)[0]},
            "Peek": lambda known: {"count": self._random.randint(1, 5)},
            "DeadLetters": lambda known: self._maybe(limit=self._random.randint(1, 5)) | self._origin(),
            "Redrive": self._select_letters,
            "DeleteDeadLetters": self._select_letters,
            "Claim": self._claim,
            "SetConfig": self._configure,
            "Delete": lambda known: {"force": self._random.random() < 0.5},
        }

    def next(self, known: Known | None = None) -> Operation:
        """Returns a random operation, which may use ids and locks from ``known``."""
        known = known or Known()
        if known.paused and self._random.random() < 0.1:
            return Operation("SetConfig", {"paused": False})
        [method] = self._random.choices(self._methods, self._weights)
        if method == "nonsense":
            return Operation(*self._random.choice(NONSENSE), nonsense=True)
        useless = (method in NEEDS_A_LOCK and not known.locks) or (method in NEEDS_ITEMS and not known.ids)
        if useless and self._random.random() < 0.9:
            method = self._random.choice(("Push", "Pop", "PopWithAck"))
        make = self._make.get(method)
        return Operation(method, make(known) if make else None)

    def _push(self, known: Known) -> Any:
        elsewhere = {}
        if self._driven and self._random.random() < 0.2:
            elsewhere = {"elsewhere": self._random.randint(0, 10)}
        if self._random.random() < 0.7:
            return self._item() | elsewhere
        return {"items": [self._item() for _ in range(self._random.choice((1, 2, 3, 5, 8)))]} | elsewhere

    def _item(self) -> dict[str, Any]:
        self._made += 1
        payload: Any = {"tag": f"{self._name}{self._made}"}
        if self._random.random() < 0.3:
            payload["load"] = self._random.choice(LOADS)
        item = {"item": payload} | self._maybe(priority=self._random.randint(0, 2))
        if self._random.random() < 0.25:
            item["delay_seconds"] = self._random.choice((0, 0.05, 0.3, 1, 4.95, 60, 400, 1e6 if self._driven else 2))
        if self._random.random() < 0.15:
            item["ttl_seconds"] = self._random.choice((1, 5, 60))
        if self._random.random() < 0.25:
            item["dedup_id"] = self._dedup_id()
        if self._random.random() < 0.05:
            item["idempotency_key"] = f"key of {payload['tag']}"
        if self._random.random() < 0.05:
            item["tenant_id"] = f"tenant-of-{payload['tag']}"
        return item

    def _dedup_id(self) -> str:
        return self._random.choice("abcdefghij")

    def _claim(self, known: Known) -> Any:
        ids = list(dict.fromkeys(self._dedup_id() for _ in range(self._random.randint(1, 3))))
        return {"dedup_ids": ids, "partition": self._random.randint(0, 2)}

    def _pop(self, known: Known) -> Any:
        return self._maybe(count=self._random.choice((1, 1, 2, 3, 10, 100)))

    def _pop_with_ack(self, known: Known) -> Any:
        ttl = self._random.choice((-5, 0, 1, 2, 5, 10, 30, 60, 300, 1000))
        return self._pop(known) | self._maybe(ttl_seconds=ttl)

    def _of_lock(self, known: Known) -> dict[str, Any]:
        return {"lock_id": self._lock_id(known)}

    def _some_of_lock(self, known: Known) -> dict[str, Any]:
        """Now and then only some of what it holds; or of what it does not hold."""
        lock = self._of_lock(known)
        if self._random.random() < 0.7:
            return lock
        held = known.held.get(lock["lock_id"], ())
        if held and self._random.random() < 0.9:
            return lock | {"ids": self._random.choices(held, k=self._random.randint(1, len(held)))}
        return lock | {"ids": self._ids(known)}

    def _of_another(self, known: Known) -> dict[str, Any]:
        # As much as is shown of it; or less, which may be the beginning of several.
        length = self._random.choice((1, 3, 8)) if self._driven else 8
        return {"lock_id_prefix": self._lock_id(known)[:length]}

    def _return(self) -> dict[str, Any]:
        delay = self._maybe(delay_seconds=self._random.choice((0, 0.01, 2, 30))) if self._random.random() < 0.4 else {}
        return self._maybe(error="it broke") | delay

    def _count(self) -> dict[str, Any]:
        return {"uncounted": self._random.random() < 0.8} if self._random.random() < 0.4 else {}

    def _extension(self) -> dict[str, Any]:
        return self._maybe(additional_ttl_seconds=self._random.choice((1, 30, 300)))

    def _origin(self) -> dict[str, Any]:
        origin = self._random.choice(ORIGINS)
        return {} if origin is None else {"original_queue": origin}

    def _select_letters(self, known: Known) -> Any:
        limit = {"max": self._random.randint(1, 5)} if self._random.random() < 0.5 else {}
        ids = {"ids": self._ids(known)} if self._random.random() < 0.5 else {}
        wanted = {"filter": self._random.choice(LETTERS)} if self._random.random() < 0.4 else {}
        return self._origin() | limit | ids | wanted

    def _configure(self, known: Known) -> Any:
        choose = self._random.choice
        changes: dict[str, Any] = choose(
            (
                {"max_locks": self._random.randint(1, 5)},
                {"max_deliveries": self._random.randint(1, 4)},
                {"dead_letter_queue": choose((None, "elsewhere"))},
                {"dedup_window_seconds": choose((0, 5, 60, 300))},
                {"capacity": choose((None, None, 5, 20, 1000))},
                {"default_ttl_seconds": choose((None, None, 2, 30))},
                {"expired_to_dead_letters": choose((True, False))},
                {"rate_per_second": choose((None, None, None, 0.5, 2, 50))},
                {"partitions": choose((1, 1, 2, 3))},
                {"retry_delay_seconds": choose((0, 0, 0.3, 5)), "retry_delay_factor": choose((1, 2, 10))},
                {"retry_delay_max_seconds": choose((0, 1, 300))},
                {"paused": True},
            )
        )
        if self._driven and self._random.random() < 0.2:
            changes["elsewhere"] = self._random.randint(0, 10)
        return changes

    def _lock_id(self, known: Known) -> str:
        if not known.locks or self._random.random() < 0.03:
            return "nobody-has-this"
        return self._random.choice(known.locks)

    def _ids(self, known: Known) -> list[str]:
        ids = [self._random.choice(known.ids) for _ in range(self._random.choice((1, 1, 2, 4)))] if known.ids else []
        if not ids or self._random.random() < 0.1:
            ids.insert(0, self._random.choice(("0-0-0-0", "0-0-d0-0", "7-0-0-0", "0-0-999-0", "no id at all", "")))
        return ids

    def _maybe(self, **fields: Any) -> dict[str, Any]:
        return fields if self._random.random() < 0.7 else {}
