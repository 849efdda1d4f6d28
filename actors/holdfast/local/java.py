"""Finds Java for Spark, or installs it with the system's package manager as root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.local.packages import Packaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINIMUM_MAJOR = 17


@dataclass(frozen=True)
class Java:
    program: Path
    version: str


def ensure_java(progress: Callable[[str], None]) -> Java:
    """Returns a Java that Spark supports. Raises ComponentMissing, with the install command, if there is none."""
    return _PACKAGED.ensure(progress)


def find_java() -> Java | None:
    """Finds Java 17 or later in JAVA_HOME or on the PATH."""
    for program in _candidates():
        version = _version_of(program)
        if version and int(re.split(r"\D", version)[0]) >= MINIMUM_MAJOR:
            return Java(program, version)
    return None


def how_to_get_java() -> str:
    """Returns a sentence with the command that installs it."""
    return _PACKAGED.how_to_get()


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)


def _version_of(program: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+[^"]*)"', answer.stderr + answer.stdout)
    return match[1] if match else None


_PACKAGED = Packaged(
    name="Java",
    wanted=f"Java {MINIMUM_MAJOR} or later",
    # Newer systems have only the newer package.
    packages={
        "apt-get": ("openjdk-17-jre-headless", "openjdk-21-jre-headless"),
        "dnf": ("java-17-openjdk-headless", "java-21-openjdk-headless"),
        "apk": ("openjdk17-jre-headless", "openjdk21-jre-headless"),
        "zypper": ("java-17-openjdk-headless", "java-21-openjdk-headless"),
        "pacman": ("jre17-openjdk-headless", "jre21-openjdk-headless"),
        "brew": ("openjdk@17", "openjdk@21"),
    },
    find=find_java,
    elsewhere=f"Install Java {MINIMUM_MAJOR} from https://adoptium.net.",
)
