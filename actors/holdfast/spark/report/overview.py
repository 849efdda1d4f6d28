"""Renders the report's headline, check results, totals, changes and footer."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.spark.report import charts
from holdfast.spark.report.format import change, counted, length, moment, number, size
from holdfast.spark.report.html import Markup, element, joined, text
from holdfast.spark.report.tables import LEFT, RIGHT, SAID, card, more, none, place, table
from holdfast.spark.source.options import USUAL_TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.spark.pipeline.consistency import Check
    from holdfast.spark.pipeline.diff import Changes, InstanceChange, QueueChange
    from holdfast.spark.pipeline.manifest import Manifest
    from holdfast.spark.statistics import Figures

#: Snapshots before this one that a trend shows.
_TREND = 60
_FINDINGS = 10


def headline(manifest: Manifest) -> Markup:
    stored_in = None if manifest.state_table == USUAL_TABLE else manifest.state_table
    of = (("table", stored_in), ("app id", manifest.app_id), ("tenant", manifest.tenant))
    narrowed = [f"{what} {value}" for what, value in of if value]
    return element(
        "div",
        element("h1", f"As of {moment(manifest.as_of.timestamp())}"),
        element("p", ", ".join((manifest.url, *narrowed)), class_="of"),
    )


def verdict(manifest: Manifest, checks: Sequence[Check]) -> Markup:
    rows = sum(extent.rows for extent in manifest.tables.values())
    if not manifest.findings:
        words = f"{counted(len(checks), 'check')} over {counted(rows, 'row')} found no inconsistency."
        result = element("div", element("b", "Checks passed. "), words)
        return element("div", element("b", "✓"), result, class_="verdict")
    wrong = sum(check.wrong for check in checks)
    shown = manifest.findings[:_FINDINGS]
    left = len(manifest.findings) - len(shown)
    return element(
        "div",
        element("b", "✗"),
        element("b", f"Checks failed: {counted(wrong, 'finding')}."),
        element(
            "ul",
            *(element("li", finding) for finding in shown),
            element("li", element("a", f"and {left:,} more", href="#audit")) if left else None,
        ),
        class_="verdict bad",
        role="alert",
    )


def tiles(figures: Figures, manifest: Manifest, before: Sequence[Manifest]) -> Markup:
    """Renders the totals, each with its trend over the series."""
    totals, shown = manifest.totals, before[-_TREND:]

    def tile(name: str, key: str, *, alarm: bool = False) -> Markup:
        value = totals[key]
        trend = since = None
        if shown:
            values = [*(earlier.totals.get(key, 0) for earlier in shown), value]
            trend = charts.trend(values, f"{name} over the last {counted(len(values), 'snapshot')}: {_joined(values)}")
            passed = (manifest.as_of - shown[-1].as_of).total_seconds()
            since = f"{change(value - values[-2])} in {length(passed)}"
        return element(
            "div",
            element("dt", name),
            element("dd", number(value), class_="alarm" if alarm and value else None),
            element("p", since or ""),
            trend,
        )

    oldest = figures.queues.oldest_seconds
    age = element(
        "div",
        element("dt", "Oldest waiting"),
        element("dd", length(oldest)),
        element("p", f"in {counted(figures.queues.not_empty, 'queue')} with items"),
    )
    return element(
        "dl",
        tile("Waiting", "waiting"),
        age,
        tile("Locked", "locked"),
        tile("Delayed", "delayed"),
        tile("Redelivered", "returned"),
        tile("Dead letters", "dead_letters", alarm=True),
        tile("Instances running", "running"),
        tile("Instances failed", "failed", alarm=True),
        class_="tiles",
    )


def what_changed(changes: Changes | None, manifest: Manifest) -> Markup | None:
    if changes is None or manifest.against is None:
        return None
    since = datetime.fromisoformat(manifest.against["as_of"])
    passed = (manifest.as_of - since).total_seconds()
    title = element("h2", "What changed", id="changes")
    about = f"Since {moment(since.timestamp())}, {length(abs(passed))} {'earlier' if passed >= 0 else 'later'}."
    if changes.nothing:
        return joined(title, card("No changes", about))
    return joined(
        title,
        card("Queues", about, _queue_changes(changes)),
        card("Orchestrations", None, _instance_changes(changes)),
    )


def _queue_changes(changes: Changes) -> Markup:
    if not changes.queues:
        return none("No changes.")

    def line(name: Markup, row: QueueChange) -> list[Markup | int]:
        dead = element("span", change(row.dead_letters_new), class_="bad") if row.dead_letters_new else text("0")
        numbers = (row.new, row.gone, row.dead_lettered, row.returned)
        return [name, row.before, row.now, *numbers, dead, row.dead_letters_gone]

    titles = (
        "before",
        "now",
        "new",
        "removed",
        "of these dead-lettered",
        "redelivered",
        "dead letters",
        "redriven or purged",
    )
    columns = [("queue", LEFT), *((name, RIGHT) for name in titles)]
    rows = [line(place(row.queue or "", row.tenant), row) for row in changes.queues]
    return joined(
        table(columns, rows, line(text("all"), changes.all_queues)),
        more(changes.queues_left_out, "queue", " that changed") or Markup(""),
    )


def _instance_changes(changes: Changes) -> Markup:
    if not changes.instances:
        return none("No changes.")

    def line(name: str, row: InstanceChange) -> list[str | int]:
        failed = element("span", number(row.failed), class_="bad") if row.failed else text("0")
        return [name, row.before, row.now, row.new, row.completed, failed, row.cancelled, row.deleted]

    titles = ("before", "now", "started", "completed", "failed", "cancelled", "deleted")
    columns = [("orchestration", LEFT), *((name, RIGHT) for name in titles)]
    rows = [line(row.name or "", row) for row in changes.instances]
    return joined(
        table(columns, rows, line("all", changes.all_instances)),
        more(changes.instances_left_out, "orchestration", " that changed") or Markup(""),
    )


def audited(checks: Sequence[Check], manifest: Manifest) -> Markup:
    def line(check: Check) -> Markup:
        sign = element("b", "✗", class_="bad") if check.wrong else element("b", "✓", class_="good")
        wrong = (
            element("ul", *(element("li", finding, class_="bad") for finding in check.findings))
            if check.wrong
            else None
        )
        left = check.wrong - len(check.findings)
        return element("li", sign, element("span", f"{check.holds}."), wrong, more(left, "finding"))

    problems = [
        (problem["actor_type"] or "no actor", problem["problem"] or "", problem["example"] or "", problem["count"])
        for problem in manifest.problems
    ]
    columns = [("actor type", LEFT), ("problem", SAID), ("for example", LEFT), ("rows", RIGHT)]
    skipped = card(
        "Skipped", "Rows of the store that could not be read, or do not belong to Holdfast.", table(columns, problems)
    )
    return joined(
        element("h2", "Audit", id="audit"),
        card("Consistency checks", None, element("ul", *(line(check) for check in checks), class_="checks")),
        skipped if problems else None,
    )


def foot(manifest: Manifest) -> Markup:
    rows = [(name, extent.rows, size(extent.bytes), extent.files) for name, extent in manifest.tables.items()]
    extents = table([("table", LEFT), ("rows", RIGHT), ("Parquet", RIGHT), ("files", RIGHT)], rows)
    made = f"Made by Holdfast {manifest.holdfast} in {length(manifest.seconds)}; all times are UTC."
    return element(
        "footer",
        element("p", made),
        element("details", element("summary", "The tables of this snapshot"), extents),
    )


def _joined(values: Sequence[float]) -> str:
    return ", ".join(number(value) for value in values[-10:])
