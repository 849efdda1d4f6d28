"""The terminal tables of ``holdfast queue``."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from holdfast.cli.printing import RIGHT, moment, new_table, printable, spoken, value
from holdfast.logs import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType
    from rich.table import Table

    from holdfast.client.api.queues import Answer

_MOST_PRIORITIES = 20


def messages(answer: Answer, *, whole: bool) -> RenderableType:
    """Returns the table of messages from a pop or a peek."""
    with_errors = any("last_error" in message for message in answer["messages"])
    table = new_table()
    table.add_column("id", no_wrap=True)
    table.add_column("priority", justify=RIGHT)
    table.add_column("delivery", justify=RIGHT)
    table.add_column("pushed", no_wrap=True)
    if with_errors:
        table.add_column("last error", overflow="fold")
    table.add_column("item", overflow="fold")
    for item, message in zip(answer["items"], answer["messages"], strict=True):
        errors = [printable(message.get("last_error", ""))] if with_errors else []
        table.add_row(
            message["id"],
            f"{message['priority']:,}",
            # 0 means that a peeked message was never delivered.
            str(message["delivery_count"] or "-"),
            moment(message["enqueued_at"]),
            *errors,
            value(item, whole=whole),
        )
    return table


def locks(shown: Iterable[Answer]) -> RenderableType:
    """Returns the locked messages, grouped by lock."""
    parts: list[RenderableType] = []
    for number, lock in enumerate(shown):
        if number:
            parts.append("")
        count = counted(lock["count"], "item")
        parts.append(Text(f"Lock {lock['lock_id_prefix']}…: {count}, until {moment(lock['expires_at'])}"))
        parts.append(messages(lock, whole=False))
    return Group(*parts)


def queues(shown: Iterable[Answer]) -> RenderableType:
    table = new_table()
    table.add_column("queue", overflow="fold")
    for name in ("waiting", "locked", "dead letters"):
        table.add_column(name, justify=RIGHT)
    for queue in shown:
        if "error" in queue:
            table.add_row(queue["queue"], Text("damaged", style="red"), "-", "-")
            continue
        figures = (queue[key] for key in ("count", "locked", "dead_letters"))
        table.add_row(queue["queue"], *("-" if figure is None else f"{figure:,}" for figure in figures))
    return table


def stats(answer: Answer, rates: Mapping[str, float] | None = None) -> RenderableType:
    """Returns the statistics of one queue, with the rates of its counters if given."""
    overview = new_table()
    overview.add_column("queue", overflow="fold")
    for name in ("waiting", "locked", "delayed", "dead letters", "oldest"):
        overview.add_column(name, justify=RIGHT)
    age = answer["oldest_age_seconds"]
    overview.add_row(
        answer["queue"],
        *(f"{answer[key]:,}" for key in ("count", "locked", "delayed", "dead_letters")),
        "-" if age is None else spoken(age),
    )
    parts: list[RenderableType] = [overview]
    if answer["config"].get("paused"):
        parts.append(Text("Paused: pops get nothing."))
    if len(answer["priorities"]) > 1:
        parts += ["", _priorities(answer["priorities"])]
    if answer["locks"]:
        parts += ["", _lock_table(answer["locks"])]
    parts += ["", _counters(answer["counters"], rates)]
    return Group(*parts)


def config(answer: Answer) -> RenderableType:
    table = new_table()
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    for key, setting in answer.items():
        table.add_row(key, value(setting, whole=True))
    return table


def dead_letters(shown: Iterable[Answer]) -> RenderableType:
    table = new_table()
    for name in ("id", "from", "dead-lettered"):
        table.add_column(name, no_wrap=True)
    table.add_column("attempts", justify=RIGHT)
    for name in ("reason", "last error", "item"):
        table.add_column(name, overflow="fold")
    for letter in shown:
        table.add_row(
            letter["id"],
            f"{letter['original_queue']} {letter['original_id']}",
            moment(letter["dead_lettered_at"]),
            f"{letter['attempts']:,}",
            printable(letter["reason"] or ""),
            printable(letter["last_error"] or ""),
            value(letter["item"]),
        )
    return table


def _priorities(waiting: Mapping[str, int]) -> Table:
    table = new_table()
    table.add_column("priority", justify=RIGHT)
    table.add_column("waiting", justify=RIGHT)
    ordered = sorted((int(priority), count) for priority, count in waiting.items())
    for priority, count in ordered[:_MOST_PRIORITIES]:
        table.add_row(f"{priority:,}", f"{count:,}")
    if rest := ordered[_MOST_PRIORITIES:]:
        table.add_row(f"{len(rest):,} more", f"{sum(count for _, count in rest):,}")
    return table


def _lock_table(shown: Iterable[Answer]) -> Table:
    table = new_table()
    table.add_column("lock", no_wrap=True)
    table.add_column("items", justify=RIGHT)
    table.add_column("until", no_wrap=True)
    table.add_column("left", justify=RIGHT)
    for lock in shown:
        left = datetime.fromisoformat(lock["expires_at"]).timestamp() - time.time()
        until = moment(lock["expires_at"])
        table.add_row(f"{lock['lock_id_prefix']}…", f"{lock['count']:,}", until, spoken(max(0, left)))
    return table


def _counters(counters: Mapping[str, int], rates: Mapping[str, float] | None) -> Table:
    table = new_table()
    table.add_column("counter", no_wrap=True)
    table.add_column("count", justify=RIGHT)
    if rates is not None:
        table.add_column("per second", justify=RIGHT)
    for name, count in counters.items():
        rate = [] if rates is None else [f"{rates.get(name, 0):,.1f}"]
        table.add_row(name.replace("_", " "), f"{count:,}", *rate)
    return table
