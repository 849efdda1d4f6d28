"""Random programs over asyncio and what orchestrations await, with the world around them: what is raised, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

MAX_NODES = 30
EVENTS = ("red", "green")
MAILBOX = "mail"
REQUEST = "ask"
TAGS = ("stage", "customer", "region")


@dataclass(frozen=True)
class Call:
    """An activity, or a sub-orchestration, that takes so many seconds, and fails so often before it succeeds."""

    label: str
    seconds: float
    failures: int = 0
    attempts: int = 1
    sub: bool = False
    #: The priority of an activity; None for that of the instance.
    priority: int | None = None
    #: Whether a sub-orchestration goes on when it is no longer awaited.
    abandoned: bool = False


@dataclass(frozen=True)
class Sleep:
    label: str
    seconds: float


@dataclass(frozen=True)
class Event:
    label: str
    name: str


@dataclass(frozen=True)
class Receive:
    label: str


@dataclass(frozen=True)
class Answer:
    """Takes a request and replies with its data."""

    label: str


@dataclass(frozen=True)
class Fail:
    label: str


@dataclass(frozen=True)
class SetTags:
    """Sets a tag, or removes it with None."""

    label: str
    key: str
    value: str | None


@dataclass(frozen=True)
class Patched:
    """Code that was changed: other code deployed before runs ``old``."""

    label: str
    new: Node
    old: Node


@dataclass(frozen=True)
class Several:
    """How its parts run is its kind: one of :data:`SEVERAL`."""

    label: str
    kind: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Wrapped:
    """A node around another one, its part. ``kind`` is one of :data:`WRAPPED`."""

    label: str
    kind: str
    part: Node
    seconds: float
    other: Node | None = None


Node: TypeAlias = Call | Sleep | Event | Receive | Answer | Fail | SetTags | Patched | Several | Wrapped


@dataclass(frozen=True)
class Program:
    seed: int
    body: Node
    #: When something is raised, and under which name.
    raised: tuple[tuple[float, str], ...]
    cancelled_at: float | None
    suspended: tuple[float, float] | None = field(default=None)
    #: When the code begins, and the event that comes with the start.
    start_at: float | None = None
    event: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    priority: int | None = None
    #: How many patches it has.
    patches: int = 0


SEVERAL = ("sequence", "sequence", "gather", "settle", "group", "race", "completed", "limited", "queue")
WRAPPED = ("timeout", "timeout", "wait_for", "caught", "finally", "shield", "background", "cancelled", "refusing")


class Author:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._left = self._random.randint(3, MAX_NODES)
        self._labels = 0
        self._patches = 0

    def write(self) -> Program:
        body = self._node(0)
        raised = sorted(
            (self._seconds(30), self._random.choice((*EVENTS, MAILBOX, REQUEST)))
            for _ in range(self._random.randint(0, 12))
        )
        cancelled_at = self._seconds(30) if self._random.random() < 0.25 else None
        suspended = None
        if self._random.random() < 0.2:
            begin = self._seconds(20)
            suspended = (begin, begin + self._seconds(20))
        start_at = self._seconds(10) if self._random.random() < 0.2 else None
        event = self._random.choice((*EVENTS, MAILBOX)) if self._random.random() < 0.2 else None
        tags = tuple((key, "given") for key in TAGS if self._random.random() < 0.2)
        priority = self._random.choice((None, 0, 3))
        return Program(
            *(self._seed, body, tuple(raised), cancelled_at, suspended),
            start_at=start_at,
            event=event,
            tags=tags,
            priority=priority,
            patches=self._patches,
        )

    def _node(self, depth: int) -> Node:
        self._left -= 1
        label = self._label()
        chance = self._random.random()
        if depth >= 5 or self._left <= 0 or chance < 0.25:
            return self._leaf(label)
        if chance < 0.37:
            self._patches += 1
            return Patched(label, self._node(depth + 1), self._node(depth + 1))
        if chance < 0.7:
            kind = self._random.choice(SEVERAL)
            return Several(label, kind, tuple(self._node(depth + 1) for _ in range(self._random.randint(1, 4))))
        kind = self._random.choice(WRAPPED)
        other = self._node(depth + 1) if kind in ("caught", "finally") else None
        return Wrapped(label, kind, self._node(depth + 1), self._seconds(6), other)

    def _leaf(self, label: str) -> Node:
        kind = self._random.choice(
            ("call", "call", "call", "sleep", "event", "receive", "answer", "fail", "sub", "tags")
        )
        if kind == "sleep":
            return Sleep(label, self._random.choice((0.0, self._seconds(5), self._seconds(5))))
        if kind == "event":
            return Event(label, self._random.choice(EVENTS))
        if kind == "receive":
            return Receive(label)
        if kind == "answer":
            return Answer(label)
        if kind == "fail":
            return Fail(label)
        if kind == "tags":
            return SetTags(label, self._random.choice(TAGS), self._random.choice((label, None)))
        failures = self._random.choice((0, 0, 0, 1, 2))
        attempts = self._random.choice((1, 2, 3)) if kind == "call" else 1
        priority = self._random.choice((None, None, 0, 7))
        abandoned = kind == "sub" and self._random.random() < 0.5
        return Call(label, self._seconds(4), failures, attempts, kind == "sub", priority, abandoned)

    def _label(self) -> str:
        self._labels += 1
        return f"n{self._labels}"

    def _seconds(self, most: float) -> float:
        # No two moments are the same: asyncio promises no order for those.
        return self._random.uniform(0.001, most)
