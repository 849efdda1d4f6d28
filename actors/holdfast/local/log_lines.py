"""Shortens log lines of Dapr, etcd and PostgreSQL to level and text."""

from __future__ import annotations

import json
import re

LEVELS = ("debug", "info", "warn", "error")

_DAPR = re.compile(r'\blevel=(?P<level>\w+) msg=(?P<text>"(?:[^"\\]|\\.)*"|\S+)')
_POSTGRESQL = re.compile(r"^\S+ \S+ \S+ \[\d+\] (?P<level>[A-Z]+):\s+(?P<text>.*)$")
_NAMES = {
    "warning": "warn",
    "fatal": "error",
    "panic": "error",
    # PostgreSQL's LOG level is for administrators and used at every start and stop.
    "log": "info",
    "notice": "info",
    "hint": "info",
    "detail": "info",
    "statement": "info",
}


def shorten(line: str) -> tuple[str, str]:
    """Returns the level of a line, one of LEVELS, and its text. A line without a level is info, unchanged."""
    if line.startswith("{"):
        return _from_etcd(line)
    for form in (_DAPR, _POSTGRESQL):
        if match := form.search(line):
            text = match["text"]
            return _level(match["level"]), json.loads(text) if text.startswith('"') else text
    return "info", line


def _from_etcd(line: str) -> tuple[str, str]:
    try:
        entry = json.loads(line)
    except ValueError:
        return "info", line
    text = entry.get("msg", line)
    return _level(str(entry.get("level", "info"))), f"{text}: {entry['error']}" if "error" in entry else str(text)


def _level(name: str) -> str:
    name = name.lower()
    known = _NAMES.get(name, name)
    return known if known in LEVELS else "info"
