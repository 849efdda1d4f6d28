"""Finds Chromium for the tests of the page, or installs it with the system's package manager as root."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.local.packages import Packaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# On macOS these are not on the PATH.
_MAC_APPLICATIONS = ("Chromium", "Google Chrome")
# The first start after an installation reads the whole program from disk.
_VERSION_SECONDS = 60


@dataclass(frozen=True)
class Chromium:
    program: Path
    version: str


def ensure_chromium(progress: Callable[[str], None]) -> Chromium:
    """Returns Chromium or Chrome. Raises ComponentMissing, with the install command, if there is none."""
    return _PACKAGED.ensure(progress)


def find_chromium() -> Chromium | None:
    """Returns one that starts: Ubuntu's `chromium-browser` may only print how to install it."""
    for program in _candidates():
        if version := _version_of(program):
            return Chromium(program, version)
    return None


def how_to_get_chromium() -> str:
    """Returns a sentence with the command that installs it."""
    return _PACKAGED.how_to_get()


def _candidates() -> Iterator[Path]:
    for name in _PROGRAMS:
        if on_path := shutil.which(name):
            yield Path(on_path)
    for name in _MAC_APPLICATIONS:
        yield Path(f"/Applications/{name}.app/Contents/MacOS/{name}")


def _version_of(program: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+(?:\.\d+)+", answer.stdout)
    return match[0] if match and answer.returncode == 0 else None


_PACKAGED = Packaged(
    name="Chromium",
    wanted="Chromium",
    packages={
        "apt-get": ("chromium", "chromium-browser"),
        "dnf": ("chromium",),
        "apk": ("chromium",),
        "zypper": ("chromium",),
        "pacman": ("chromium",),
        "brew": ("--cask chromium",),
    },
    find=find_chromium,
    elsewhere="Install Chromium or Google Chrome, so that `chromium` or `google-chrome` is on the PATH.",
)
