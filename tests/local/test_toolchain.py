"""Go is the machine's own when it is new enough, else the wheel's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ComponentMissing
from holdfast.local import toolchain

if TYPE_CHECKING:
    from pathlib import Path


def go_that_says(folder: Path, answer: str) -> Path:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("version", ["1.26.5", "1.27", "1.30.1"])
def test_the_one_on_path_is_taken_when_it_is_new_enough(path: Path, version: str) -> None:
    program = go_that_says(path, f"go version go{version} linux/amd64")
    assert toolchain.find_go() == toolchain.Go(program, version)


@pytest.mark.parametrize("answer", ["go version go1.26.4 linux/amd64", "go version go1.9 linux/amd64", "hello"])
def test_an_older_one_gives_way_to_the_wheel(path: Path, answer: str) -> None:
    old = go_that_says(path, answer)
    found = toolchain.find_go()
    assert found.program != old
    assert found.program.parts[-3:] == ("go", "bin", "go")
    assert tuple(int(part) for part in found.version.split(".")) >= toolchain.MINIMUM


def test_without_a_usable_one_the_error_says_what_was_seen_and_how_to_get_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = go_that_says(path, "go version go1.20.1 linux/amd64")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ComponentMissing) as raised:
        toolchain.find_go()
    for part in ("1.26.5", f"{old} is 1.20.1", "pip install 'holdfast[local]'"):
        assert part in str(raised.value)


def test_a_failed_command_says_what_go_said(path: Path) -> None:
    program = path / "go"
    program.write_text('#!/bin/sh\necho first >&2; echo last >&2; echo \'"Error": "no such module"\'; exit 4\n')
    program.chmod(0o755)
    lines: list[str | None] = []
    with pytest.raises(toolchain.GoFailed) as raised:
        toolchain.Go(program, "1.30").run(["mod", "download"], folder=path, on_line=lines.append)
    assert [line for line in lines if line] == ["first", "last"]
    for part in ("`go mod` ended with exit code 4", "last", "no such module"):
        assert part in str(raised.value)
