"""Renders the report's section on queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.spark.report import charts
from holdfast.spark.report.charts import Part
from holdfast.spark.report.format import counted, cut, length, moment, number, share, short_moment
from holdfast.spark.report.html import Markup, element, joined, text
from holdfast.spark.report.tables import LEFT, RIGHT, SAID, bars, card, more, none, place, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.spark.statistics import Figures
    from holdfast.spark.statistics.buckets import Bucket
    from holdfast.spark.statistics.queues import DeadLetterFigures, LockFigures, QueueDepth, QueueFigures

_SOON = 15.0


def section(figures: Figures) -> Markup:
    return joined(
        element("h2", "Queues", id="queues"),
        _depth(figures.queues),
        element("div", _ages(figures.queues), _states(figures.queues), class_="two"),
        element("div", _locks(figures.locks), _returns(figures.queues), class_="two"),
        _reasons(figures.dead_letters),
        _newest(figures.dead_letters),
    )


def _depth(queues: QueueFigures) -> Markup:
    if not queues.deepest:
        return card("Depth by queue and priority", None, none(f"All {counted(queues.queues, 'queue')} are empty."))
    most = max(queue.stored for queue in queues.deepest)
    order = sorted({priority for queue in queues.deepest for priority, _ in queue.priorities if priority is not None})
    kinds: dict[int | None, str] = {priority: f"p{min(rank, 7)}" for rank, priority in enumerate(order)}
    kinds[None] = "p7"

    def parts(queue: QueueDepth) -> list[Part]:
        return [
            Part(count, kinds[priority], f"{queue.queue}: {counted(count, 'item')} of {_priority(priority)}")
            for priority, count in queue.priorities
        ]

    rows = [
        (
            joined(place(queue.queue, queue.tenant), _age(queue)),
            charts.bar(parts(queue), most),
            number(queue.stored),
        )
        for queue in queues.deepest
    ]
    keys = [(kinds[priority], _priority(priority)) for priority in order[:7]]
    if len(order) > 7 or any(priority is None for queue in queues.deepest for priority, _ in queue.priorities):
        keys.append(("p7", "later priorities"))
    return card(
        "Depth by queue and priority",
        "All stored items, including locked and delayed ones; the lowest priority number is delivered first.",
        bars(rows),
        more(queues.not_empty - len(queues.deepest), "queue"),
        charts.legend(*keys),
    )


def _states(queues: QueueFigures) -> Markup:
    if not queues.deepest:
        return card("Waiting, delayed, locked", None, none("No items are stored."))
    rows = [
        (
            place(queue.queue, queue.tenant),
            queue.waiting,
            queue.delayed,
            queue.locked,
            length(queue.oldest_seconds),
        )
        for queue in queues.deepest
    ]
    total = ("all", queues.waiting, queues.delayed, queues.locked, length(queues.oldest_seconds))
    columns = [("queue", LEFT), ("waiting", RIGHT), ("delayed", RIGHT), ("locked", RIGHT), ("oldest waiting", RIGHT)]
    return card(
        "Waiting, delayed, locked",
        None,
        table(columns, rows, total),
        more(queues.not_empty - len(queues.deepest), "queue"),
    )


def _ages(queues: QueueFigures) -> Markup:
    if not queues.waiting:
        return card("How long items have been waiting", None, none("No items are waiting."))
    caption = [f"{counted(bucket.count, 'item')}: {_range(bucket)}" for bucket in queues.ages]
    plot = _histogram(queues.ages, caption, ["waiting"] * len(queues.ages), "How long items have been waiting")
    return card("How long items have been waiting", "Each column counts waits up to the time below it.", plot)


def _locks(locks: LockFigures) -> Markup:
    if not locks.locks:
        return card("Locks about to expire", None, none("No items are locked."))
    kinds = ["failed", "failed", "locked", *["waiting"] * (len(locks.expires_in) - 3)]
    caption = [f"{counted(bucket.count, 'lock')}, time left: {_range(bucket)}" for bucket in locks.expires_in]
    rows = [
        (
            place(lock.queue, lock.tenant),
            element("code", f"{lock.prefix}…"),
            lock.count,
            _left(lock.expires_in),
        )
        for lock in locks.soonest
    ]
    columns = [("queue", LEFT), ("lock", LEFT), ("items", RIGHT), ("expires in", RIGHT)]
    return card(
        "Locks about to expire",
        f"{counted(locks.locks, 'lock')} on {counted(locks.items, 'item')}. Items whose lock expires are redelivered.",
        _histogram(locks.expires_in, caption, kinds, "Locks by the time they have left"),
        table(columns, rows),
        more(locks.locks - len(locks.soonest), "lock"),
    )


def _returns(queues: QueueFigures) -> Markup:
    stored = queues.waiting + queues.delayed + queues.locked
    if not queues.returned:
        return card("Redeliveries", None, none("No stored item was redelivered."))
    after_first = queues.returns[1:]
    caption = [f"{counted(bucket.count, 'item')} redelivered {_times(bucket.label)}" for bucket in after_first]
    kinds = ["waiting", "locked", "locked", "locked", "failed", "failed"]
    rows = [
        (place(queue.queue, queue.tenant), queue.returned, share(queue.returned, queue.stored), queue.most_deliveries)
        for queue in queues.retried
    ]
    columns = [("queue", LEFT), ("redelivered", RIGHT), ("of its items", RIGHT), ("most deliveries", RIGHT)]
    return card(
        "Redeliveries",
        f"{counted(queues.returned, 'item')} of {number(stored)} were redelivered, this many times:",
        _histogram(after_first, caption, kinds, "Items by number of redeliveries"),
        table(columns, rows),
    )


def _reasons(letters: DeadLetterFigures) -> Markup:
    if not letters.letters:
        return card("Dead letters by reason", None, none("There are none."))
    most = max(reason.count for reason in letters.by_reason)
    rows = []
    for reason in letters.by_reason:
        source = (
            reason.queue if reason.queues == 1 else f"{reason.queue} and {counted(reason.queues - 1, 'other queue')}"
        )
        latest = "" if reason.newest_at is None else f"; the latest {short_moment(reason.newest_at)}"
        mostly = f", mostly after {cut(reason.last_error, 90)}" if reason.last_error else ""
        name = joined(text(cut(reason.reason, 90)), element("small", f" from {source}{mostly}"))
        caption = f"{counted(reason.count, 'dead letter')} from {source}{latest}: {reason.reason}"
        rows.append((name, charts.bar([Part(reason.count, "failed", caption)], most), number(reason.count)))
    return card(
        "Dead letters by reason",
        f"{counted(letters.letters, 'dead letter')}.",
        bars(rows, "wide"),
        more(letters.reasons - len(letters.by_reason), "reason"),
    )


def _newest(letters: DeadLetterFigures) -> Markup:
    if not letters.newest:
        return card("Latest dead letters", None, none("There are none."))
    rows = []
    for letter in letters.newest:
        tried = "" if letter.attempts is None else f", {counted(letter.attempts, 'attempt')}"
        head = element("div", place(letter.queue, letter.tenant), element("span", tried, class_="quiet"))
        error = element("div", cut(letter.last_error), class_="bad") if letter.last_error else None
        when = "-" if letter.at is None else element("span", short_moment(letter.at), title=moment(letter.at))
        rows.append((when, joined(head, element("code", cut(letter.item, 120)), error)))
    columns = [("when, UTC", LEFT), ("queue, item and last error", SAID)]
    return card(
        "Latest dead letters",
        None,
        table(columns, rows),
        more(letters.letters - len(letters.newest), "dead letter"),
    )


def _histogram(buckets: Sequence[Bucket], caption: Sequence[str], kinds: Sequence[str], name: str) -> Markup:
    labels = [bucket.label for bucket in buckets]
    return charts.columns(labels, [bucket.count for bucket in buckets], caption, kinds, name)


def _range(bucket: Bucket) -> str:
    return (
        bucket.caption if " to " in bucket.caption or bucket.caption in ("more", "past") else f"up to {bucket.caption}"
    )


def _times(label: str) -> str:
    return {"1": "once", "2": "twice"}.get(label, f"{label} times")


def _priority(priority: int | None) -> str:
    return "later priorities" if priority is None else f"priority {priority}"


def _age(queue: QueueDepth) -> Markup | None:
    if queue.oldest_seconds is None:
        return None
    return element("small", f"oldest {length(queue.oldest_seconds)}")


def _left(seconds: float) -> Markup:
    words = f"{length(-seconds)} ago" if seconds < 0 else length(seconds)
    return element("span", words, class_="bad" if seconds < 0 else "warn" if seconds < _SOON else None)
