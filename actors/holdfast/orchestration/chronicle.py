"""What is saved of an instance: what it is, its history in numbered segments, and what is still to be sent.

No I/O: what has to be read is asked for, as in a queue. The latest events lie in the head, which every turn writes, and
go into a segment when there are enough of them; so do short values. A turn writes little beside its new events, then,
and most of them one value, whatever the length of the history; only code that is brought back into memory reads all.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken
from holdfast.orchestration import history as events_of
from holdfast.orchestration.effects import (
    CancelActivity,
    CancelSubOrchestration,
    StartSubOrchestration,
    TellParent,
    load_effect,
)
from holdfast.orchestration.failures import Failure
from holdfast.orchestration.instance import Status
from holdfast.orchestration.records import Parent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.effects import Effect
    from holdfast.orchestration.history import Event
    from holdfast.orchestration.instance import Instance
    from holdfast.pushpop.steps import Steps

HEAD = "instance"
INPUT = "input"
ENDING = "ending"
CUSTOM_STATUS = "custom-status"
FORMAT = 2

# A turn rewrites what is not in a segment yet, so that must stay small.
SEGMENT_EVENTS = 32
SEGMENT_BYTES = 16 * 1024
# What is to be sent is written with the head up to this size in all, and by itself beyond that.
SMALL_BOXES_BYTES = 4 * 1024
# So are input, ending and custom status, each.
SMALL_VALUE_BYTES = 512
# What was to be sent, and may have been lost with the process, is sent again after this.
RESEND_SECONDS = 5.0
# Executions before the present one whose histories are kept.
EARLIER_KEPT = 10
# State values of forgotten executions, or of a deleted instance, that are deleted in one transaction.
SWEEP_AT_ONCE = 200

ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


@dataclass(slots=True)
class Box:
    """What one turn has to tell others."""

    effects: list[Effect]
    #: When it is to be sent, if it was not yet: at once, or when whoever had it in memory must have lost it.
    send_at: float
    #: Whether it comes from the store: it may have been sent by whoever put it there.
    restored: bool = False
    #: As it is written, when it is written with the head, and how many bytes that takes.
    small: dict[str, Any] | None = None
    size: int = 0


class Chronicle:
    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        self.status = Status.PENDING
        self.name = ""
        self.version = ""
        self.execution_id = 0
        self.created_at = 0.0
        self.updated_at = 0.0
        self.ended_at: float | None = None
        self.parent: Parent | None = None
        #: How many events the present execution has.
        self.events = 0
        #: When it wants to go on by itself.
        self.next_moment: float | None = None
        #: What is to be sent to others, by number.
        self.outbox: dict[int, Box] = {}
        #: Those that everybody has, to be crossed off with the next write.
        self.arrived: set[int] = set()
        #: What tells it from another that had its id before.
        self.seed: str | None = None
        #: What the index of instances knows: a status, or nothing. It is saved with what else there is to save: should
        #: that never come, the index is told once more after a crash.
        self.listed: str | None = None
        self._saved_listed: str | None = None
        #: What the index is told: nothing that is not saved.
        self.entry: dict[str, Any] | None = None
        self._next_box = 0
        #: Boxes from here on are not saved yet, and must not be sent.
        self._unsaved_from = 0
        self._segments = 0
        #: The events that are in no segment yet.
        self._tail: list[dict[str, Any]] = []
        self._tail_size = 0
        self.custom_status: str | None = None
        #: What is written with the head of input, ending and custom status, and which of them lie by themselves.
        self._small: dict[str, Any] = {}
        self._apart: set[str] = set()
        #: Which instance of this id it is, as long as something is left of one before it.
        self._life = 0
        #: The executions before the present one: how many segments and how many events each has.
        self._earlier: dict[int, tuple[int, int]] = {}
        #: Histories that nobody wants: life, execution, and how many segments it has left.
        self._garbage: list[tuple[int, int, int]] = []
        self._changed: dict[str, Any] = {}
        self._dirty = False

    @property
    def exists(self) -> bool:
        return self.status is not Status.PENDING

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def to_be_listed(self) -> bool:
        return self.listed != self.listing

    @property
    def settled(self) -> bool:
        """Whether all there is to know is saved, and nothing is under way. What an ended one was listed as does not
        count: whoever comes for it after a crash has the index told once more."""
        return not self.outbox and (self.ended or self.listed == self._saved_listed)

    @property
    def listing(self) -> str | None:
        """What the index is to know."""
        return self.status.value if self.exists else None

    @property
    def has_garbage(self) -> bool:
        return bool(self._garbage)

    # Changes

    def record(self, instance: Instance, events: Sequence[Event], effects: Sequence[Effect], now: float) -> None:
        """What an instance did, and where it stands now."""
        for event in events:
            self._append(event)
        # Whoever runs an activity asks now and then whether anybody waits for it.
        self._put([effect for effect in effects if not isinstance(effect, CancelActivity)], now)
        if instance.custom_status != self.custom_status:
            self.custom_status = instance.custom_status
            self._keep(CUSTOM_STATUS, instance.custom_status)
        if events or effects or self.next_moment != instance.next_moment:
            self._dirty = True
        self.next_moment = instance.next_moment
        self.status = instance.status

    def tell_parent(self, ending: dict[str, Any], now: float) -> None:
        """How it ended, once more."""
        assert self.parent is not None
        error = Failure.load(ending["error"]) if "error" in ending else None
        if error is None and "output" not in ending:
            error = Failure(type="CancelledError", message=ending.get("reason") or "", kind="cancelled")
        self._put([TellParent(parent=self.parent, result=ending.get("output"), error=error)], now)

    def saved(self) -> None:
        """What was changed so far is in the store."""
        self._unsaved_from = self._next_box
        self.entry = self._entry()

    def next_box(self, now: float) -> int | None:
        """The next to be sent. A child that is not started yet is not cancelled before it is."""
        waiting: set[str] = set()
        for number in sorted(self.outbox):
            box = self.outbox[number]
            if number >= self._unsaved_from:
                break
            if number in self.arrived:
                continue
            if box.send_at <= now and not waiting & {
                effect.instance_id for effect in box.effects if isinstance(effect, CancelSubOrchestration)
            }:
                return number
            waiting |= {effect.instance_id for effect in box.effects if isinstance(effect, StartSubOrchestration)}
        return None

    def sent(self, number: int) -> None:
        """Everybody has what was in this box."""
        self.arrived.discard(number)
        box = self.outbox.pop(number, None)
        if box is not None:
            if box.small is None:
                self._changed[_box_key(number)] = None
            self._dirty = True

    def cross_off(self) -> None:
        for number in list(self.arrived):
            self.sent(number)

    def keep_listed(self) -> None:
        """What the index knows is saved, too, also where nothing else is."""
        self._dirty = self._dirty or self.listed != self._saved_listed

    def deleted(self, now: float) -> Chronicle:
        """What is left when all of it is forgotten: what others have to be told, and a history that goes later."""
        self.cross_off()
        if self.parent is not None and not self.ended:
            gone = Failure(type="Deleted", message="It was deleted before it had ended.", kind="cancelled")
            self._put([TellParent(parent=self.parent, error=gone)], now)
        for number, box in list(self.outbox.items()):
            box.effects = [effect for effect in box.effects if isinstance(effect, TellParent | CancelSubOrchestration)]
            if not box.effects:
                self.sent(number)
            elif box.small is not None:
                box.small = box.small | {"effects": [effect.dump() for effect in box.effects]}
        left = Chronicle(self.instance_id)
        # Whatever is known of it here: the index may have been told by a process that did not get to save that.
        left.listed = left._saved_listed = self.listing
        left.entry = self.entry
        left.outbox = self.outbox
        left._next_box, left._unsaved_from = self._next_box, self._unsaved_from
        left._life = self._life + 1
        left._garbage = [
            *self._garbage,
            *((self._life, execution, segments) for execution, (segments, _) in self._earlier.items()),
            *([(self._life, self.execution_id, self._segments)] if self._segments else []),
        ]
        left._changed = self._changed | dict.fromkeys(self._apart)
        left._dirty = True
        return left

    def sweep(self) -> None:
        """Deletes some of what nobody wants."""
        room = SWEEP_AT_ONCE
        while self._garbage and room:
            life, execution, left = self._garbage.pop()
            gone = min(left, room)
            for segment in range(left - gone, left):
                self._changed[segment_key(life, execution, segment)] = None
            room -= gone
            if left > gone:
                self._garbage.append((life, execution, left - gone))
            self._dirty = True

    @property
    def changed(self) -> bool:
        return self._dirty or bool(self._changed)

    def changes(self) -> dict[str, Any]:
        """The state values that changed since the last call; None deletes one."""
        if not self.changed:
            return {}
        changed, self._changed = self._changed, {}
        changed[HEAD] = self._head()
        self._saved_listed = self.listed
        self._dirty = False
        return changed

    # Looking

    def history(self) -> Steps[list[Event]]:
        """All events of the present execution."""
        keys = [segment_key(self._life, self.execution_id, number) for number in range(self._segments)]
        elsewhere = tuple(key for key in keys if key not in self._changed)
        known = self._changed | dict(zip(elsewhere, (yield elsewhere), strict=True))
        segments = [known[key] for key in keys]
        if None in segments:
            raise StorageBroken(f"The history of {self.instance_id} is damaged: a part is missing from the store.")
        return [events_of.load_event(event) for segment in (*segments, self._tail) for event in segment]

    def events_in(self, execution_id: int) -> int | None:
        """How many events an execution has; None when its history is not kept, or not begun."""
        if execution_id == self.execution_id:
            return self.events
        return self._earlier[execution_id][1] if execution_id in self._earlier else None

    def page(self, execution_id: int, after: int, limit: int) -> Steps[list[Event]]:
        """Up to so many events that come after one. Reads the segments they lie in, and a few to find these."""
        if execution_id == self.execution_id:
            parts = self._segments + bool(self._tail)
        else:
            parts = self._earlier[execution_id][0]
        found: list[Event] = []
        low, high = 0, max(parts - 1, 0)
        while low < high and after:
            middle = (low + high + 1) // 2
            segment = yield from self._segment(execution_id, middle)
            low, high = (middle, high) if segment[0]["seq"] <= after else (low, middle - 1)
        for number in range(low, parts):
            segment = yield from self._segment(execution_id, number)
            start = bisect_right([event["seq"] for event in segment], after)
            found += [events_of.load_event(event) for event in segment[start : start + limit - len(found)]]
            if len(found) >= limit:
                break
        return found

    # Inside

    def _put(self, effects: list[Effect], now: float) -> None:
        if effects:
            box = self.outbox[self._next_box] = Box(effects, now)
            dumped = [effect.dump() for effect in effects]
            stored = {"at": now, "effects": dumped}
            size = len(orjson.dumps(stored))
            if size + sum(other.size for other in self.outbox.values()) <= SMALL_BOXES_BYTES:
                box.small, box.size = stored, size
            else:
                self._changed[_box_key(self._next_box)] = stored
            self._dirty = True
            self._next_box += 1

    def _append(self, event: Event) -> None:
        if isinstance(event, events_of.OrchestrationStarted):
            self._begin(event)
        dumped = event.dump()
        size = len(orjson.dumps(dumped))
        if self._tail and (len(self._tail) >= SEGMENT_EVENTS or self._tail_size + size > SEGMENT_BYTES):
            self._close_segment()
        self._tail.append(dumped)
        self._tail_size += size
        if self._tail_size > SEGMENT_BYTES:
            self._close_segment()  # one that is too large for the head, all by itself
        self.events += 1
        self.updated_at = event.timestamp
        if isinstance(event, events_of.OrchestrationCompleted):
            self._end(event, {"output": event.output})
        elif isinstance(event, events_of.OrchestrationFailed):
            self._end(event, {"error": event.error.dump()})
        elif isinstance(event, events_of.OrchestrationCancelled):
            self._end(event, {"reason": event.reason})

    def _begin(self, event: events_of.OrchestrationStarted) -> None:
        if self.events:
            if self._tail:
                self._close_segment()
            self._earlier[self.execution_id] = (self._segments, self.events)
            while len(self._earlier) > EARLIER_KEPT:
                oldest = next(iter(self._earlier))
                self._garbage.append((self._life, oldest, self._earlier.pop(oldest)[0]))
        else:
            self.created_at = event.timestamp
        self.name, self.version, self.parent = event.name, event.version, event.parent
        self.execution_id, self.seed = event.execution_id, event.seed
        self.events = self._segments = 0
        self._keep(INPUT, event.input)

    def _close_segment(self) -> None:
        self._changed[segment_key(self._life, self.execution_id, self._segments)] = self._tail
        self._tail, self._tail_size = [], 0
        self._segments += 1

    def _end(self, event: Event, ending: dict[str, Any]) -> None:
        self.ended_at = event.timestamp
        self._keep(ENDING, ending)

    def _keep(self, key: str, value: Any) -> None:
        """With the head where it is short, and else by itself."""
        if value is not None and len(orjson.dumps(value)) > SMALL_VALUE_BYTES:
            self._small.pop(key, None)
            self._apart.add(key)
            self._changed[key] = value
        else:
            self._small[key] = value
            if key in self._apart:
                self._apart.remove(key)
                self._changed[key] = None

    def values(self, *keys: str) -> Steps[list[Any]]:
        """As this turn leaves them, whether they were saved or not."""
        elsewhere = tuple(key for key in keys if key in self._apart and key not in self._changed)
        stored = yield elsewhere
        known = self._changed | dict(zip(elsewhere, stored, strict=True)) | self._small
        return [known.get(key) for key in keys]

    def _segment(self, execution_id: int, number: int) -> Steps[list[dict[str, Any]]]:
        if execution_id == self.execution_id and number == self._segments:
            return self._tail
        key = segment_key(self._life, execution_id, number)
        if key in self._changed:
            changed: list[dict[str, Any]] = self._changed[key]
            return changed
        [segment] = yield (key,)
        if segment is None:
            raise StorageBroken(f"The history of {self.instance_id} is damaged: {key} is missing from the store.")
        stored: list[dict[str, Any]] = segment
        return stored

    def _entry(self) -> dict[str, Any] | None:
        if not self.exists:
            return None
        rank = [self.created_at, self.execution_id, self.events]
        return {"name": self.name, "status": self.status.value, "at": self.created_at, "rank": rank}

    # What is saved

    def _head(self) -> dict[str, Any] | None:
        if not (self.exists or self._garbage or self.outbox or self.to_be_listed):
            return None  # deleted, and nothing is left of it
        return {
            "format": FORMAT,
            "status": self.status.value,
            "name": self.name,
            "version": self.version,
            "execution_id": self.execution_id,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "ended_at": self.ended_at,
            "parent": None if self.parent is None else self.parent.dump(),
            "events": self.events,
            "segments": self._segments,
            "tail": self._tail,
            "values": self._small,
            "apart": sorted(self._apart),
            "next_moment": self.next_moment,
            "outbox": [
                min((number for number, box in self.outbox.items() if box.small is None), default=self._next_box),
                self._next_box,
            ],
            "boxes": {str(number): box.small for number, box in self.outbox.items() if box.small is not None},
            "listed": self.listed,
            "seed": self.seed,
            "life": self._life,
            "earlier": [[execution, *extent] for execution, extent in self._earlier.items()],
            "garbage": self._garbage,
        }

    @classmethod
    def restore(cls, instance_id: str, head: dict[str, Any] | None) -> Steps[Chronicle]:
        """As it was saved; an instance nobody has started is a pending one."""
        chronicle = cls(instance_id)
        if head is None:
            return chronicle
        check_format(head, f"The orchestration {instance_id}")
        chronicle.status = Status(head["status"])
        for name in ("name", "version", "execution_id", "created_at", "updated_at", "ended_at", "events"):
            setattr(chronicle, name, head[name])
        chronicle.parent = None if head["parent"] is None else Parent(**head["parent"])
        chronicle.next_moment = head["next_moment"]
        chronicle.listed, chronicle.seed = head["listed"], head["seed"]
        chronicle._saved_listed = chronicle.listed
        chronicle._segments, chronicle._tail = head["segments"], head["tail"]
        chronicle._tail_size = sum(len(orjson.dumps(event)) for event in chronicle._tail)
        chronicle._small, chronicle._apart = head["values"], set(head["apart"])
        chronicle._life = head["life"]
        chronicle._earlier = {execution: (segments, events) for execution, segments, events in head["earlier"]}
        chronicle._garbage = [tuple(entry) for entry in head["garbage"]]
        first, chronicle._next_box = head["outbox"]
        chronicle.saved()
        small = {int(number): box for number, box in head["boxes"].items()}
        boxes = [number for number in range(first, chronicle._next_box) if number not in small]
        stored = yield tuple(_box_key(number) for number in boxes)
        [chronicle.custom_status] = yield from chronicle.values(CUSTOM_STATUS)
        for number, box in (*zip(boxes, stored, strict=True), *small.items()):
            if box is not None:
                effects = [load_effect(effect) for effect in box["effects"]]
                due = box["at"] + RESEND_SECONDS
                own = small.get(number)
                size = 0 if own is None else len(orjson.dumps(own))
                chronicle.outbox[number] = Box(effects, due, restored=True, small=own, size=size)
        return chronicle


def check_format(head: dict[str, Any], subject: str) -> None:
    if head["format"] != FORMAT:
        another = "a later" if head["format"] > FORMAT else "an earlier"
        raise StorageBroken(
            f"{subject} was written by {another} version of Holdfast, in format {head['format']}. "
            f"This version reads format {FORMAT}."
        )


def segment_key(life: int, execution: int, number: int) -> str:
    return f"history-{life}-{execution}-{number}"


def _box_key(number: int) -> str:
    return f"outbox-{number}"
