"""The stored outbox of an instance: effects that are saved and have not arrived yet. No I/O.

Each delivery of messages adds one entry. An entry has one part for each target (a queue, or another instance), and
each part is sent, retried and removed by itself: a target that refuses delays no other. Parts for the same target are
sent in the order of their entries, so that a child is not cancelled before it is started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.orchestration.core.effects import StartSubOrchestration, load_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.orchestration.core.effects import Effect
    from holdfast.runtime.reads import Reads

# Entries are stored with the head up to this size in all, and under a key of their own beyond it.
SMALL_BOXES_BYTES = 4 * 1024
# The pause before the first retry; after a crash, the time that the crashed process had to send an entry it saved.
RESEND_SECONDS = 5.0
# Each failure doubles the pause, up to this: a queue may be full for hours. Less than the time after which hosts evict
# an idle actor, which would begin with the shortest pause again.
LONGEST_PAUSE_SECONDS = 40.0


@dataclass(slots=True)
class Part:
    """The effects of one entry that go to one target."""

    effects: list[Effect]
    send_at: float
    #: Whether the effects may have arrived although they are still here: this process or an earlier one sent them.
    again: bool = False
    #: How often sending it failed in this process.
    failures: int = 0
    sending: bool = False

    def fail(self, now: float) -> float:
        """Records a failed attempt. Returns the pause before the next one, in seconds."""
        self.failures += 1
        pause = min(RESEND_SECONDS * 2.0 ** min(self.failures - 1, 10), LONGEST_PAUSE_SECONDS)
        self.send_at = now + pause
        return pause


@dataclass(slots=True)
class Entry:
    """The effects of one delivery."""

    number: int
    saved_at: float
    parts: dict[str, Part]
    #: How many effects the stored form of this entry has, and how many of them have arrived since it was stored.
    stored: int
    arrived: int = 0
    #: Whether it was read from the store.
    restored: bool = False
    #: Whether it starts a child that the instance does not wait for, or that goes on without it.
    starts_for_good: bool = False
    #: The stored form, when that is a part of the head, and its size in bytes.
    small: dict[str, Any] | None = None
    size: int = 0

    @property
    def has_arrived(self) -> bool:
        return not self.parts

    def remove(self, target: str, effects: Sequence[Effect]) -> None:
        """Removes effects that have arrived or are no longer needed."""
        part = self.parts.get(target)
        if part is None:
            return
        before = len(part.effects)
        removed = {id(effect) for effect in effects}
        part.effects = [effect for effect in part.effects if id(effect) not in removed]
        self.arrived += before - len(part.effects)
        if not part.effects:
            del self.parts[target]

    def is_to_be_stored(self) -> bool:
        """Returns whether the arrival of effects must be stored at once, not with the next write of the instance.

        An entry that arrives completely right after it was saved needs no write of its own, unless it starts a child
        that goes on without this instance: sent again after a crash much later, when the child was deleted, it would
        start the child again. An entry that was restored, or that a target refuses, would be sent again as a whole
        after a crash. It is written when none of its parts is being sent, or when half of it has arrived, so at most
        each time it halves.
        """
        if self.arrived and self.starts_for_good and self.has_arrived:
            return True
        if not self.arrived or not (self.restored or any(part.failures for part in self.parts.values())):
            return False
        return 2 * self.arrived >= self.stored or not any(part.sending for part in self.parts.values())

    def dump(self) -> dict[str, Any]:
        effects = [effect for part in self.parts.values() for effect in part.effects]
        return {"saved_at": self.saved_at, "effects": [effect.dump() for effect in effects]}


@dataclass(slots=True)
class Outbox:
    """All entries of one instance, in the order of their numbers."""

    _entries: dict[int, Entry] = field(default_factory=dict)
    _next: int = 0
    #: Entries from this number on are not saved yet, and must not be sent.
    _unsaved_from: int = 0
    _changed: dict[str, Any] = field(default_factory=dict)
    _head_changed: bool = False

    def __bool__(self) -> bool:
        return bool(self._entries)

    def put(self, effects: Iterable[Effect], now: float) -> int:
        """Adds an entry, to be sent as soon as it is saved. Returns its size in bytes."""
        size = 0
        entry = _entry(self._next, effects, now, send_at=now)
        if entry.parts:
            dumped = entry.dump()
            size = len(orjson.dumps(dumped))
            if size + sum(other.size for other in self._entries.values()) <= SMALL_BOXES_BYTES:
                entry.small, entry.size = dumped, size
            else:
                self._changed[_key(entry.number)] = dumped
            self._entries[entry.number] = entry
            self._head_changed = True
            self._next += 1
        return size

    def saved(self) -> None:
        """Notes that all entries are in the store."""
        self._unsaved_from = self._next

    # Sending

    def due_targets(self, now: float) -> list[str]:
        """Returns the targets that have effects to be sent now."""
        due: dict[str, bool] = {}
        for entry in self._entries.values():
            if entry.number >= self._unsaved_from:
                break
            for target, part in entry.parts.items():
                # Only the first part of a target counts: later parts must not overtake it.
                due.setdefault(target, part.send_at <= now and not part.sending)
        return [target for target, is_due in due.items() if is_due]

    def next_part(self, target: str, now: float) -> tuple[Entry, Part] | None:
        """Returns the first part of a target, if it is due."""
        for entry in self._entries.values():
            if entry.number >= self._unsaved_from:
                break
            if part := entry.parts.get(target):
                return (entry, part) if part.send_at <= now and not part.sending else None
        return None

    def next_attempt(self) -> float:
        """Returns when the next part can be sent; 0 when there is something to send or store now."""
        first: dict[str, float] = {}
        for entry in self._entries.values():
            if entry.arrived or entry.has_arrived or entry.number >= self._unsaved_from:
                return 0.0
            for target, part in entry.parts.items():
                first.setdefault(target, part.send_at)
        return min(first.values(), default=0.0)

    @property
    def starts_children(self) -> bool:
        """Whether it starts children whose results the instance waits for."""
        effects = (
            effect for entry in self._entries.values() for part in entry.parts.values() for effect in part.effects
        )
        return any(isinstance(effect, StartSubOrchestration) and not effect.is_for_good for effect in effects)

    def has_unsaved_arrivals(self) -> bool:
        """Returns whether effects have arrived since their entry was stored."""
        return any(entry.arrived or entry.has_arrived for entry in self._entries.values())

    def has(self, entry: Entry) -> bool:
        return self._entries.get(entry.number) is entry

    # Storing the rest

    def store_rest(self, number: int) -> None:
        """Stores an entry without the effects that have arrived."""
        entry = self._entries.get(number)
        if entry is None or not (entry.arrived or entry.has_arrived):
            return
        if entry.has_arrived:
            del self._entries[number]
            if entry.small is None:
                self._changed[_key(number)] = None
        else:
            self._write(entry)
        self._head_changed = True

    def remove_arrived(self) -> None:
        """Removes arrived effects when the head is written anyway.

        Entries under keys of their own are only removed as a whole: a large one would be rewritten in each turn.
        """
        for entry in list(self._entries.values()):
            if entry.has_arrived or (entry.arrived and entry.small is not None):
                self.store_rest(entry.number)

    def keep(self, is_kept: Callable[[Effect], bool]) -> None:
        """Removes all effects for which ``is_kept`` is false, sent or not."""
        for entry in list(self._entries.values()):
            for target, part in list(entry.parts.items()):
                entry.remove(target, [effect for effect in part.effects if not is_kept(effect)])
            self.store_rest(entry.number)

    @property
    def changed(self) -> bool:
        return self._head_changed or bool(self._changed)

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes a value."""
        changed, self._changed, self._head_changed = self._changed, {}, False
        return changed

    def head(self) -> dict[str, Any]:
        """Returns the outbox fields of the instance's head."""
        apart = [entry.number for entry in self._entries.values() if entry.small is None]
        small = {str(entry.number): entry.small for entry in self._entries.values() if entry.small is not None}
        return {"outbox": [apart, self._next], "outbox_entries": small}

    @classmethod
    def restore(cls, head: dict[str, Any]) -> Reads[Outbox]:
        """Restores the saved entries. Each may have been sent already by the process that saved it."""
        entries = cls()
        apart, entries._next = head["outbox"]
        entries.saved()
        small = {int(number): stored for number, stored in head["outbox_entries"].items()}
        found = yield tuple(_key(number) for number in apart)
        for number, stored in sorted((*zip(apart, found, strict=True), *small.items())):
            if stored is not None:
                effects = [load_effect(effect) for effect in stored["effects"]]
                entry = _entry(
                    number, effects, stored["saved_at"], send_at=stored["saved_at"] + RESEND_SECONDS, restored=True
                )
                if number in small:
                    entry.small, entry.size = stored, len(orjson.dumps(stored))
                entries._entries[number] = entry
        return entries

    def _write(self, entry: Entry) -> None:
        dumped = entry.dump()
        entry.stored, entry.arrived = len(dumped["effects"]), 0
        if entry.small is None:
            self._changed[_key(entry.number)] = dumped
        else:
            entry.small, entry.size = dumped, len(orjson.dumps(dumped))


def _entry(number: int, effects: Iterable[Effect], saved_at: float, *, send_at: float, restored: bool = False) -> Entry:
    parts: dict[str, Part] = {}
    count = 0
    starts_for_good = False
    for effect in effects:
        if (target := effect.target) is None:
            continue
        starts_for_good = starts_for_good or (isinstance(effect, StartSubOrchestration) and effect.is_for_good)
        count += 1
        if part := parts.get(target):
            part.effects.append(effect)
        else:
            parts[target] = Part([effect], send_at, again=restored)
    return Entry(number, saved_at, parts, count, restored=restored, starts_for_good=starts_for_good)


def _key(number: int) -> str:
    return f"outbox-{number}"
