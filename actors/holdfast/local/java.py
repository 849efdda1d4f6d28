"""The Java that Spark runs on: found, or installed through the system's package manager where we are root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINIMUM_MAJOR = 17

_INSTALL_SECONDS = 900


@dataclass(frozen=True)
class Java:
    program: Path
    version: str


@dataclass(frozen=True)
class _PackageManager:
    program: str
    install: str
    # Newer systems carry only newer ones.
    packages: tuple[str, ...]
    refresh: str | None = None

    def command(self, package: str) -> str:
        return f"{self.program} {self.install} {package}"


_PACKAGE_MANAGERS = (
    _PackageManager(
        "apt-get", "install -y", ("openjdk-17-jre-headless", "openjdk-21-jre-headless"), refresh="apt-get update"
    ),
    _PackageManager("dnf", "install -y", ("java-17-openjdk-headless", "java-21-openjdk-headless")),
    _PackageManager("apk", "add", ("openjdk17-jre-headless", "openjdk21-jre-headless")),
    _PackageManager("zypper", "--non-interactive install", ("java-17-openjdk-headless", "java-21-openjdk-headless")),
    _PackageManager("pacman", "-Sy --noconfirm", ("jre17-openjdk-headless", "jre21-openjdk-headless")),
    _PackageManager("brew", "install", ("openjdk@17", "openjdk@21")),
)


def ensure_java(progress: Callable[[str], None]) -> Java:
    """Java as Spark needs it. Raises ComponentMissing, with the command that gets it, when it cannot be had."""
    if found := find_java():
        return found
    manager = _package_manager()
    if manager is None or os.geteuid() != 0:
        raise ComponentMissing(f"Java {MINIMUM_MAJOR} or later was not found. {how_to_get_java()}")
    progress(f"installing Java with {manager.program}")
    output = _run(manager.refresh) if manager.refresh else ""
    for package in manager.packages:
        output += _run(manager.command(package))
        if found := find_java():
            return found
    raise ComponentMissing(
        f"Java {MINIMUM_MAJOR} or later was not found, and {manager.program} could not install it:\n{output[-1500:]}"
    )


def find_java() -> Java | None:
    """Java 17 or later, from JAVA_HOME or PATH."""
    for program in _candidates():
        version = _version_of(program)
        if version and int(re.split(r"\D", version)[0]) >= MINIMUM_MAJOR:
            return Java(program, version)
    return None


def how_to_get_java() -> str:
    """The one command that installs it here, as a sentence."""
    manager = _package_manager()
    if manager is None:
        return f"Install Java {MINIMUM_MAJOR} from https://adoptium.net."
    as_root = "" if manager.program == "brew" or os.geteuid() == 0 else "sudo "
    return f"Install it with `{as_root}{manager.command(manager.packages[0])}`."


def _package_manager() -> _PackageManager | None:
    return next((manager for manager in _PACKAGE_MANAGERS if shutil.which(manager.program)), None)


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


def _run(command: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603
            command.split(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command}: {error}\n"
    return answer.stdout
