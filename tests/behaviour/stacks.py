"""The stacks of the suite, and a test's way onto them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from holdfast.local import find_postgres
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.support.rest import Server
from tests.support.stacks.daprd import DaprPostgresqlStack, DaprSqliteStack, DaprStack
from tests.support.stacks.served import APP_ID, EmbeddedStack, ServedStack, of_actor
from tests.support.waiting import lines_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from pathlib import Path

    from holdfast.local import ChildProcess, Sidecar


class Unhurried(ServedStack):
    # A queue that leaves memory forgets who waits for it: no test of waking should be that slow on a busy machine.
    idle_timeout = 6.0
    apps = (
        *ServedStack.apps,
        "tests.behaviour.orchestrations.definitions:app",
        "tests.behaviour.orchestrations.changing_definitions:app",
        "tests.behaviour.orchestrations.asyncio_definitions:app",
    )
    settings = """
[tenants.three-queues]
max_queues = 3

[tenants.ten-items]
max_items = 10

[tenants.three-instances]
max_instances = 3

[tenants.two-schedules]
max_schedules = 2
"""

    def _serve(
        self, *options: str, environment: Mapping[str, str] | None = None, name: str = "app", port: int | None = None
    ) -> ChildProcess:
        own = {"ORCHESTRATED_FOLDER": str(self.folder)}
        return super()._serve(*options, environment={**(environment or {}), **own}, name=name, port=port)

    async def app_died(self, within: float = 30) -> None:
        """Until the app has ended by itself."""
        [app] = [process for process in self.processes if process.name == "app"]
        async with asyncio.timeout(within):
            await app.wait()

    def effects(self) -> list[Any]:
        """Returns the effects that activities have written down."""
        return [json.loads(line) for line in lines_of(self.folder / "effects")]


class OnEmbedded(Unhurried, EmbeddedStack):
    pass


class Halting(Unhurried, DaprStack):
    """A sidecar that can be made to stand still."""

    @contextlib.asynccontextmanager
    async def daprd_halted(self) -> AsyncIterator[None]:
        """Inside, daprd is there but does nothing."""
        assert self._sidecar is not None
        self._sidecar.process.send_signal(signal.SIGSTOP)
        # Its threads stop one by one, on a busy machine a little later.
        while psutil.Process(self._sidecar.process.pid).status() != psutil.STATUS_STOPPED:
            await asyncio.sleep(0.01)
        try:
            yield
        finally:
            self._sidecar.process.send_signal(signal.SIGCONT)


class OnSqlite(Halting, DaprSqliteStack):
    pass


class OnPostgresql(Halting, DaprPostgresqlStack):
    """Looks only at the rows that are asked for: other tests leave large ones."""

    async def stored(self, actor_type: str, actor_id: str) -> dict[str, Any]:
        prefix = f"{APP_ID}||{actor_type}||{actor_id}||"
        rows = await self._select(
            f"SELECT json_object_agg(key, convert_from(value, 'UTF8')) FROM state WHERE starts_with(key, '{prefix}')"
        )
        return of_actor(rows or {}, actor_type, actor_id)

    async def change(self, statement: str) -> None:
        """Changes the rows of the state store, past daprd."""
        await self._postgres.query(statement, database="conformance")

    async def stored_keys(self) -> set[str]:
        return set(await self._select("SELECT json_agg(key) FROM state") or ())

    @contextlib.asynccontextmanager
    async def row_held(self, actor_type: str, actor_id: str, key: str) -> AsyncIterator[None]:
        """Inside, this value of an actor cannot be written: what saves it waits."""
        psql = await asyncio.create_subprocess_exec(
            *(find_postgres().folder / "psql", "--no-psqlrc", "--tuples-only", "--no-align", self._url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert psql.stdin is not None
        assert psql.stdout is not None
        row = f"{APP_ID}||{actor_type}||{actor_id}||{key}"
        psql.stdin.write(f"BEGIN; SELECT 'held ' || key FROM state WHERE key = '{row}' FOR UPDATE;\n".encode())
        try:
            while not (line := await psql.stdout.readline()).startswith(b"held "):
                assert line, f"there is no row {row}"
            yield
        finally:
            await psql.communicate(b"ROLLBACK;\n")

    async def _select(self, query: str) -> Any:
        psql = await asyncio.create_subprocess_exec(
            *(find_postgres().folder / "psql", "--no-psqlrc", "--tuples-only", "--no-align"),
            *("--command", query, self._url),
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await psql.communicate()
        assert psql.returncode == 0
        return json.loads(answer) if answer.strip() else None


class OnReplicas(OnPostgresql):
    """A second app beside a daprd of its own, which comes and goes: placement moves actors between the two."""

    name = "daprd-replicas"

    def __init__(self, folder: Path) -> None:
        self.second_port = free_port()
        self._second: ChildProcess | None = None
        self._second_sidecar: Sidecar | None = None
        super().__init__(folder)

    async def start_second(self) -> None:
        """Until it takes calls, and has actors."""
        if self._second_sidecar is None:
            self._second_sidecar = await self._dapr.sidecar(
                app_id=APP_ID, app_port=self.second_port, resources=self.folder / "resources"
            )
            environment = self._second_sidecar.environment
            self._second = self._serve("--host", "dapr", environment=environment, name="second", port=self.second_port)
        else:
            await self._second_sidecar.start()
        assert self._second is not None
        await self._second.start()
        await self._second.wait_ready(answers_ok(f"http://127.0.0.1:{self.second_port}/readyz"))

    async def actors_of_second(self) -> int:
        """How many queues, or partitions of them, it has in memory."""
        assert self._second_sidecar is not None
        active = (await self._second_sidecar.metadata() or {}).get("actorRuntime", {}).get("activeActors", [])
        # An entry that says no count has none.
        return sum(entry.get("count", 0) for entry in active if entry["type"] == "PushPopActor")

    async def stop_second(self) -> None:
        assert self._second is not None
        assert self._second_sidecar is not None
        await self._second.terminate()
        await self._second_sidecar.stop()

    async def kill_second(self) -> None:
        if self._second is not None and self._second_sidecar is not None:
            await asyncio.gather(self._second.kill(), self._second_sidecar.kill())

    @contextlib.asynccontextmanager
    async def second_halted(self) -> AsyncIterator[None]:
        """Inside, the second app is there but does nothing."""
        assert self._second is not None
        self._second.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._second.send_signal(signal.SIGCONT)

    async def kill_all(self) -> None:
        await asyncio.gather(super().kill_all(), self.kill_second())


STACKS: dict[str, type[ServedStack]] = {stack.name: stack for stack in (OnEmbedded, OnSqlite, OnPostgresql, OnReplicas)}
EMBEDDED = OnEmbedded.name
DAPR = (OnSqlite.name, OnPostgresql.name)
ALL = (EMBEDDED, *DAPR)

#: The part of the tests that end processes or wait for long.
KILLED = "-killed"

Test = Any

_numbers = itertools.count(1)


def on_stacks(*names: str, part: str = "") -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Test]:
    """Makes a coroutine a test that runs once on each of these stacks, with a server's REST interface to call.

    All tests of a stack go to one worker, which starts it once; those of another part may go to another worker.
    """

    def decorate(body: Callable[..., Coroutine[Any, Any, None]]) -> Test:
        @functools.wraps(body)
        def test(server: ServedStack, **arguments: Any) -> None:
            async def run() -> None:
                async with Server(server, f"{body.__name__}-{next(_numbers)}") as rest:
                    await body(rest, **arguments)

            server.run(run())

        stacks = [pytest.param(name, marks=pytest.mark.xdist_group(f"behaviour-{name}{part}")) for name in names]
        return pytest.mark.parametrize("server", stacks, indirect=True)(test)

    return decorate


on_every_stack = on_stacks(*ALL)
