"""Queues as people read them: tables."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType

    from holdfast.client.calls import Answer

# What is only looked at may be cut; what was taken for good is shown whole.
_CUT_AT = 200
_MOST_PRIORITIES = 20

RIGHT: Any = "right"


def console() -> Console:
    made = Console(highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        # Nobody's window limits it: a row stays a line, for grep.
        made.width = 10_000
    return made


def messages(answer: Answer, *, whole: bool) -> RenderableType:
    """What a pop or a peek gave."""
    told = any("last_error" in message for message in answer["messages"])
    table = _table()
    table.add_column("id", no_wrap=True)
    table.add_column("priority", justify=RIGHT)
    table.add_column("delivery", justify=RIGHT)
    table.add_column("pushed", no_wrap=True)
    if told:
        table.add_column("last error", overflow="fold")
    table.add_column("item", overflow="fold")
    for item, message in zip(answer["items"], answer["messages"], strict=True):
        errors = [_printable(message.get("last_error", ""))] if told else []
        table.add_row(
            message["id"],
            f"{message['priority']:,}",
            # One that was never delivered would be delivered for the first time.
            str(message["delivery_count"] or "-"),
            _moment(message["enqueued_at"]),
            *errors,
            _item(item, whole=whole),
        )
    return table


def locks(shown: Iterable[Answer]) -> RenderableType:
    """What is locked, lock by lock."""
    parts: list[RenderableType] = []
    for number, lock in enumerate(shown):
        if number:
            parts.append("")
        count = counted(lock["count"], "item")
        parts.append(Text(f"Lock {lock['lock_id_prefix']}…: {count}, until {_moment(lock['expires_at'])}"))
        parts.append(messages(lock, whole=False))
    return Group(*parts)


def queues(shown: Iterable[Answer]) -> RenderableType:
    table = _table()
    table.add_column("queue", overflow="fold")
    for name in ("waiting", "locked", "dead letters"):
        table.add_column(name, justify=RIGHT)
    for queue in shown:
        table.add_row(queue["queue"], *(f"{queue[key]:,}" for key in ("count", "locked", "dead_letters")))
    return table


def stats(answer: Answer, rates: Mapping[str, float] | None = None) -> RenderableType:
    """One queue, and how fast its counters grow where that is known."""
    overview = _table()
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
    if len(answer["priorities"]) > 1:
        parts += ["", _priorities(answer["priorities"])]
    if answer["locks"]:
        parts += ["", _lock_table(answer["locks"])]
    parts += ["", _counters(answer["counters"], rates)]
    return Group(*parts)


def config(answer: Answer) -> RenderableType:
    table = _table()
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    for key, value in answer.items():
        table.add_row(key, _printable(json.dumps(value, ensure_ascii=False)))
    return table


def dead_letters(shown: Iterable[Answer]) -> RenderableType:
    table = _table()
    for name in ("id", "from", "given up"):
        table.add_column(name, no_wrap=True)
    table.add_column("attempts", justify=RIGHT)
    for name in ("reason", "last error", "item"):
        table.add_column(name, overflow="fold")
    for letter in shown:
        table.add_row(
            letter["id"],
            f"{letter['original_queue']} {letter['original_id']}",
            _moment(letter["dead_lettered_at"]),
            f"{letter['attempts']:,}",
            _printable(letter["reason"] or ""),
            _printable(letter["last_error"] or ""),
            _item(letter["item"], whole=False),
        )
    return table


def spoken(seconds: float) -> str:
    """A length of time, in the two units that matter."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hours} h {minute} min"
    return f"{minutes} min {second} s" if minutes else f"{second} s"


def _priorities(waiting: Mapping[str, int]) -> Table:
    table = _table()
    table.add_column("priority", justify=RIGHT)
    table.add_column("waiting", justify=RIGHT)
    ordered = sorted((int(priority), count) for priority, count in waiting.items())
    for priority, count in ordered[:_MOST_PRIORITIES]:
        table.add_row(f"{priority:,}", f"{count:,}")
    if rest := ordered[_MOST_PRIORITIES:]:
        table.add_row(f"{len(rest):,} more", f"{sum(count for _, count in rest):,}")
    return table


def _lock_table(shown: Iterable[Answer]) -> Table:
    table = _table()
    table.add_column("lock", no_wrap=True)
    table.add_column("items", justify=RIGHT)
    table.add_column("until", no_wrap=True)
    table.add_column("left", justify=RIGHT)
    for lock in shown:
        left = datetime.fromisoformat(lock["expires_at"]).timestamp() - time.time()
        moment = _moment(lock["expires_at"])
        table.add_row(f"{lock['lock_id_prefix']}…", f"{lock['count']:,}", moment, spoken(max(0, left)))
    return table


def _counters(counters: Mapping[str, int], rates: Mapping[str, float] | None) -> Table:
    table = _table()
    table.add_column("since its start", no_wrap=True)
    table.add_column("count", justify=RIGHT)
    if rates is not None:
        table.add_column("a second", justify=RIGHT)
    for name, count in counters.items():
        rate = [] if rates is None else [f"{rates.get(name, 0):,.1f}"]
        table.add_row(name.replace("_", " "), f"{count:,}", *rate)
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def _item(item: Any, *, whole: bool) -> Text:
    text = json.dumps(item, ensure_ascii=False)
    if not whole and len(text) > _CUT_AT:
        text = text[:_CUT_AT] + "…"
    return _printable(text)


def _printable(text: str) -> Text:
    """Nobody's payload may steer the terminal."""
    return Text("".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text))


def _moment(iso: str) -> str:
    """On the reader's own clock."""
    moment = datetime.fromisoformat(iso).astimezone()
    today = datetime.now(UTC).astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
