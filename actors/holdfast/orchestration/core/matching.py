"""Pairs the commands of one step of a replay with the decisions recorded for that step.

The order within a step does not count, because a loop over a set of strings has a different order in every process.
Commands are distinguished by their content: the input and the attempt of an activity, the due time of a timer, the
input and the id of a child. A recorded result never goes to a command that is known to be a different call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json

from holdfast.orchestration.core.history import (
    ActivityScheduled,
    Event,
    EventSubscribed,
    PatchMarked,
    RequestAnswered,
    SubOrchestrationScheduled,
    TagsSet,
    TimerCreated,
    ValueRefused,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.orchestration.core.commands import Command

    Request: TypeAlias = Command | Event

#: The fields that must be equal: kind and name, the attempt of an activity, the id of a detached child.
Bucket: TypeAlias = tuple[Hashable, ...]
Content: TypeAlias = Hashable

_SHOWN_CHARACTERS = 200
# Decisions that have a name and no content.
_NAMED_ONLY = (EventSubscribed, ValueRefused, PatchMarked)
# Stands for every element of a list among the keys of a shape.
_ELEMENT = object()


class Differences:
    """The pairs of one execution whose issued and recorded contents differ.

    Every difference is kept, large or small: a key that only one side has may be a new field of a model, or may be
    the field that distinguishes one call from another.
    """

    def __init__(self) -> None:
        self._asked: set[tuple[Bucket, Content]] = set()
        self._recorded: dict[tuple[Bucket, Content], Event] = {}

    def add(self, command: Command, event: Event) -> bool:
        """Returns False when one side equals the other side of an earlier pair: then two calls have swapped places."""
        bucket, asked = bucket_of(command), content_of(command)
        recorded = content_of(event, any_id=command.generated_id)
        if asked == recorded:
            return True  # only the generated id of a child differs
        if (bucket, asked) in self._recorded or (bucket, recorded) in self._asked:
            return False
        self._asked.add((bucket, asked))
        self._recorded[bucket, recorded] = event
        return True

    def answered_before(self, command: Command) -> Event | None:
        """Returns the recorded call with the content of ``command``, if its result went to a different command."""
        return self._recorded.get((bucket_of(command), content_of(command))) if self._recorded else None


class Pairing:
    """The pairs of commands and decisions of one step."""

    def __init__(self, commands: Sequence[Command], decisions: Sequence[Event]) -> None:
        self._commands = commands
        #: The event of each command; None for a command without a match.
        self.events: list[Event | None] = [None] * len(commands)
        #: Pairs whose contents differ.
        self.different: list[tuple[Command, Event]] = []
        self.unmatched_decisions: list[Event] = []
        if len(commands) == len(decisions) and all(map(_is_same, commands, decisions)):
            # The usual case: same commands in the same order.
            self.events = list(decisions)
            return
        left = self._pair_equal(dict(enumerate(commands)), list(decisions), _written)
        left = self._pair_equal(*left, content_of)
        self.unmatched_decisions = self._pair_similar(*left)

    @property
    def unmatched_commands(self) -> list[Command]:
        return [command for command, event in zip(self._commands, self.events, strict=True) if event is None]

    def _pair_equal(
        self, commands: dict[int, Command], decisions: list[Event], content: Callable[[Request], Content]
    ) -> tuple[dict[int, Command], list[Event]]:
        """Pairs commands and decisions of equal content, in order. Returns the unpaired rest of both."""
        if not (commands and decisions):
            return commands, decisions
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for place, command in reversed(commands.items()):
            waiting[bucket_of(command), content(command)].append(place)
        left: list[Event] = []
        for event in decisions:
            places = waiting.get((bucket_of(event), content(event)))
            if places:
                place = places.pop()
                self.events[place] = event
                del commands[place]
            else:
                left.append(event)
        return commands, left

    def _pair_similar(self, commands: dict[int, Command], decisions: list[Event]) -> list[Event]:
        """Pairs the rest where that is unambiguous. Returns the decisions without a command."""
        given: dict[Bucket, list[int]] = defaultdict(list)
        for place, command in commands.items():
            given[bucket_of(command)].append(place)
        recorded: dict[Bucket, list[Event]] = defaultdict(list)
        for event in decisions:
            recorded[bucket_of(event)].append(event)
        unmatched: set[int] = set()
        for bucket, events in recorded.items():
            places = given.get(bucket, [])
            if places:
                places, events = self._pair_compatible(places, events)
            if len(places) == len(events) == 1:
                self.events[places[0]] = events[0]
                self.different.append((self._commands[places[0]], events[0]))
            else:
                unmatched.update(event.seq for event in events)
        return [event for event in decisions if event.seq in unmatched]

    def _pair_compatible(self, places: list[int], events: list[Event]) -> tuple[list[int], list[Event]]:
        """Pairs inputs that are equal in the keys both sides have: a model may have got a field with a default."""
        shapes: tuple[dict[Any, Any], dict[Any, Any]] = {}, {}
        values = {place: _value(self._commands[place]) for place in places}
        recorded = {event.seq: _value(event) for event in events}
        for value in values.values():
            _add_shape(value, shapes[0])
        for value in recorded.values():
            _add_shape(value, shapes[1])
        groups: dict[Hashable, tuple[list[int], list[Event]]] = defaultdict(lambda: ([], []))
        for place in places:
            groups[_common(values[place], *shapes)][0].append(place)
        for event in events:
            groups[_common(recorded[event.seq], *shapes)][1].append(event)
        left_places: list[int] = []
        left_events: list[Event] = []
        for common, (group_places, group_events) in groups.items():
            contents = {content_of(self._commands[place]) for place in group_places}
            any_id = any(self._commands[place].generated_id for place in group_places)
            kept = {content_of(event, any_id=any_id) for event in group_events}
            # With several different contents on either side the pairing would be a guess.
            known = len(group_places) == len(group_events) and len(contents) == len(kept) == 1
            if not known or _is_empty(common):
                left_places += group_places
                left_events += group_events
                continue
            for place, event in zip(group_places, group_events, strict=True):
                self.events[place] = event
                self.different.append((self._commands[place], event))
        return sorted(left_places), sorted(left_events, key=lambda event: event.seq)


def bucket_of(request: Request) -> Bucket:
    kind = _kind(request)
    if kind is TimerCreated or kind is TagsSet:
        return (kind.__name__,)
    name = _field(request, "name")
    if kind is RequestAnswered:
        # The sender may have the recorded answer already, whatever the code answers now.
        return kind.__name__, name, _field(request, "request_id")
    if kind is ActivityScheduled:
        return kind.__name__, name, _field(request, "attempt")
    if kind is SubOrchestrationScheduled and _field(request, "detached"):
        # The code has received the id of a detached child already.
        return kind.__name__, name, _field(request, "instance_id")
    return kind.__name__, name


def content_of(request: Request, *, any_id: bool = False) -> Content:
    """Returns the parsed content that distinguishes a call from others of its name, independent of JSON formatting."""
    kind = _kind(request)
    if kind is ActivityScheduled:
        return _frozen(_value(request))
    if kind is SubOrchestrationScheduled:
        return _frozen(_value(request)), None if any_id else _child_id(request)
    return _written(request)


def in_words(request: Request, *, content: bool = False) -> str:
    """Describes a call for an error message; with its content where the name alone does not show the difference."""
    kind = _kind(request)
    if kind is TimerCreated:
        return f"TimerCreated ({_moment(request)})" if content else "TimerCreated (a sleep or a time-out)"
    if kind is RequestAnswered:
        return f"{kind.__name__} ({_field(request, 'name')}, {_field(request, 'request_id')})"
    if kind not in (ActivityScheduled, SubOrchestrationScheduled, *_NAMED_ONLY):
        return kind.__name__
    words = f"{kind.__name__} ({_field(request, 'name')})"
    if not content or kind in _NAMED_ONLY:
        return words
    text: str = _field(request, "input")
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    child = f", id {_field(request, 'instance_id')}" if kind is SubOrchestrationScheduled else ""
    return f"{words} with input {shown}{child}"


def _moment(request: Request) -> str:
    return f"until {datetime.fromtimestamp(_field(request, 'fire_at'), UTC).isoformat()}"


def _is_same(command: Command, event: Event) -> bool:
    return bucket_of(command) == bucket_of(event) and _written(command) == _written(event)


def _written(request: Request) -> Content:
    """Returns the content as JSON text: where that is equal, nothing has to be parsed."""
    kind = _kind(request)
    if kind is TimerCreated:
        return _field(request, "fire_at")  # type: ignore[no-any-return]
    if kind is ActivityScheduled:
        return _field(request, "input")  # type: ignore[no-any-return]
    if kind is SubOrchestrationScheduled:
        return _field(request, "input"), _child_id(request)
    return None


def _child_id(request: Request) -> str | None:
    """Returns the child's id, or None for a generated id, which may differ between processes for the same call."""
    if not isinstance(request, Event):
        return None if request.generated_id else request.fields["instance_id"]
    return _field(request, "original_id") or _field(request, "instance_id")  # type: ignore[no-any-return]


def _value(request: Request) -> Any:
    """Returns the part of the content that may change with the code."""
    return _field(request, "fire_at") if _kind(request) is TimerCreated else from_json(_field(request, "input"))


def _kind(request: Request) -> type[Event]:
    return type(request) if isinstance(request, Event) else request.kind


def _field(request: Request, name: str) -> Any:
    return getattr(request, name) if isinstance(request, Event) else request.fields.get(name)


def _frozen(value: Any) -> Hashable:
    """Returns a hashable form of a JSON value, in which True and 1 differ."""
    if isinstance(value, dict):
        return frozenset((key, _frozen(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return ("bool", value) if isinstance(value, bool) else value


def _add_shape(value: Any, shape: dict[Any, Any]) -> None:
    """Adds the keys of an object, and of nested objects, to a tree of keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _add_shape(inner, shape.setdefault(key, {}))
    elif isinstance(value, list):
        elements = shape.setdefault(_ELEMENT, {})
        for inner in value:
            _add_shape(inner, elements)


def _common(value: Any, one: dict[Any, Any], other: dict[Any, Any]) -> Hashable:
    """Returns a hashable form of ``value`` without the keys that only one of the two shapes has."""
    if isinstance(value, dict):
        shared = ((key, inner) for key, inner in value.items() if key in one and key in other)
        return frozenset((key, _common(inner, one[key], other[key])) for key, inner in shared)
    if isinstance(value, list) and _ELEMENT in one and _ELEMENT in other:
        return tuple(_common(inner, one[_ELEMENT], other[_ELEMENT]) for inner in value)
    return _frozen(value)


def _is_empty(common: Hashable) -> bool:
    """Returns whether two values have no key and no element in common, at any depth."""
    if isinstance(common, frozenset):
        return all(_is_empty(inner) for _, inner in common)
    return isinstance(common, tuple) and all(map(_is_empty, common))
