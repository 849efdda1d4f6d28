"""Chromium is found, installed where that is allowed, or named with the one command that gets it."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ComponentMissing
from holdfast.local.chromium import ensure_chromium, find_chromium

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("holdfast.local.chromium._MAC_APPLICATIONS", ())
    return tmp_path


def script(file: Path, body: str) -> Path:
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("name", "answer"),
    [("chromium", "Chromium 140.0.7339.80 built on Debian"), ("google-chrome", "Google Chrome 141.0")],
)
def test_any_of_the_family_will_do(path: Path, name: str, answer: str) -> None:
    program = script(path / name, f"echo '{answer}'")
    found = find_chromium()
    assert found is not None
    assert found.program == program
    assert found.version in answer


def test_one_that_only_says_how_to_install_it_is_passed_over(path: Path) -> None:
    script(path / "chromium-browser", "echo 'Command requires the chromium snap 2.0 to be installed.'; exit 1")
    assert find_chromium() is None
    script(path / "google-chrome", "echo 'Google Chrome 141.0'")
    assert getattr(find_chromium(), "version", None) == "141.0"


def test_not_root_gets_the_one_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    script(path / "apt-get", f"touch {quote(str(path))}/called")
    with pytest.raises(ComponentMissing, match="`sudo apt-get install -y chromium`"):
        ensure_chromium(lambda _: None)
    assert not (path / "called").exists()


def test_root_gets_it_installed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    ready_made = script(path / "ready", "echo 'Chromium 140.0'")
    script(
        path / "dnf",
        f'test "$*" = "install -y chromium" && /bin/ln -s {quote(str(ready_made))} {quote(str(path))}/chromium',
    )
    told: list[str] = []
    assert ensure_chromium(told.append).version == "140.0"
    assert told == ["installing Chromium with dnf"]
