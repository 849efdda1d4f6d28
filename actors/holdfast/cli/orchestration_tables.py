"""The terminal tables of ``holdfast orchestration``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from holdfast.cli.printing import RIGHT, moment, new_table, printable, spoken_exactly, value
from holdfast.logs import counted
from holdfast.orchestration.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from holdfast.client.api.orchestrations import Answer


_WAITED_FOR = {
    "activity": "activity",
    "event": "event",
    "mailbox": "mailbox",
    "request": "request",
    "sub": "sub-orchestration",
}


def status(answer: Answer) -> RenderableType:
    table = new_table()
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    parent = answer.get("parent")
    rows = {
        "instance": Text(answer["instance_id"]),
        "orchestration": Text(f"{answer['name']}, version {answer['version']}"),
        "status": Text(answer["status"]),
        "custom status": _unless_none(answer["custom_status"]),
        "tags": _tags(answer.get("tags")),
        "priority": Text(str(answer["priority"])) if answer.get("priority") else None,
        "input": _unless_none(answer["input"]),
        "output": value(answer["output"], whole=True) if answer["status"] == "COMPLETED" else None,
        "error": None if answer["error"] is None else printable(failure(answer["error"])),
        "reason": None if answer.get("reason") is None else printable(answer["reason"]),
        **_blocked(answer.get("blocked")),
        "waits for": Text("\n".join(awaited)) if (awaited := _awaited(answer.get("waiting_for", []))) else None,
        "parent": None if parent is None else Text(parent["instance_id"]),
        "rerun of": _rerun_of(answer.get("rerun_of")),
        "reruns": Text("\n".join(answer["reruns"])) if answer.get("reruns") else None,
        "started": Text(moment(answer["created_at"])),
        "changed": Text(moment(answer["updated_at"])) if answer["ended_at"] is None else None,
        "ended": None if answer["ended_at"] is None else Text(moment(answer["ended_at"])),
        "age" if answer["ended_at"] is None else "took": Text(spoken_exactly(age(answer))),
        "history": Text(f"{counted(answer['events'], 'event')}, execution {answer['execution_id']}"),
    }
    for name, shown in rows.items():
        if shown is not None:
            table.add_row(name, shown)
    return table


def _tags(tags: dict[str, str] | None) -> Text | None:
    return printable(" ".join(f"{key}={value}" for key, value in sorted(tags.items()))) if tags else None


def _awaited(waiting_for: Sequence[Answer]) -> list[str]:
    """Describes each thing that the code awaits."""
    lines = []
    for one in waiting_for:
        what = "a timer" if one["kind"] == "timer" else f"the {_WAITED_FOR[one['kind']]} {one['name']}"
        until = f", due {moment(one['due_at'])}" if "due_at" in one else ""
        lines.append(f"{what}, since {moment(one['since'])}{until}")
    return lines


def _rerun_of(source: Answer | None) -> Text | None:
    if source is None:
        return None
    return Text(f"{source['instance_id']}, execution {source['execution_id']}, from event {source['from_seq']}")


def _blocked(reason: Answer | None) -> dict[str, RenderableType | None]:
    """Returns the rows that say why the deployed code cannot continue an instance."""
    if reason is None:
        return {}
    shown = {name: reason[name] for name in ("expected", "found", "line")}
    return {
        "blocked": printable(reason["message"]),
        "since": Text(moment(reason["since"])),
        **{name: None if text is None else printable(text) for name, text in shown.items()},
    }


def instances(shown: Sequence[Answer]) -> RenderableType:
    waiting = any("waiting_for" in instance for instance in shown)
    table = new_table()
    table.add_column("instance", overflow="fold")
    table.add_column("orchestration", overflow="fold")
    table.add_column("status", no_wrap=True)
    table.add_column("started", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    table.add_column("tags", overflow="fold")
    if waiting:
        table.add_column("waits for", overflow="fold")
    for instance in shown:
        tags = " ".join(f"{key}={value}" for key, value in sorted(instance["tags"].items()))
        ended_at = instance["ended_at"]
        table.add_row(
            instance["instance_id"],
            f"{instance['name']} {instance['version']}",
            instance["status"],
            moment(instance["created_at"]),
            "" if ended_at is None else moment(ended_at),
            printable(tags),
            *([Text("; ".join(_awaited(instance["waiting_for"] or [])))] if waiting else []),
        )
    return table


def counts(answer: Answer) -> RenderableType:
    statuses = [status for status in Status if status in answer["counts"]]
    table = new_table()
    table.add_column("orchestration", overflow="fold")
    for status in statuses:
        table.add_column(status, justify=RIGHT, no_wrap=True)
    for name, numbers in [*answer["by_name"].items(), *([("all", answer["counts"])] if answer["by_name"] else [])]:
        table.add_row(name, *(f"{numbers.get(status, 0):,}" for status in statuses))
    return table


def in_words(answer: Answer) -> str:
    """Describes the status of an instance that has not completed."""
    instance_id, reason = answer["instance_id"], answer.get("reason")
    if answer["error"] is not None:
        return f"{instance_id} failed: {printable(failure(answer['error']))}"
    if answer["status"] == "CANCELLED":
        return f"{instance_id} was cancelled" + (f": {printable(reason)}" if reason else ".")
    if answer["status"] == "BLOCKED":
        return f"{instance_id} has not ended yet: it is BLOCKED. {printable(answer['blocked']['message'])}"
    return f"{instance_id} has not ended yet: it is {answer['status']}."


def failure(error: Answer) -> str:
    kind = "" if error["kind"] == "error" else f" ({error['kind'].replace('_', '-')})"
    return f"{error['type']}: {error['message']}{kind}" if error["message"] else f"{error['type']}{kind}"


def age(answer: Answer) -> float:
    """Returns the seconds from the start of an instance to its end, or to now."""
    ended_at = answer["ended_at"]
    until = datetime.now(UTC) if ended_at is None else datetime.fromisoformat(ended_at)
    return max(0.0, (until - datetime.fromisoformat(answer["created_at"])).total_seconds())


def _unless_none(shown: object) -> Text | None:
    return None if shown is None else value(shown)
