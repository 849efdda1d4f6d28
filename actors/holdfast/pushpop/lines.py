"""A segment as it is stored, ``{"lines": "…", "at": …}``: payloads as lines of one text, and when they were pushed.

JSON as Holdfast writes it has no line breaks. So whoever reads millions of payloads has to look at none of them, and
one text is written and read faster than a hundred. The time is one where all have the same, and else a list. What more
is known of an item lies under its number in ``more``; where it has no time, all of it does: of one that lies elsewhere,
of a gap, of what does not fit into a line.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.errors import StorageBroken

#: What lies at one place of a segment; None for a gap.
Entry: TypeAlias = "dict[str, Any] | None"

BREAK = "\n"


def packed(entries: list[Entry]) -> dict[str, Any]:
    lines: list[str] = []
    times: list[float | None] = []
    more: dict[str, Entry] = {}
    for number, entry in enumerate(entries):
        if entry is None or "item" not in entry or entry["at"] is None or BREAK in entry["item"]:
            lines.append("")
            times.append(None)
            more[str(number)] = entry
            continue
        lines.append(entry["item"])
        times.append(entry["at"])
        if len(entry) > 2:
            more[str(number)] = {key: value for key, value in entry.items() if key not in ("item", "at")}
    [same, *others] = dict.fromkeys(times)
    value: dict[str, Any] = {"lines": BREAK.join(lines), "at": times if others or same is None else same}
    return value | {"more": more} if more else value


def unpacked(value: dict[str, Any]) -> list[Entry]:
    lines, times = split(value)
    entries: list[Any] = [{"item": line, "at": time} for line, time in zip(lines, times, strict=True)]
    more: dict[str, Any] = value.get("more", {})
    if more or None in times:
        known = 0
        for number, time in enumerate(times):
            if (key := str(number)) in more:
                entries[number] = more[key] if time is None else entries[number] | more[key]
                known += 1
            elif time is None:
                raise StorageBroken(f"A segment has no time for item {number}.")
        if known != len(more):
            raise StorageBroken("A segment knows more of items than it has.")
    return entries


def split(value: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """The lines, and a time for each."""
    lines: list[str] = value["lines"].split(BREAK)
    times = value["at"] if isinstance(value["at"], list) else [value["at"]] * len(lines)
    if len(lines) != len(times):
        raise StorageBroken(f"A segment has {len(lines)} lines, and {len(times)} times.")
    return lines, times
