"""A segment as it is stored, ``{"lines": "…", "at": […]}``: payloads as lines of one text, and when each was pushed.

JSON as Holdfast writes it has no line breaks. So whoever reads millions of payloads has to look at none of them, and
one text is written and read faster than a hundred. What else is known of an item lies under its number in ``more``;
where the time is missing, all of it does: of one that lies elsewhere, of a gap, of what does not fit into a line.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.errors import StorageBroken

#: What lies at one place of a segment; None for a gap.
Entry: TypeAlias = "dict[str, Any] | None"

BREAK = "\n"


def packed(entries: list[Entry]) -> dict[str, Any]:
    lines: list[str] = []
    moments: list[float | None] = []
    more: dict[str, Entry] = {}
    for number, entry in enumerate(entries):
        if entry is None or "item" not in entry or BREAK in entry["item"]:
            lines.append("")
            moments.append(None)
            more[str(number)] = entry
            continue
        lines.append(entry["item"])
        moments.append(entry["at"])
        if len(entry) > 2:
            more[str(number)] = {key: value for key, value in entry.items() if key not in ("item", "at")}
    value: dict[str, Any] = {"lines": BREAK.join(lines), "at": moments}
    return value | {"more": more} if more else value


def unpacked(value: dict[str, Any]) -> list[Entry]:
    moments = value["at"]
    entries: list[Entry] = [{"item": line, "at": moment} for line, moment in zip(split(value), moments, strict=True)]
    for number, rest in value.get("more", {}).items():
        place = int(number)
        entries[place] = rest if moments[place] is None else {**(entries[place] or {}), **rest}
    return entries


def split(value: dict[str, Any]) -> list[str]:
    """Its lines, one for each time."""
    lines: list[str] = value["lines"].split(BREAK)
    if len(lines) != len(value["at"]):
        raise StorageBroken(f"A segment has {len(lines)} lines, and {len(value['at'])} times.")
    return lines
