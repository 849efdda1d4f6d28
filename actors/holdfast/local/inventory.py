"""Lists the components Holdfast can use: those found on this machine, and how to get the others."""

from __future__ import annotations

import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import holdfast
from holdfast.errors import ComponentMissing
from holdfast.local import binaries, chromium, java, postgres, toolchain

if TYPE_CHECKING:
    from collections.abc import Callable

Purpose = Literal["embedded", "dapr", "build", "postgresql", "spark", "page", "tilt", "deploy"]

_VERSION_SECONDS = 20


@dataclass(frozen=True)
class Finding:
    """One component: where it is, or how to get it."""

    name: str
    needed_for: Purpose
    wanted: str
    found: bool
    version: str | None = None
    where: str | None = None
    how_to_get: str | None = None


def take_inventory() -> list[Finding]:
    """Looks for every component. Takes a second or two, since it runs programs to get their versions."""
    return [look() for look in _LOOKS]


def _python() -> Finding:
    return Finding("Python", "embedded", "3.11 or later", True, platform.python_version(), sys.executable)


def _holdfast() -> Finding:
    return Finding("Holdfast", "embedded", "", True, holdfast.__version__, str(Path(holdfast.__file__).parent))


def _sqlite() -> Finding:
    return Finding("SQLite", "embedded", "", True, sqlite3.sqlite_version, "part of Python")


def _dapr(name: str) -> Callable[[], Finding]:
    def look() -> Finding:
        wanted = binaries.DAPR_VERSION
        if path := binaries.find_binary(name):
            return Finding(name, "dapr", wanted, True, wanted, str(path))
        others = binaries.find_other_versions(name)
        seen = "".join(f" ({path} is {version})" for path, version in others.items())
        return Finding(name, "dapr", wanted, False, how_to_get=f"{binaries.how_to_get_dapr()}{seen}")

    return look


def _go() -> Finding:
    wanted = f"{'.'.join(str(part) for part in toolchain.MINIMUM)} or later"
    try:
        go = toolchain.find_go()
    except ComponentMissing as error:
        return Finding("Go", "build", wanted, False, how_to_get=str(error))
    return Finding("Go", "build", wanted, True, go.version, str(go.program))


def _postgres() -> Finding:
    wanted = f"{postgres.MINIMUM_MAJOR} or later"
    try:
        found = postgres.find_postgres()
    except ComponentMissing as error:
        return Finding("PostgreSQL", "postgresql", wanted, False, how_to_get=str(error))
    return Finding("PostgreSQL", "postgresql", wanted, True, found.version, str(found.folder))


def _java() -> Finding:
    wanted = f"{java.MINIMUM_MAJOR} or later"
    if found := java.find_java():
        return Finding("Java", "spark", wanted, True, found.version, str(found.program))
    return Finding("Java", "spark", wanted, False, how_to_get=java.how_to_get_java())


def _chromium() -> Finding:
    if found := chromium.find_chromium():
        return Finding("Chromium", "page", "", True, found.version, str(found.program))
    return Finding("Chromium", "page", "", False, how_to_get=chromium.how_to_get_chromium())


def _program(name: str, needed_for: Purpose, how_to_get: str, *arguments: str) -> Callable[[], Finding]:
    def look() -> Finding:
        if path := shutil.which(name):
            return Finding(name, needed_for, "", True, _version(path, *arguments), path)
        return Finding(name, needed_for, "", False, how_to_get=how_to_get)

    return look


def _version(program: str, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603
            [program, *arguments], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+(?:\.\d+)+", answer.stdout)
    return match[0] if match else None


_LOOKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _holdfast,
    _sqlite,
    _dapr("daprd"),
    _dapr("placement"),
    _dapr("scheduler"),
    _go,
    _postgres,
    _java,
    _chromium,
    _program("tilt", "tilt", "Install it as https://docs.tilt.dev/install.html says.", "version"),
    _program(
        "kubectl",
        "deploy",
        "Install it as https://kubernetes.io/docs/tasks/tools says.",
        "version",
        "--client",
    ),
)
