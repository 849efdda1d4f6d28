"""Files of the server: other users of the machine cannot read them, nor redirect writes to them."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


async def pushed(folder: Path) -> dict[str, int]:
    """The modes of all files while the server runs."""
    async with Server(folder) as server, aiohttp.ClientSession() as session:
        async with session.post(f"{server.url}/queue/orders/push", json={"item": 1}) as answer:
            assert answer.status == 200
        return modes(folder / "data")


async def test_nobody_else_can_read_the_data(tmp_path: Path) -> None:
    files = {"holdfast.db": 0o600, "holdfast.db-wal": 0o600, "holdfast.db-shm": 0o600, "holdfast.lock": 0o600}
    assert await pushed(tmp_path) == {"data": 0o700} | files


async def test_a_folder_that_others_could_read_is_closed_at_the_next_start(tmp_path: Path) -> None:
    await pushed(tmp_path)
    for path in (tmp_path / "data").iterdir():
        path.chmod(0o644)
    (tmp_path / "data").chmod(0o755)
    assert not [name for name, mode in (await pushed(tmp_path)).items() if mode & 0o077]


async def test_a_folder_that_has_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data" / "notes").touch(0o644)
    found = await pushed(tmp_path)
    assert (found.pop("data"), found.pop("notes")) == (0o755, 0o644)
    assert set(found.values()) == {0o600}


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "folder"])
def test_the_lock_file_is_a_file_of_its_own(tmp_path: Path, kind: str) -> None:
    victim, data = tmp_path / "victim", tmp_path / "data"
    data.mkdir()
    lock = data / "holdfast.lock"
    match kind:
        case "link":
            victim.write_text("precious")
            lock.symlink_to(victim)
        case "link to nothing":
            lock.symlink_to(victim)
        case "pipe":
            os.mkfifo(lock)
        case _:
            lock.mkdir()
    command = [Path(sys.executable).with_name("holdfast"), "serve", "--port", "0", "--data", data]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"holdfast: The data folder {data} cannot be used: ")
    assert not victim.exists() or victim.read_text() == "precious"
    assert victim.exists() == (kind == "link")


async def test_nobody_else_can_read_a_snapshot(tmp_path: Path) -> None:
    await pushed(tmp_path)
    command = [Path(sys.executable).with_name("holdfast"), "snapshot", "--master", "local[1]"]
    command += ["--url", f"sqlite://{tmp_path}/data/holdfast.db", "--to", tmp_path / "snapshots"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    kept = [tmp_path / "snapshots", *(tmp_path / "snapshots").rglob("*")]
    assert [path for path in kept if path.suffix == ".parquet"]
    assert not [path for path in kept if path.stat().st_mode & 0o077]
