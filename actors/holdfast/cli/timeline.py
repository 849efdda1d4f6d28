"""Formats a history as a timeline for the terminal: events, results and durations."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from holdfast.cli.orchestration_tables import age, failure
from holdfast.cli.printing import RIGHT, moment, new_table, printable, spoken, spoken_exactly, value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from holdfast.client.api.orchestrations import Answer

_OF_EVERY_EVENT = frozenset({"seq", "type", "execution_id", "timestamp"})
_USUAL_QUEUE = "activities"


def timeline(status: Answer, events: Sequence[Answer]) -> RenderableType:
    """Returns a headline and one line per event."""
    table = new_table()
    table.add_column("#", justify=RIGHT)
    table.add_column("time", no_wrap=True)
    table.add_column("after", justify=RIGHT, no_wrap=True)
    table.add_column("event", overflow="fold")
    table.add_column("what", overflow="fold")
    by_seq = {event["seq"]: event for event in events}
    begun = _time(events[0]) if events else 0.0
    for event in events:
        title, what = _FORMATTERS.get(event["type"], _anything)(event, by_seq.get(event.get("scheduled_seq")))
        table.add_row(
            str(event["seq"]),
            moment(event["timestamp"], exact=True),
            spoken_exactly(max(0.0, _time(event) - begun)),
            printable(title),
            what,
        )
    return Group(Text(_headline(status, events)), "", table)


def _headline(status: Answer, events: Sequence[Answer]) -> str:
    shown = events[0]["execution_id"] if events else status["execution_id"]
    execution = f", execution {shown} of {status['execution_id']}" if status["execution_id"] > 1 else ""
    duration = f"{'for' if status['ended_at'] is None else 'after'} {spoken_exactly(age(status))}"
    title = f"{status['instance_id']}: {status['name']}, version {status['version']}{execution}"
    return f"{title}. {status['status']} {duration}"


Described = tuple[str, Text]


def _started(event: Answer, _: Answer | None) -> Described:
    parent = event.get("parent")
    title = "started" if parent is None else f"started by {parent['instance_id']}"
    later = f", to begin at {moment(event['start_at'])}" if "start_at" in event else ""
    return title + later, value(event["input"])


def _activity(event: Answer, _: Answer | None) -> Described:
    attempt = f", attempt {event['attempt']}" if event["attempt"] > 1 else ""
    queue = f" on {event['queue']}" if event["queue"] != _USUAL_QUEUE else ""
    return f"activity {event['name']}{queue}{attempt}", value(event["input"])


def _sub(event: Answer, _: Answer | None) -> Described:
    kind = "detached orchestration" if event.get("detached") else "sub-orchestration"
    return f"{kind} {event['name']}", Text.assemble(f"{event['instance_id']}  ", value(event["input"]))


def _timer(event: Answer, _: Answer | None) -> Described:
    length = datetime.fromisoformat(event["fire_at"]).timestamp() - _time(event) + event.get("skew", 0.0)
    shown = spoken_exactly(max(0.0, length)) if length < 60 else spoken(length)
    return f"timer of {shown}", Text(f"until {moment(event['fire_at'], exact=True)}")


def _completed(event: Answer, scheduled: Answer | None) -> Described:
    return f"{_what(event, scheduled)} completed{_duration(event, scheduled)}", value(event["result"])


def _failed(event: Answer, scheduled: Answer | None) -> Described:
    return f"{_what(event, scheduled)} failed{_duration(event, scheduled)}", printable(failure(event["error"]))


def _fired(event: Answer, scheduled: Answer | None) -> Described:
    return "timer fired", Text(f"of #{event['scheduled_seq']}")


def _subscribed(event: Answer, _: Answer | None) -> Described:
    return f"waits for {event['name']}", Text()


def _refused(event: Answer, _: Answer | None) -> Described:
    return "value does not match its type", Text(event["name"])


def _marked(event: Answer, _: Answer | None) -> Described:
    return f"patch {event['name']}", Text()


def _tagged(event: Answer, _: Answer | None) -> Described:
    return "tags set", value(event["tags"])


def _raised(event: Answer, scheduled: Answer | None) -> Described:
    where = ", into its mailbox" if event.get("scheduled_seq") is None else _duration(event, scheduled)
    return f"{event['name']} raised{where}", value(event["data"])


def _requested(event: Answer, _: Answer | None) -> Described:
    return f"request {event['name']}", value(event["data"])


def _answered(event: Answer, _: Answer | None) -> Described:
    if "rejected" in event:
        return f"request {event['name']} rejected", printable(event["rejected"])
    return f"request {event['name']} answered", value(event["reply"])


def _continued(event: Answer, _: Answer | None) -> Described:
    version = f", version {event['version']}" if "version" in event else ""
    return f"continues as new{version}", value(event["input"])


def _ended(event: Answer, _: Answer | None) -> Described:
    if "error" in event:
        return "failed", printable(failure(event["error"]))
    return "completed", value(event["output"], whole=True)


def _with_reason(title: str) -> Callable[[Answer, Answer | None], Described]:
    return lambda event, _: (title, printable(event.get("reason") or ""))


def _anything(event: Answer, _: Answer | None) -> Described:
    """Formats an event type that only a newer server knows."""
    return event["type"], value({key: field for key, field in event.items() if key not in _OF_EVERY_EVENT})


_FORMATTERS: dict[str, Callable[[Any, Any], Described]] = {
    "OrchestrationStarted": _started,
    "ActivityScheduled": _activity,
    "ActivityCompleted": _completed,
    "ActivityFailed": _failed,
    "TimerCreated": _timer,
    "TimerFired": _fired,
    "SubOrchestrationScheduled": _sub,
    "SubOrchestrationCompleted": _completed,
    "SubOrchestrationFailed": _failed,
    "EventSubscribed": _subscribed,
    "EventRaised": _raised,
    "RequestReceived": _requested,
    "RequestAnswered": _answered,
    "ValueRefused": _refused,
    "PatchMarked": _marked,
    "TagsSet": _tagged,
    "CancelRequested": lambda event, scheduled: _with_reason(
        "time is over" if event.get("timed_out") else "cancellation requested"
    )(event, scheduled),
    "OrchestrationSuspended": _with_reason("suspended"),
    "OrchestrationResumed": _with_reason("resumed"),
    "ContinuedAsNew": _continued,
    "OrchestrationCompleted": _ended,
    "OrchestrationFailed": _ended,
    "OrchestrationCancelled": _with_reason("cancelled"),
}


def _what(event: Answer, scheduled: Answer | None) -> str:
    return f"#{event['scheduled_seq']}" if scheduled is None else str(scheduled["name"])


def _duration(event: Answer, scheduled: Answer | None) -> str:
    return "" if scheduled is None else f" after {spoken_exactly(max(0.0, _time(event) - _time(scheduled)))}"


def _time(event: Answer) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()
