"""Installs programs with the system's package manager as root, or names the command that does."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.errors import ComponentMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Found = TypeVar("Found")

_INSTALL_SECONDS = 900


@dataclass(frozen=True)
class _PackageManager:
    program: str
    install: str
    refresh: str | None = None

    def command(self, package: str) -> str:
        return f"{self.program} {self.install} {package}"


_PACKAGE_MANAGERS = (
    _PackageManager("apt-get", "install -y", refresh="apt-get update"),
    _PackageManager("dnf", "install -y"),
    _PackageManager("apk", "add"),
    _PackageManager("zypper", "--non-interactive install"),
    _PackageManager("pacman", "-Sy --noconfirm"),
    _PackageManager("brew", "install"),
)


@dataclass(frozen=True)
class Packaged(Generic[Found]):
    """A program, and its package names for each package manager, tried in order."""

    name: str
    wanted: str
    packages: Mapping[str, tuple[str, ...]]
    find: Callable[[], Found | None]
    #: How to install it without a known package manager, as a sentence.
    elsewhere: str

    def ensure(self, progress: Callable[[str], None]) -> Found:
        """Finds or installs the program. Raises ComponentMissing, with the install command, if that fails."""
        if found := self.find():
            return found
        manager = _package_manager()
        if manager is None or os.geteuid() != 0:
            raise ComponentMissing(f"{self.wanted} was not found. {self.how_to_get()}")
        progress(f"installing {self.name} with {manager.program}")
        output = _run(manager.refresh) if manager.refresh else ""
        for package in self.packages[manager.program]:
            output += _run(manager.command(package))
            if found := self.find():
                return found
        raise ComponentMissing(
            f"{self.wanted} was not found, and {manager.program} could not install it:\n{output[-1500:]}"
        )

    def how_to_get(self) -> str:
        """Returns a sentence with the command that installs it."""
        manager = _package_manager()
        if manager is None:
            return self.elsewhere
        as_root = "" if manager.program == "brew" or os.geteuid() == 0 else "sudo "
        return f"Install it with `{as_root}{manager.command(self.packages[manager.program][0])}`."


def _package_manager() -> _PackageManager | None:
    return next((manager for manager in _PACKAGE_MANAGERS if shutil.which(manager.program)), None)


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
