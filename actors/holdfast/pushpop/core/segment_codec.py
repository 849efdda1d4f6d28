"""The stored form of a segment, ``{"lines": "…", "at": …}``: payloads as lines of one text, and their push times.

JSON as Holdfast writes it has no line breaks, so payloads can be read in bulk without parsing, and one text is written
and read faster than a hundred. ``at`` is one time if all items have the same, else a list. Further fields of an item
are under its number in ``more``. An entry without a time is entirely in ``more``: a reference to a delayed item, a gap,
or an item that does not fit into a line.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.errors import StorageBroken

#: An entry of a segment; None for a gap.
Entry: TypeAlias = "dict[str, Any] | None"

BREAK = "\n"


def encode(entries: list[Entry]) -> dict[str, Any]:
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


def decode(value: dict[str, Any]) -> list[Entry]:
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
            raise StorageBroken("A segment has fields of items that it does not have.")
    return entries


def split(value: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Returns the lines, and a time for each."""
    lines: list[str] = value["lines"].split(BREAK)
    times = value["at"] if isinstance(value["at"], list) else [value["at"]] * len(lines)
    if len(lines) != len(times):
        raise StorageBroken(f"A segment has {len(lines)} lines, and {len(times)} times.")
    return lines, times
