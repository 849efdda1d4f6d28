"""Renders the report's section on orchestrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.spark.report import charts
from holdfast.spark.report.charts import LogScale, Part, Spread
from holdfast.spark.report.format import counted, cut, length, number
from holdfast.spark.report.html import Markup, element, joined, text
from holdfast.spark.report.tables import BRIEF, LEFT, PLOT, RIGHT, bars, card, more, none, place, table
from holdfast.spark.report.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.spark.statistics import Figures
    from holdfast.spark.statistics.instances import Durations, InstanceFigures

_WORDS = {
    "RUNNING": "running",
    "SUSPENDED": "suspended",
    "BLOCKED": "blocked",
    "PENDING": "pending",
    "COMPLETED": "completed",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
}


def section(figures: Figures, as_of: float) -> Markup:
    instances = figures.instances
    title = element("h2", "Orchestrations", id="orchestrations")
    if not instances.instances:
        return joined(title, card("Instances", None, none("There are none.")), _idempotency(figures.idempotency))
    return joined(
        title,
        element(
            "div",
            _statuses(instances),
            _durations("Orchestration durations", instances.durations, "instance", "Of ended instances."),
            class_="two",
        ),
        element(
            "div",
            _durations(
                "Activity durations",
                figures.steps.activities,
                "call",
                "From scheduled to completed, including time in the queue; each attempt counts separately.",
            ),
            _durations(
                "Event wait times",
                figures.steps.events,
                "event",
                "From the beginning of the wait to the event.",
            ),
            class_="two",
        ),
        _slowest(instances),
        timeline(instances.story, as_of) if instances.story else None,
        _idempotency(figures.idempotency),
    )


def _statuses(instances: InstanceFigures) -> Markup:
    most = max(name.total for name in instances.by_name)
    rows = []
    for name in instances.by_name:
        parts = [
            Part(count, _WORDS[status], f"{name.name}: {number(count)} {_WORDS[status]}")
            for status, count in name.counts.items()
        ]
        failed = name.counts["FAILED"]
        note = element("small", f" {number(failed)} failed", class_="bad") if failed else None
        rows.append((joined(text(name.name), note), charts.bar(parts, most), number(name.total)))
    present = [(words, f"{words} {number(instances.by_status[status])}") for status, words in _WORDS.items()]
    keys = [key for key, count in zip(present, instances.by_status.values(), strict=True) if count]
    return card(
        "Instances by status",
        f"{counted(instances.instances, 'instance')} of {counted(instances.names, 'orchestration')}.",
        bars(rows),
        more(instances.names - len(instances.by_name), "orchestration"),
        charts.legend(*keys),
    )


def _durations(title: str, rows: Sequence[Durations], what: str, about: str) -> Markup:
    ended = [row for row in rows if row.p50 is not None]
    if not ended:
        waiting = sum(row.open for row in rows)
        return card(title, None, none(f"{counted(waiting, what)} not ended." if waiting else "There are none."))
    scale = LogScale([value for row in ended for value in (row.p50, row.longest) if value is not None])
    drawn = []
    for row in ended:
        spread = Spread(*(value or 0.0 for value in (row.p50, row.p95, row.p99, row.longest)))
        caption = (
            f"{row.name}: half within {length(row.p50)}, 95 % within {length(row.p95)}, 99 % within {length(row.p99)}, "
            f"the longest {length(row.longest)}"
        )
        name = joined(text(row.name), element("small", f" {counted(row.ended, what)}"))
        drawn.append((name, scale.spread(spread, caption), f"p95 {length(row.p95)}"))
    axis = (Markup(""), scale.axis(), "")
    cells = [
        (
            row.name,
            row.ended,
            element("span", number(row.failed), class_="bad") if row.failed else "0",
            row.again,
            row.open,
            *(length(value) for value in (row.p50, row.p95, row.p99, row.longest)),
        )
        for row in rows
    ]
    titles = ("ended", "failed", "retries", "not ended", "p50", "p95", "p99", "longest")
    columns = [("name", LEFT), *((name, RIGHT) for name in titles)]
    return card(
        title,
        f"{about} The dot is the median; thick to p95, thinner to p99, the mark is the longest.",
        bars([*drawn, axis], "wide"),
        element("details", element("summary", "As numbers"), table(columns, cells)),
    )


def _slowest(instances: InstanceFigures) -> Markup:
    most = max((instance.seconds for instance in instances.slowest), default=0.0) or 1.0
    rows = [
        (
            joined(place(instance.instance_id, instance.tenant)),
            instance.name,
            element("span", _WORDS[instance.status], class_=f"chip {_WORDS[instance.status]}"),
            element("code", cut(instance.custom_status, 80)) if instance.custom_status else "",
            charts.bar([Part(instance.seconds, _WORDS[instance.status], length(instance.seconds))], most),
            length(instance.seconds),
        )
        for instance in instances.slowest
    ]
    columns = [
        ("instance", LEFT),
        ("orchestration", LEFT),
        ("status", LEFT),
        ("custom status", BRIEF),
        ("", PLOT),
        ("duration", RIGHT),
    ]
    return card(
        "Slowest instances",
        "From their start to their end, or to now.",
        table(columns, rows),
        more(instances.instances - len(instances.slowest), "instance"),
    )


def _idempotency(records: dict[str, int]) -> Markup | None:
    if not records:
        return None
    kinds = {"SUCCESS": "completed", "FAILURE": "failed", "IN_PROGRESS": "running"}
    most = max(records.values())
    rows = [
        (
            text(status.lower().replace("_", " ")),
            charts.bar([Part(count, kinds.get(status, "px"), counted(count, "record"))], most),
            number(count),
        )
        for status, count in records.items()
    ]
    return card("Idempotency records", None, bars(rows))
