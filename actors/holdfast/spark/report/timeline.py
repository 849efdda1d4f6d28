"""Renders the history of one instance: a bar for each scheduled step, and its events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.spark.history_steps import FAILURES, RESOLVED, SCHEDULED
from holdfast.spark.report import charts
from holdfast.spark.report.format import cut, length, moment, short_moment
from holdfast.spark.report.html import Markup, element, joined, text
from holdfast.spark.report.tables import LEFT, RIGHT, SAID, bars, card, none, place, table

if TYPE_CHECKING:
    from holdfast.spark.statistics.instances import Event, Story

_MOST_BARS = 30
_KINDS = {"activity": "completed", "sub-orchestration": "suspended", "timer": "pending", "event": "delayed"}
# The fields that may hold an event's payload, in order of preference.
_PAYLOADS = ("error", "result", "input", "output", "data", "reason")


def timeline(story: Story, as_of: float) -> Markup:
    ended = story.status in ("COMPLETED", "FAILED", "CANCELLED")
    title = "Last failed instance" if story.status == "FAILED" else "Longest-running instance"
    name = joined(place(story.instance_id, story.tenant), text(f", {story.name}"))
    if not story.events:
        return card(title, None, element("p", name), none("Its history is missing."))
    begun = story.events[0].at
    end = story.events[-1].at if ended else as_of
    execution = f", execution {story.execution_id}" if story.execution_id > 1 else ""
    caption = f"{story.status.lower()}{execution}, {moment(begun)}, {length(end - begun)}"
    head = element(
        "p",
        element("b", name),
        " ",
        element("span", caption, class_="quiet"),
    )
    left_out = story.events_in_all - len(story.events)
    return card(
        title,
        None,
        head,
        element("p", element("code", cut(_reason(story.error), 600)), class_="error") if story.error else None,
        _bars(story, begun, end),
        element(
            "details",
            element("summary", f"All {story.events_in_all:,} events" if left_out <= 0 else "Its first and last events"),
            _events(story, begun),
        ),
        element("p", f"{left_out:,} events between these are left out", class_="more") if left_out > 0 else None,
    )


def _bars(story: Story, begun: float, end: float) -> Markup:
    answers = {event.scheduled_seq: event for event in story.events if event.type in RESOLVED}
    scheduled = [event for event in story.events if event.type in SCHEDULED]
    whole = (end - begun) or 1e-9
    rows = []
    for event in scheduled[:_MOST_BARS]:
        answer = answers.get(event.seq)
        stop = end if answer is None else answer.at
        failed = answer is not None and answer.type in FAILURES
        kind = "failed" if failed else _KINDS[SCHEDULED[event.type]] if answer else "running"
        outcome = "not completed" if answer is None else "failed" if failed else "completed"
        caption = f"{_called(event)}: {outcome} after {length(stop - event.at)}"
        plot = charts.span(100 * (event.at - begun) / whole, 100 * (stop - event.at) / whole, kind, caption)
        note = element("small", f" {outcome}", class_="bad" if failed else None) if outcome != "completed" else None
        rows.append((joined(text(_called(event)), note), plot, length(stop - event.at)))
    if not rows:
        return none("It has scheduled nothing.")
    return bars(rows, "gantt")


def _events(story: Story, begun: float) -> Markup:
    columns = [("#", RIGHT), ("time, UTC", LEFT), ("after", RIGHT), ("event", LEFT), ("what", SAID)]
    rows = [
        (
            event.seq,
            element("span", short_moment(event.at), title=moment(event.at)),
            length(max(0.0, event.at - begun)),
            f"{event.type} {event.name or ''}".strip()
            + (f", of #{event.scheduled_seq}" if event.scheduled_seq is not None else ""),
            element("code", cut(_payload(event.data))),
        )
        for event in story.events
    ]
    return table(columns, rows)


def _called(event: Event) -> str:
    attempt = _data(event.data).get("attempt", 1)
    again = f", attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else ""
    return f"{event.name or SCHEDULED[event.type]}{again}"


def _payload(data: str | None) -> str:
    read = _data(data)
    for name in _PAYLOADS:
        if name in read and read[name] is not None:
            found = read[name]
            return (
                _reason(json.dumps(found))
                if name == "error"
                else found
                if isinstance(found, str)
                else json.dumps(found)
            )
    return ""


def _reason(error: str | None) -> str:
    """Returns the type and message of a failure."""
    read = _data(error)
    if "message" not in read:
        return error or ""
    return f"{read['type']}: {read['message']}" if read.get("type") else str(read["message"])


def _data(text: str | None) -> dict[str, Any]:
    """Parses a JSON object; returns an empty one if it is none, or was cut off."""
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
