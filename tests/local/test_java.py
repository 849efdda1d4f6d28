"""Java is found, installed where that is allowed, or named with the one command that gets it."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ComponentMissing
from holdfast.local.java import ensure_java, find_java, how_to_get_java

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def script(file: Path, body: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def java(file: Path, version: str) -> Path:
    return script(file, f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25-ea"])
def test_new_enough(path: Path, version: str) -> None:
    program = java(path / "java", version)
    found = find_java()
    assert found is not None
    assert (found.program, found.version) == (program, version)


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "16"])
def test_too_old(path: Path, version: str) -> None:
    java(path / "java", version)
    assert find_java() is None


def test_java_home_comes_first_and_path_is_the_other_chance(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = java(path / "java", "17")
    at_home = java(path / "home" / "bin" / "java", "21")
    monkeypatch.setenv("JAVA_HOME", str(path / "home"))
    assert getattr(find_java(), "program", None) == at_home
    java(at_home, "11")
    assert getattr(find_java(), "program", None) == on_path


def test_not_root_gets_the_one_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    script(path / "apt-get", f"touch {quote(str(path))}/called")
    with pytest.raises(ComponentMissing, match="`sudo apt-get install -y openjdk-17-jre-headless`"):
        ensure_java(lambda _: None)
    assert not (path / "called").exists()


def test_without_a_package_manager_a_place_to_get_it_is_named(path: Path) -> None:
    assert "https://adoptium.net" in how_to_get_java()


def test_root_gets_it_installed_also_where_only_a_newer_one_is_packaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    ready_made = java(path / "ready" / "java", "21.0.1")
    script(
        path / "apt-get",
        f"""
        case "$*" in
            *openjdk-21*) /bin/ln -s {quote(str(ready_made))} {quote(str(path))}/java ;;
            *openjdk-17*) echo "E: no such package"; exit 100 ;;
        esac""",
    )
    told: list[str] = []
    assert ensure_java(told.append).version == "21.0.1"
    assert told == ["installing Java with apt-get"]


def test_root_hears_what_the_package_manager_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    script(path / "dnf", "echo 'no route to mirror'; exit 1")
    with pytest.raises(ComponentMissing, match=r"(?s)dnf could not install it.*no route to mirror"):
        ensure_java(lambda _: None)
