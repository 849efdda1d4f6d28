"""``holdfast backup`` of a server under load, restored elsewhere; and where it refuses."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from holdfast import Client
from holdfast.cli.main import cli
from holdfast.errors import HoldfastError
from holdfast.runtime.embedded import sqlite
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterable

_APP = """
from holdfast import App, Context

app = App()

@app.orchestration
async def waits(ctx: Context) -> object:
    return await ctx.event("go")
"""


async def holdfast(*arguments: str | Path) -> tuple[int | None, str]:
    """Runs the command. Returns its exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("holdfast"), *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def restore(backup: Path, folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    shutil.copyfile(backup, folder / "data" / "holdfast.db")
    return folder


async def test_a_backup_under_load_has_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    backup = tmp_path / "backups" / "monday.db"
    backup.parent.mkdir()
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def push(client: Client, name: str) -> None:
        for number in range(1_000_000):
            acknowledged.append(await client.queue("orders").push(f"{name} {number}"))
            if len(acknowledged) >= 500:
                enough.set()

    async with Server(tmp_path, "app:app") as server, Client(server.url) as client:
        run = await client.start("waits", instance_id="i-1")
        await client.queue("later").push("later", delay_seconds=1)
        await client.queue("held").push("held")
        async with aiohttp.request("POST", f"{server.url}/queue/held/pop?require_ack=true&ttl_seconds=300") as answer:
            lock_id = (await answer.json())["lock_id"]
        async with asyncio.TaskGroup() as load:
            pushing = [load.create_task(push(client, name)) for name in "abcd"]
            await enough.wait()
            before = list(acknowledged)
            code, said = await holdfast("backup", "--data", tmp_path / "data", "--to", backup)
            during = len(acknowledged)
            for task in pushing:
                task.cancel()
        assert code == 0, said
        assert during > len(before)  # the server went on
    assert "Backed up" in said
    assert [file.name for file in backup.parent.iterdir()] == ["monday.db"]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600

    restored = restore(backup, tmp_path / "elsewhere")
    async with Server(restored, "app:app", imports=tmp_path) as server, Client(server.url) as client:
        found = []
        while popped := await client.queue("orders").pop(count=100):
            found += [message.id for message in popped]
        assert len(set(found)) == len(found)
        assert set(before) <= set(found) <= set(acknowledged)
        assert (await client.queue("held").acknowledge(lock_id)) == 1
        assert [message.item for message in await client.queue("later").pop(wait_seconds=30)] == ["later"]
        run = client.orchestration("i-1")
        await run.raise_event("go", "ahead")
        assert await run.result(timeout=30) == "ahead"


def make_store(folder: Path, rows: Iterable[tuple[str, object]] = ()) -> Path:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "holdfast.db")) as connection, connection:
        connection.executescript(sqlite.SCHEMA)
        connection.executemany(
            "INSERT INTO state (key, value, is_binary, etag) VALUES (?, ?, 0, '1')",
            [(key, json.dumps(value)) for key, value in rows],
        )
    return folder


def backed_up(*arguments: str | Path) -> None:
    cli.main(["backup", *map(str, arguments)], standalone_mode=False)


def test_it_replaces_a_file_only_when_told_to(tmp_path: Path) -> None:
    data, to = make_store(tmp_path / "data", [("a||B||c||d", 1)]), tmp_path / "backup.db"
    to.write_text("an earlier one")
    with pytest.raises(HoldfastError, match="exists already: choose another file with --to, or replace it"):
        backed_up("--data", data, "--to", to)
    assert to.read_text() == "an earlier one"
    backed_up("--data", data, "--to", to, "--force")
    with closing(sqlite3.connect(to)) as connection:
        assert connection.execute("SELECT key, value FROM state").fetchall() == [("a||B||c||d", "1")]
    with pytest.raises(HoldfastError, match="is the server's own file"):
        backed_up("--data", data, "--to", data / "holdfast.db", "--force")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("a||PushPopActor||q||metadata", {"_format": 99}, r"a\|\|PushPopActor\|\|q\|\|metadata .* format 99"),
        ("a||OrchestrationActor||i||instance", {"format": 1}, "an earlier version of Holdfast, in format 1"),
        ("a||InstanceIndexActor||0||shard", {"format": 99}, "has format 99"),
        ("a||OrchestrationActor||i||instance", [], "is damaged"),
    ],
)
def test_values_of_other_formats_are_not_backed_up(tmp_path: Path, key: str, value: object, sentence: str) -> None:
    data = make_store(tmp_path / "data", [(key, value)])
    with pytest.raises(HoldfastError, match=sentence):
        backed_up("--data", data, "--to", tmp_path / "backup.db")
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_a_damaged_file_is_not_backed_up(tmp_path: Path) -> None:
    data = make_store(tmp_path / "data", [(f"a||B||c||{number}", "x" * 500) for number in range(200)])
    content = bytearray((data / "holdfast.db").read_bytes())
    content[3 * 4096 : 8 * 4096] = b"\xff" * (5 * 4096)
    (data / "holdfast.db").write_bytes(content)
    with pytest.raises(HoldfastError, match=r"is damaged: .* No backup was written"):
        backed_up("--data", data, "--to", tmp_path / "backup.db")
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "{folder}/none", "--to", "{folder}/b.db"], "name the data folder of the embedded server"),
        (["--data", "{folder}/data", "--to", "{folder}/none/b.db"], "No such file or directory"),
        (["--data", "{folder}/data", "--to", "{folder}/data"], "is a folder"),
    ],
)
def test_what_cannot_work_is_told_in_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    make_store(tmp_path / "data")
    with pytest.raises(HoldfastError, match=sentence):
        backed_up(*(argument.format(folder=tmp_path) for argument in arguments))
