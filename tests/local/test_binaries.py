"""Dapr's programs are taken only when their version fits, and a build is whole or not there."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import textwrap
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ComponentMissing
from holdfast.local.binaries import (
    DAPR_VERSION,
    cache_folder,
    ensure_dapr,
    find_binary,
    find_dapr,
    find_other_versions,
    version_of,
)

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("daprd", "placement", "scheduler")


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a PATH of one empty folder and an empty home."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path


def program(path: Path, version: str | None) -> Path:
    """A file that looks as one that Go linked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stamp = f'build\t-ldflags="-s -w -X github.com/dapr/dapr/pkg/buildinfo.version={version} -X other=9"'
    path.write_bytes(b"\x7fELF" + bytes(5000) + (stamp.encode() if version else b"") + bytes(100))
    path.chmod(0o755)
    return path


def fake_go(machine: Path, build: str) -> Path:
    """A `go` that answers as the real one, and does `build` with $out and $version where it would build."""
    script = machine / "bin" / "go"
    script.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/sh
            PATH=/usr/bin:/bin
            case "$1" in
                version) echo "go version go1.26.5 linux/amd64"; exit 0 ;;
                mod) echo '{{"Dir": "{machine}"}}'; exit 0 ;;
            esac
            echo built >> {quote(str(machine))}/builds
            while [ "$1" != "-o" ]; do shift; done
            out="$2"
            mkdir -p "$out"
            put() {{
                printf 'github.com/dapr/dapr/pkg/buildinfo.version=%s ' "$2" > "$out/$1"
                chmod +x "$out/$1"
            }}
            """
        )
        + textwrap.dedent(build)
    )
    script.chmod(0o755)
    return script


GOOD_BUILD = f"for name in daprd placement scheduler; do put $name {DAPR_VERSION}; done"


@pytest.mark.parametrize("version", ["1.18.2", "1.19.0-rc.1", "edge", None])
def test_the_version_is_read_from_the_program(tmp_path: Path, version: str | None) -> None:
    expected = None if version == "edge" else version
    assert version_of(program(tmp_path / "daprd", version)) == expected


def test_what_is_no_program_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "empty").touch(mode=0o755)
    plain = program(tmp_path / "plain", "1.18.2")
    plain.chmod(0o644)
    assert [version_of(tmp_path / name) for name in ("empty", "plain", "absent", ".")] == [None] * 4


def test_a_folder_that_this_user_may_not_enter_has_no_program(tmp_path: Path) -> None:
    hidden = program(tmp_path / "private" / "daprd", "1.18.2")
    hidden.parent.chmod(0o000)
    user = os.geteuid()
    if user == 0:
        # Root may enter every folder.
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        assert version_of(hidden) is None
    finally:
        os.seteuid(user)
        hidden.parent.chmod(0o700)


def test_path_comes_before_the_cli_and_the_cli_before_the_cache(empty_machine: Path) -> None:
    cached = program(cache_folder() / "daprd", DAPR_VERSION)
    assert find_binary("daprd") == cached
    from_cli = program(empty_machine / "home" / ".dapr" / "bin" / "daprd", DAPR_VERSION)
    assert find_binary("daprd") == from_cli
    on_path = program(empty_machine / "bin" / "daprd", DAPR_VERSION)
    assert find_binary("daprd") == on_path


def test_another_version_is_passed_over(empty_machine: Path) -> None:
    old = program(empty_machine / "bin" / "daprd", "1.17.0")
    cached = program(cache_folder() / "daprd", DAPR_VERSION)
    assert find_binary("daprd") == cached
    assert find_other_versions("daprd") == {old: "1.17.0"}


def test_the_cache_folder_is_where_the_desktop_standard_says(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder("1.2.3") == empty_machine / "home" / ".cache" / "holdfast" / "dapr" / "1.2.3"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert str(cache_folder("1.2.3")) == "/elsewhere/holdfast/dapr/1.2.3"


def test_a_cache_that_cannot_be_written_is_one_sentence(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file in its place, because permissions do not stop root.
    (empty_machine / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(empty_machine / "file"))
    with pytest.raises(ComponentMissing, match=r"cannot be built into .*: Not a directory\. Set XDG_CACHE_HOME"):
        ensure_dapr(lambda _: None)


def test_a_user_without_a_home_folder_is_told_what_to_set(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    assert find_binary("daprd") is None
    assert find_other_versions("daprd") == {}
    with pytest.raises(ComponentMissing, match=r"no home folder to build Dapr in\. Set XDG_CACHE_HOME"):
        ensure_dapr(lambda _: None)
    on_path = program(empty_machine / "bin" / "daprd", DAPR_VERSION)
    assert find_binary("daprd") == on_path


def test_what_is_missing_is_named_with_how_to_get_it(empty_machine: Path) -> None:
    program(empty_machine / "bin" / "daprd", DAPR_VERSION)
    with pytest.raises(
        ComponentMissing, match=r"placement, scheduler missing.*dapr init --slim.*holdfast\.local ensure"
    ):
        find_dapr()


def test_a_build_is_kept_and_not_repeated(empty_machine: Path) -> None:
    fake_go(empty_machine, GOOD_BUILD)
    told: list[str] = []
    first = ensure_dapr(told.append)
    assert first.scheduler == cache_folder() / "scheduler"
    assert any("building" in line for line in told)
    assert ensure_dapr(told.append) == first == find_dapr()
    assert (empty_machine / "builds").read_text() == "built\n"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ("put daprd 1.18.2; echo 'cannot find module x' >&2; exit 1", "cannot find module x"),
        ("put daprd 1.18.2; put placement 1.18.2", "did not give a usable scheduler"),
        ("for name in daprd placement scheduler; do put $name edge; done", "usable daprd, placement, scheduler"),
    ],
)
def test_a_broken_build_leaves_nothing_behind(empty_machine: Path, build: str, said: str) -> None:
    fake_go(empty_machine, build)
    with pytest.raises(ComponentMissing, match=said) as raised:
        ensure_dapr(lambda _: None)
    assert "dapr init --slim" in str(raised.value)
    assert [path.name for path in cache_folder().parent.iterdir()] == [f".{DAPR_VERSION}.lock"]
    fake_go(empty_machine, GOOD_BUILD)
    assert ensure_dapr(lambda _: None).daprd == cache_folder() / "daprd"


def test_a_cache_folder_with_files_taken_out_is_built_again(empty_machine: Path) -> None:
    fake_go(empty_machine, GOOD_BUILD)
    ensure_dapr(lambda _: None).placement.unlink()
    assert version_of(ensure_dapr(lambda _: None).placement) == DAPR_VERSION


def test_two_processes_build_once(empty_machine: Path) -> None:
    # The build lasts until the other process is seen to wait for it.
    fake_go(empty_machine, f"while [ ! -e {quote(str(empty_machine))}/waiting ]; do sleep 0.05; done; {GOOD_BUILD}")
    code = textwrap.dedent(
        f"""
        import pathlib
        from holdfast.local.binaries import ensure_dapr
        def progress(doing):
            if "waiting for another" in doing:
                pathlib.Path({str(empty_machine / "waiting")!r}).touch()
        print(ensure_dapr(progress).daprd)
        """
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=60) for process in both]
    assert [(process.returncode, out.strip()) for process, (out, _) in zip(both, answers, strict=True)] == [
        (0, str(cache_folder() / "daprd"))
    ] * 2, answers
    assert (empty_machine / "builds").read_text() == "built\n"
