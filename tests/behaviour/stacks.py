"""The stacks of the suite, and a test's way onto them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from behaviour.rest import Server
from conformance.daprd import DaprPostgresqlStack, DaprSqliteStack, DaprStack
from conformance.served import APP_ID, EmbeddedStack, ServedStack, of_actor
from holdfast.local import find_postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from holdfast.local import ChildProcess


class Unhurried(ServedStack):
    # A queue that leaves memory forgets who waits for it: no test of waking should be that slow on a busy machine.
    idle_timeout = 6.0
    apps = (*ServedStack.apps, "behaviour.orchestrated:app")

    def _serve(self, *options: str, environment: Mapping[str, str] | None = None) -> ChildProcess:
        own = {"ORCHESTRATED_FOLDER": str(self.folder)}
        return super()._serve(*options, environment={**(environment or {}), **own})

    async def app_died(self, within: float = 30) -> None:
        """Until the app has ended by itself."""
        [app] = [process for process in self.processes if process.name == "app"]
        async with asyncio.timeout(within):
            await app.wait()

    def effects(self) -> list[Any]:
        """What activities have written down."""
        file = self.folder / "effects"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class OnEmbedded(Unhurried, EmbeddedStack):
    pass


class Halting(Unhurried, DaprStack):
    """A sidecar that can be made to stand still."""

    @contextlib.asynccontextmanager
    async def daprd_halted(self) -> AsyncIterator[None]:
        """Inside, daprd is there but does nothing."""
        assert self._sidecar is not None
        self._sidecar.process.send_signal(signal.SIGSTOP)
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

    async def stored_keys(self) -> set[str]:
        return set(await self._select("SELECT json_agg(key) FROM state") or ())

    async def _select(self, query: str) -> Any:
        psql = await asyncio.create_subprocess_exec(
            *(find_postgres().folder / "psql", "--no-psqlrc", "--tuples-only", "--no-align"),
            *("--command", query, self._url),
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await psql.communicate()
        assert psql.returncode == 0
        return json.loads(answer) if answer.strip() else None


STACKS: dict[str, type[ServedStack]] = {stack.name: stack for stack in (OnEmbedded, OnSqlite, OnPostgresql)}
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
