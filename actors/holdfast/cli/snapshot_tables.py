"""The terminal tables of ``holdfast snapshot``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from holdfast.cli.printing import RIGHT, moment, new_table, printable, spoken
from holdfast.logs import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from holdfast.spark.pipeline.manifest import Manifest

_OF_QUEUES = {
    "before": "before",
    "now": "now",
    "new": "new",
    "gone": "removed",
    "dead_lettered": "dead-lettered",
    "returned": "redelivered",
    "dead_letters_new": "dead letters",
}
_OF_INSTANCES = {
    "before": "before",
    "now": "now",
    "new": "started",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "deleted": "deleted",
}
#: Rows on a terminal; the report shows more.
_TOP = 10


def kept(manifest: Manifest) -> RenderableType:
    table = new_table()
    table.add_column("table")
    table.add_column("rows", justify=RIGHT)
    table.add_column("Parquet", justify=RIGHT)
    for name, extent in manifest.tables.items():
        table.add_row(name, f"{extent.rows:,}", _size(extent.bytes))
    totals = manifest.totals
    summary = (
        f"{counted(totals['waiting'], 'item')} waiting, {totals['locked']:,} locked, {totals['delayed']:,} delayed, "
        f"{counted(totals['dead_letters'], 'dead letter')}; {counted(totals['running'], 'instance')} running, "
        f"{totals['failed']:,} failed"
    )
    return Group(table, "", Text(summary))


def changed(manifest: Manifest) -> RenderableType:
    assert manifest.changes is not None
    assert manifest.against is not None
    changes, since = manifest.changes, manifest.against["as_of"]
    passed = (manifest.as_of - datetime.fromisoformat(since)).total_seconds()
    head = Text(f"\nSince {moment(since)}, {spoken(abs(passed))} {'earlier' if passed >= 0 else 'later'}:")
    shown: list[RenderableType] = [head]
    for what, name, columns in (("queues", "queue", _OF_QUEUES), ("instances", "name", _OF_INSTANCES)):
        if changes[what]:
            left_out = max(0, len(changes[what]) - _TOP) + changes[f"{what}_left_out"]
            rows = [*changes[what][:_TOP], changes[f"all_{what}"] | {name: "all"}]
            shown.append(_table(rows, "queue" if what == "queues" else "orchestration", name, columns))
            if left_out:
                shown.append(Text(f"and {left_out:,} more that changed"))
    if len(shown) == 1:
        shown.append(Text("nothing changed"))
    return Group(*shown)


def _table(rows: Sequence[dict[str, Any]], title: str, name: str, columns: dict[str, str]) -> Table:
    table = new_table()
    table.add_column(title)
    for words in columns.values():
        table.add_column(words, justify=RIGHT)
    for row in rows:
        tenant = row.get("tenant")
        whose = f" ({tenant})" if tenant not in (None, "default") else ""
        table.add_row(printable(f"{row[name] or ''}{whose}"), *(f"{row[key]:,}" for key in columns))
    return table


def _size(count: int) -> str:
    return f"{count / 1024:,.0f} KiB" if count < 10 * 1024 * 1024 else f"{count / 1024 / 1024:,.0f} MiB"
