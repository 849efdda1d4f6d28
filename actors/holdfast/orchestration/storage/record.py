"""The stored record of an instance: its head, its history in numbered segments, and its outbox.

No I/O: methods that need stored values yield their keys, as in a queue. Every turn writes the head, which holds short
values and the latest events; these move into a segment when there are enough of them. A turn therefore writes little
more than its new events, usually one state value, whatever the length of the history. Only a replay reads all of it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import orjson

from holdfast.errors import StorageBroken
from holdfast.kinds import CUSTOM_STATUS, ENDING, HEAD, INPUT
from holdfast.orchestration.core import history as events_of
from holdfast.orchestration.core.effects import (
    CancelSubOrchestration,
    DeleteRecords,
    NotifyParent,
    StartSubOrchestration,
)
from holdfast.orchestration.core.event_ids import StoredEventIds
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.json_records import Parent
from holdfast.orchestration.core.outcome import released
from holdfast.orchestration.core.payloads import stored_size
from holdfast.orchestration.status import ENDED, Status
from holdfast.orchestration.storage.blocking import Blocking
from holdfast.orchestration.storage.heartbeats import StoredHeartbeats
from holdfast.orchestration.storage.mail import StoredMail
from holdfast.orchestration.storage.outbox import Outbox
from holdfast.orchestration.storage.replies import StoredReplies
from holdfast.orchestration.storage.retention import Retention
from holdfast.orchestration.tags import merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.effects import Effect
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.instance import Instance
    from holdfast.orchestration.tags import Tags
    from holdfast.runtime.reads import Reads

FORMAT = 6

# Every turn rewrites the events that are not in a segment yet, so they must stay few.
SEGMENT_EVENTS = 32
SEGMENT_BYTES = 16 * 1024
# Input, ending and custom status are stored in the head up to this size each, and under their own keys beyond it.
SMALL_VALUE_BYTES = 512
# Executions before the current one whose histories are kept.
EARLIER_KEPT = 10
# The stored size of a page of a history, and of the unread mail with it: daprd does not pass on large replies.
PAGE_BYTES = 3 * 1024 * 1024
MAIL_BYTES = 3 * 1024 * 1024
# State values of old executions, or of a deleted instance, that are deleted in one transaction.
SWEEP_AT_ONCE = 200
# The reruns that an instance lists.
RERUNS_KEPT = 100
# In seconds; larger than the rounding error of a timestamp.
_RANK_STEP = 0.001


class InstanceRecord:
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
        #: When it has to have ended, and fails with kind ``timeout``; None for no limit.
        self.deadline: float | None = None
        self.tags: Tags = {}
        self.retention = Retention()
        #: The priority of its activities, unless a call has its own.
        self.priority = 0
        #: The number of events of the current execution.
        self.events = 0
        #: When the instance needs a turn even without a message.
        self.next_moment: float | None = None
        #: The effects to be dispatched.
        self.outbox = Outbox()
        #: Identifies the incarnation.
        self.seed: str | None = None
        #: Of a rerun, where its first events are from; and the ids of the last reruns of this instance.
        self.rerun_of: dict[str, Any] | None = None
        self.reruns: list[str] = []
        #: The trace context of what started it.
        self.traceparent: str | None = None
        #: The entry in the instance index, as returned by :func:`indexed_as`. It is saved together with other changes;
        #: after a crash before that, the entry is written once more.
        self.listed: str | None = None
        self._saved_listed: str | None = None
        #: The entry for the index, and its rank, made of saved state only.
        self.entry: dict[str, Any] | None = None
        self.rank: list[float] = []
        self._segments = 0
        #: The events that are not in a segment yet.
        self._tail: list[dict[str, Any]] = []
        self._tail_size = 0
        self.custom_status: str | None = None
        #: What the code awaits, as :meth:`Waiting.dump` returns it.
        self.waiting_for: list[list[Any]] = []
        #: Input, ending and custom status as far as they are in the head, and the keys of those stored on their own.
        self._small: dict[str, Any] = {}
        self._apart: set[str] = set()
        #: Counts the instances of this id while state values of an earlier one remain.
        self._generation = 0
        #: The minimum of the first part of its rank, above that of a deleted instance of this id despite clock changes.
        self._rank_from = 0.0
        #: The earlier executions, with their numbers of segments and events.
        self._earlier: dict[int, tuple[int, int]] = {}
        #: Mail that earlier executions left unread, and the ids of the events they received.
        self._mail = StoredMail()
        self._event_ids = StoredEventIds()
        #: The answers to requests.
        self.replies = StoredReplies()
        #: The heartbeats of running activities.
        self.heartbeats = StoredHeartbeats()
        #: Whether the first step of the current execution is done.
        self.begun = True
        #: State values to be deleted: the prefix of their keys, the first number, and the number after the last.
        self._garbage: list[tuple[str, int, int]] = []
        #: Why the instance is BLOCKED, and its inbox.
        self.blocking = Blocking()
        self._changed: dict[str, Any] = {}
        self._dirty = False
        #: The size of new events, effects and mail that are not saved yet.
        self.unsaved_bytes = 0

    @property
    def exists(self) -> bool:
        return self.execution_id > 0

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def needs_indexing(self) -> bool:
        return self.listed != self.listing

    @property
    def settled(self) -> bool:
        """Whether the outbox is empty and the index entry is saved.

        The index entry of an ended instance does not count: after a crash, recovery writes it once more.
        """
        return not self.outbox and (self.ended or self.listed == self._saved_listed)

    @property
    def listing(self) -> str | None:
        """The entry that the index should have, as returned by :func:`indexed_as`."""
        return indexed_as(self._entry())

    @property
    def has_deferred_deletes(self) -> bool:
        # An instance that has not ended deletes dropped mail in its next turn.
        dropped = self.ended and bool(self._mail.dropped)
        return bool(self._garbage) or dropped or self.blocking.inbox.has_deferred_deletes

    # Changes

    def add_turn(self, instance: Instance, events: Sequence[Event], effects: Sequence[Effect], now: float) -> None:
        """Adds the events and effects of a turn, and takes over the state of the instance."""
        # Executions that began and ended in this turn and are too old to be kept are not written.
        oldest = instance.execution_id - EARLIER_KEPT
        for event in events:
            if event.execution_id >= oldest:
                self._append(event)
            else:
                self.replies.note(event.dump())
        mail = instance.take_mail()
        self._mail.keep(mail, (*self._earlier, self.execution_id))
        self.unsaved_bytes += sum(stored_size(one.data) for one in mail)
        self._event_ids.add(instance.take_event_ids())
        self.begun = instance.begun
        self.unsaved_bytes += self.outbox.put(effects, now)
        if instance.custom_status != self.custom_status:
            self.custom_status = instance.custom_status
            self._keep(CUSTOM_STATUS, instance.custom_status)
        if events or effects or self.next_moment != instance.next_moment:
            self._dirty = True
        self.next_moment = instance.next_moment
        self.status = instance.status

    def begin_rerun(self, rerun_of: dict[str, Any], now: float) -> None:
        """Records that the instance, whose copied events were added, is a rerun that was created now."""
        self.rerun_of = rerun_of
        self.created_at = self.updated_at = now

    def note_rerun(self, rerun_id: str) -> None:
        """Adds a rerun of this instance to its list."""
        if rerun_id not in self.reruns:
            self.reruns = [*self.reruns, rerun_id][-RERUNS_KEPT:]
            self._dirty = True

    def block(self, reason: dict[str, Any], now: float) -> bool:
        """Marks the instance as BLOCKED and schedules a retry. Returns False if it was BLOCKED for this reason."""
        # The retry time alone is not saved: another process may have other code and retries at once.
        retry = self.blocking.next_retry(now)
        self.next_moment = retry if self.deadline is None else min(retry, self.deadline)
        if not self.blocking.block(reason, now, suspended=self.status is Status.SUSPENDED):
            return False
        self.status = Status.BLOCKED
        return True

    def end(self, events: Sequence[Event], effects: Sequence[Effect], now: float) -> None:
        """Adds the events and effects that end the instance without its code."""
        for event in events:
            self._append(event)
        self.outbox.put(effects, now)
        failed = isinstance(events[-1], events_of.OrchestrationFailed)
        self.status, self.next_moment, self.begun = Status.FAILED if failed else Status.CANCELLED, None, True
        self._dirty = True

    def notify_parent(self, ending: dict[str, Any], now: float) -> None:
        """Puts another notification of the parent into the outbox."""
        assert self.parent is not None
        error = Failure.load(ending["error"]) if "error" in ending else None
        if error is None and "output" not in ending:
            error = Failure(type="CancelledError", message=ending.get("reason") or "", kind="cancelled")
        self.outbox.put([NotifyParent(parent=self.parent, result=ending.get("output"), error=error)], now)

    def saved(self) -> None:
        """Notes that all changes so far are saved."""
        self.outbox.saved()
        self.entry, self.rank = self._entry(), self._rank()

    def keep_indexed(self) -> None:
        """Makes the next save include the index entry, even without other changes."""
        self._dirty = self._dirty or self.listed != self._saved_listed

    def deleted(self, awaited: Sequence[Event], now: float, others: Sequence[Effect] = ()) -> InstanceRecord:
        """Returns the record after a deletion: effects to dispatch, and state values to delete later.

        ``awaited`` are the open calls of an instance that has not ended: its children are cancelled. ``others`` are
        further effects to dispatch.
        """
        assert self.seed is not None
        children = [event for event in awaited if isinstance(event, events_of.SubOrchestrationScheduled)]
        self.outbox.put(released(children, self.instance_id, self.seed, "Its parent was deleted."), now)
        if self.parent is not None and not self.ended:
            failure = Failure(type="Deleted", message="It was deleted before it had ended.", kind="cancelled")
            self.outbox.put([NotifyParent(parent=self.parent, error=failure)], now)
        self.outbox.keep(_outlives_its_instance)
        self.outbox.put(others, now)
        left = InstanceRecord(self.instance_id)
        # Assume that the index has an entry: a process may have written it and crashed before saving that.
        left.listed = left._saved_listed = self.listing
        left.entry, left.rank = self.entry, self.rank
        left._rank_from = max(self.created_at, self._rank_from) + _RANK_STEP
        left.outbox = self.outbox
        left._generation = self._generation + 1
        left._mail, left.replies = StoredMail(left._generation), StoredReplies(left._generation)
        extents = {execution: segments for execution, (segments, _) in self._earlier.items()}
        extents[self.execution_id] = self._segments
        left._garbage = [
            *self._garbage,
            *((self._history_prefix(execution), 0, segments) for execution, segments in extents.items() if segments),
            *self._mail.garbage(),
            *self.replies.garbage(),
            *self.heartbeats.garbage(),
        ]
        left.blocking = self.blocking.dropped()
        unsaved = self._changed | self._mail.changes() | self._event_ids.changes() | self.replies.changes()
        unsaved |= self.heartbeats.changes()
        indexes = (*self._event_ids.keys(), *self.replies.index_keys())
        left._changed = unsaved | dict.fromkeys((*self._apart, *indexes, *self._mail.dropped))
        left._dirty = True
        return left

    def sweep(self) -> None:
        """Deletes a bounded number of state values that are no longer needed."""
        self.blocking.inbox.sweep(SWEEP_AT_ONCE)
        self._dirty = self._mail.delete_dropped() or self._dirty
        room = SWEEP_AT_ONCE
        while self._garbage and room:
            prefix, first, end = self._garbage.pop()
            left = max(first, end - room)
            for number in range(left, end):
                self._changed[f"{prefix}{number}"] = None
            room -= end - left
            if left > first:
                self._garbage.append((prefix, first, left))
            self._dirty = True

    @property
    def changed(self) -> bool:
        parts = (self.outbox, self.blocking, self.replies, self.heartbeats)
        return self._dirty or bool(self._changed) or any(part.changed for part in parts)

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes a value."""
        if not self.changed:
            return {}
        changed = self._changed | self.outbox.changes() | self._mail.changes() | self._event_ids.changes()
        changed |= self.replies.changes() | self.heartbeats.changes() | self.blocking.state_changes()
        self._changed = {}
        changed[HEAD] = self._head()
        self._saved_listed = self.listed
        self._dirty = False
        self.unsaved_bytes = 0
        return changed

    # Reading

    def history(self) -> Reads[list[Event]]:
        """Reads all events of the current execution, with the mail that was unread at its start."""
        keys = [segment_key(self._generation, self.execution_id, number) for number in range(self._segments)]
        unchanged = tuple(key for key in keys if key not in self._changed)
        known = self._changed | dict(zip(unchanged, (yield unchanged), strict=True))
        segments = [known[key] for key in keys]
        if None in segments:
            raise StorageBroken(f"The history of {self.instance_id} is damaged: a part is missing from the store.")
        events = [events_of.load_event(event) for segment in (*segments, self._tail) for event in segment]
        return (yield from self._with_mail(events))

    def event_ids(self) -> Reads[list[str]]:
        """Reads the digests of the ids of events that earlier executions received."""
        return (yield from self._event_ids.read())

    def events_in(self, execution_id: int) -> int | None:
        """Returns the number of events of an execution; None when its history is not kept or it has not begun."""
        if execution_id == self.execution_id:
            return self.events
        return self._earlier[execution_id][1] if execution_id in self._earlier else None

    @property
    def kept_executions(self) -> tuple[int, ...]:
        """The executions whose histories are kept."""
        return (*self._earlier, self.execution_id)

    def page(self, execution_id: int, after: int, limit: int, *, with_mail: bool = True) -> Reads[list[Event]]:
        """Reads up to ``limit`` events after event ``after``, limited in bytes, but at least one if there is any.

        Reads the segments that contain them, and a few more to find these.
        """
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
        room = PAGE_BYTES
        for number in range(low, parts):
            segment = yield from self._segment(execution_id, number)
            start = bisect_right([event["seq"] for event in segment], after)
            for event in segment[start : start + limit - len(found)]:
                room -= len(orjson.dumps(event))
                if found and room < 0:
                    break
                found.append(events_of.load_event(event))
            if len(found) >= limit or room <= 0:
                break
        return (yield from self._with_mail(found, MAIL_BYTES)) if with_mail else found

    # Internals

    def _append(self, event: Event) -> None:
        if isinstance(event, events_of.OrchestrationStarted):
            self._begin(event)
        dumped = event.dump()
        size = len(orjson.dumps(dumped))
        if self._tail and (len(self._tail) >= SEGMENT_EVENTS or self._tail_size + size > SEGMENT_BYTES):
            self._close_segment()
        self._tail.append(dumped)
        self.replies.note(dumped)
        self._tail_size += size
        self.unsaved_bytes += size
        if self._tail_size > SEGMENT_BYTES:
            self._close_segment()  # a single event that is too large for the head
        self.events += 1
        self.updated_at = event.timestamp
        if isinstance(event, events_of.ActivityCompleted | events_of.ActivityFailed):
            self.heartbeats.drop(event.scheduled_seq)
        elif isinstance(event, events_of.TagsSet):
            self.tags = merged(self.tags, event.tags)
        elif isinstance(event, events_of.OrchestrationCompleted):
            self._end(event, {"output": event.output})
        elif isinstance(event, events_of.OrchestrationFailed):
            self._end(event, {"error": event.error.dump()})
        elif isinstance(event, events_of.OrchestrationCancelled):
            self._end(event, {"reason": event.reason})

    def _with_mail(self, events: list[Event], most: int | None = None) -> Reads[list[Event]]:
        if events and isinstance(first := events[0], events_of.OrchestrationStarted):
            unread = yield from self._mail.read(first.mail, most)
            events[0] = replace(first, unread=unread or None)
        return events

    def _begin(self, event: events_of.OrchestrationStarted) -> None:
        if self.events:
            oldest = event.execution_id - EARLIER_KEPT
            self._settle_replies()
            if self.execution_id < oldest:
                self._tail, self._tail_size = [], 0
            elif self._tail:
                self._close_segment()
            self._earlier[self.execution_id] = (self._segments, self.events)
            for earlier in [number for number in self._earlier if number < oldest]:
                segments, _ = self._earlier.pop(earlier)
                if segments:
                    self._garbage.append((self._history_prefix(earlier), 0, segments))
        else:
            self.created_at = event.timestamp
        self._mail.begin(event.execution_id, event.mail)
        self._drop_heartbeats(event.execution_id)
        self.name, self.version, self.parent = event.name, event.version, event.parent
        self.tags, self.priority, self.deadline = event.tags or {}, event.priority or 0, event.deadline
        self.execution_id, self.seed = event.execution_id, event.seed
        self.traceparent = event.traceparent
        self.events = self._segments = 0
        self._keep(INPUT, event.input)

    def _history_prefix(self, execution: int) -> str:
        return segment_key(self._generation, execution, "")

    def _drop_heartbeats(self, execution_id: int) -> None:
        self._changed |= self.heartbeats.changes()
        self._garbage += self.heartbeats.garbage()
        self.heartbeats = StoredHeartbeats(self._generation, execution_id)

    def _settle_replies(self) -> None:
        self.unsaved_bytes += self.replies.settle()
        self._garbage += self.replies.take_dropped()

    def _close_segment(self) -> None:
        self._settle_replies()
        self._changed[segment_key(self._generation, self.execution_id, self._segments)] = self._tail
        self._tail, self._tail_size = [], 0
        self._segments += 1

    def _end(self, event: Event, ending: dict[str, Any]) -> None:
        self.ended_at = event.timestamp
        self.waiting_for = []
        self._drop_heartbeats(self.execution_id)
        self.blocking.go_on()
        self.blocking.inbox.drop()
        self._keep(ENDING, ending)

    def _keep(self, key: str, value: Any) -> None:
        """Stores a value in the head if it is short, and under its own key otherwise."""
        if value is not None and len(orjson.dumps(value)) > SMALL_VALUE_BYTES:
            self._small.pop(key, None)
            self._apart.add(key)
            self._changed[key] = value
        else:
            self._small[key] = value
            if key in self._apart:
                self._apart.remove(key)
                self._changed[key] = None

    def values(self, *keys: str) -> Reads[list[Any]]:
        """Reads values, including changes that are not saved yet."""
        unchanged = tuple(key for key in keys if key in self._apart and key not in self._changed)
        stored = yield unchanged
        known = self._changed | dict(zip(unchanged, stored, strict=True)) | self._small
        return [known.get(key) for key in keys]

    def _segment(self, execution_id: int, number: int) -> Reads[list[dict[str, Any]]]:
        if execution_id == self.execution_id and number == self._segments:
            return self._tail
        key = segment_key(self._generation, execution_id, number)
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
        return {
            "name": self.name,
            "version": self.version,
            "status": self.status.value,
            "created_at": self.created_at,
            "ended_at": self.ended_at,
            "tags": self.tags,
        }

    def _rank(self) -> list[float]:
        """Returns the rank of the entry, or of its removal: it grows with every change."""
        if not self.exists:
            return [self._rank_from]
        return [max(self.created_at, self._rank_from), self.execution_id, self.events, self.blocking.changes]

    # Stored form

    def _head(self) -> dict[str, Any] | None:
        if not (self.exists or self.has_deferred_deletes or self.outbox or self.needs_indexing):
            return None  # deleted completely
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
            "external": sorted(self._apart),
            "next_deadline": self.next_moment,
            **self.outbox.head(),
            "indexed_as": self.listed,
            "seed": self.seed,
            "generation": self._generation,
            "earlier_executions": [[execution, *extent] for execution, extent in self._earlier.items()],
            "deferred_deletes": self._garbage,
            "mail": self._mail.head(),
            "event_ids": self._event_ids.count,
            "first_step_done": self.begun,
            "min_rank": self._rank_from,
            **self.replies.head(),
            **self.heartbeats.head(),
            **({"waiting_for": self.waiting_for} if self.waiting_for else {}),
            **self.blocking.dump(),
            **({} if self.deadline is None else {"deadline": self.deadline}),
            **self.retention.dump(),
            **({"tags": self.tags} if self.tags else {}),
            **({"priority": self.priority} if self.priority else {}),
            **({} if self.rerun_of is None else {"rerun_of": self.rerun_of}),
            **({"reruns": self.reruns} if self.reruns else {}),
            **({} if self.traceparent is None else {"trace": self.traceparent}),
        }

    @classmethod
    def restore(cls, instance_id: str, head: dict[str, Any] | None) -> Reads[InstanceRecord]:
        """Restores a record from its head; without a head the instance is PENDING."""
        record = cls(instance_id)
        if head is None:
            return record
        check_format(head, f"The orchestration {instance_id}")
        record.status = Status(head["status"])
        for name in ("name", "version", "execution_id", "created_at", "updated_at", "ended_at", "events"):
            setattr(record, name, head[name])
        record.parent = None if head["parent"] is None else Parent(**head["parent"])
        record.next_moment = head["next_deadline"]
        record.listed, record.seed = head["indexed_as"], head["seed"]
        record._saved_listed = record.listed
        record._segments, record._tail = head["segments"], head["tail"]
        record._tail_size = sum(len(orjson.dumps(event)) for event in record._tail)
        record._small, record._apart = head["values"], set(head["external"])
        record._generation, record._rank_from = head["generation"], head["min_rank"]
        record._earlier = {execution: (segments, events) for execution, segments, events in head["earlier_executions"]}
        record._garbage = [tuple(entry) for entry in head["deferred_deletes"]]
        record._mail = StoredMail.restore(record._generation, head["mail"])
        record._event_ids = StoredEventIds(head["event_ids"])
        record.replies = StoredReplies.restore(record._generation, head)
        record.heartbeats = StoredHeartbeats(record._generation, record.execution_id, head.get("heartbeats"))
        record.begun = head["first_step_done"]
        record.outbox = yield from Outbox.restore(head)
        record.blocking = Blocking.restore(head)
        record.tags, record.priority = head.get("tags", {}), head.get("priority", 0)
        record.deadline, record.retention = head.get("deadline"), Retention.restore(head)
        record.waiting_for = head.get("waiting_for", [])
        record.rerun_of, record.reruns = head.get("rerun_of"), head.get("reruns", [])
        record.traceparent = head.get("trace")
        record.saved()
        [record.custom_status] = yield from record.values(CUSTOM_STATUS)
        return record


def _outlives_its_instance(effect: Effect) -> bool:
    """Returns whether an effect is also sent when its instance was deleted."""
    if isinstance(effect, StartSubOrchestration):
        return effect.is_for_good
    return isinstance(effect, NotifyParent | CancelSubOrchestration | DeleteRecords)


def check_format(head: dict[str, Any], subject: str) -> None:
    if head["format"] != FORMAT:
        other = "a later" if head["format"] > FORMAT else "an earlier"
        raise StorageBroken(
            f"{subject} was written by {other} version of Holdfast, in format {head['format']}. "
            f"This version reads format {FORMAT}."
        )


def indexed_as(entry: dict[str, Any] | None) -> str | None:
    """Returns a short form of an index entry, which differs between two instances that had the same id."""
    if entry is None:
        return None
    others = [entry["version"], entry["ended_at"], *sorted(entry["tags"].items())]
    digest = blake2b(orjson.dumps(others), digest_size=8).hexdigest()
    return f"{entry['status']} {entry['name']} {entry['created_at']!r} {digest}"


def segment_key(generation: int, execution: int, number: int | Literal[""]) -> str:
    return f"history-{generation}-{execution}-{number}"
