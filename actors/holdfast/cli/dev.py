"""``holdfast dev``: runs the app with Dapr on this machine, with one log, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from yarl import URL

from holdfast.cli.options import option
from holdfast.errors import ComponentFailed
from holdfast.local import ChildProcess, LocalDapr, LocalPostgres, ensure_dapr, write_component
from holdfast.local.health import answers_ok
from holdfast.local.log_lines import LEVELS, shorten
from holdfast.local.ports import free_port
from holdfast.local.progress import TerminalProgress
from holdfast.local.stack import LOOPBACK
from holdfast.runtime.embedded.data_folder import DataFolder

if TYPE_CHECKING:
    from holdfast.local import DaprBinaries, Sidecar

_DATABASE = "holdfast"
_SECONDS_TO_START = 120.0
_SECONDS_AFTER_DRAIN = 10.0
_COLOURS = {
    "app": "green",
    "daprd": "cyan",
    "placement": "magenta",
    "scheduler": "blue",
    "postgresql": "yellow",
}


@click.command(short_help="Run the server on real Dapr on this machine.")
@click.argument("apps", nargs=-1, metavar="[MODULE:APP]...")
@option("--store", type=click.Choice(["sqlite", "postgresql"]), default="sqlite", help="daprd's state store.")
@option(
    "--data",
    type=click.Path(path_type=Path),
    default="./holdfast-data",
    help="Folder; its subfolder 'dapr' has state, reminders and logs.",
)
@option(
    "--port", type=click.IntRange(0, 65535), default=8080, help="Port of the server on 127.0.0.1; 0 picks a free one."
)
@option("--app-id", default="holdfast", help="Dapr app id, and the prefix of the state keys.")
@option(
    "--drain-timeout",
    type=click.FloatRange(1.0),
    default=30.0,
    help="Seconds that running turns and activities get to finish at shutdown.",
)
@option(
    "--dapr-log-level",
    type=click.Choice(LEVELS),
    default="error",
    help="Lowest level of Dapr's and PostgreSQL's log lines to show. The full logs are files in --data.",
)
def dev(
    apps: tuple[str, ...],
    store: str,
    data: Path,
    port: int,
    app_id: str,
    drain_timeout: float,
    dapr_log_level: str,
) -> None:
    """Run the apps named by MODULE:APP with daprd, placement, scheduler and a database, on loopback.

    Uses the Dapr binaries of this machine, or builds them once if there are none. State and reminders stay in --data.
    Ctrl-C stops everything in order: the app finishes its turns first. Exits with 1 when a process dies.
    """
    with TerminalProgress() as progress:
        binaries = ensure_dapr(progress)
    folder = DataFolder(data / "dapr")
    folder.claim()
    try:
        session = _Session(
            apps, store, (data / "dapr").absolute(), port or free_port(), app_id, drain_timeout, dapr_log_level
        )
        asyncio.run(session.run(binaries))
    finally:
        folder.release()


@dataclass
class _Session:
    """Starts the processes, watches them, and stops them in order."""

    apps: tuple[str, ...]
    store: str
    folder: Path
    port: int
    app_id: str
    drain_timeout: float
    dapr_log_level: str
    app: ChildProcess | None = None
    stopping: bool = False

    async def run(self, binaries: DaprBinaries) -> None:
        running = asyncio.create_task(self._run(binaries))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._interrupted, running)
        try:
            await running
        except asyncio.CancelledError:
            if self.app is not None and self.app.returncode:
                raise ComponentFailed(f"The app {self.app.ending()} while it was stopping.") from None

    def _interrupted(self, running: asyncio.Task[None]) -> None:
        if not self.stopping:
            self.stopping = True
            click.echo("Stopping: the app finishes its turns first. Press Ctrl-C again to kill it.")
            running.cancel()
        elif self.app is not None:
            # Only the app may take long; the other processes stop within a moment.
            self.app.send_signal(signal.SIGKILL)

    async def _run(self, binaries: DaprBinaries) -> None:
        # Processes stop in reverse order of their start, so the app drains while its dependencies still run.
        async with contextlib.AsyncExitStack() as stack:
            processes = []
            resources = self.folder / "resources"
            if self.store == "postgresql":
                postgres = LocalPostgres(
                    self.folder / "postgresql", on_line=lambda line: self._show_some("postgresql", line)
                )
                await stack.enter_async_context(postgres)
                processes.append(postgres.process)
                url = await postgres.create_database(_DATABASE, exist_ok=True)
                write_component("postgresql-v2", resources, connection=url)
                # The password must not show in terminals and logs.
                where = f"{URL(url).with_password(None)}, with the password in {postgres.password_file}"
            else:
                where = f"sqlite:///{quote(str(self.folder / 'state.db'))}"
                write_component("sqlite", resources, connection=str(self.folder / "state.db"))
            dapr = LocalDapr(
                self.folder,
                binaries,
                on_line=self._show_some,
                log_level="debug" if self.dapr_log_level == "debug" else "info",
            )
            await stack.enter_async_context(dapr)
            sidecar = await dapr.sidecar(app_id=self.app_id, app_port=self.port, resources=resources)
            self.app = self._app(sidecar)
            stack.push_async_callback(self.app.terminate, grace=self.drain_timeout + _SECONDS_AFTER_DRAIN)
            await self.app.start()
            processes += [dapr.placement.process, dapr.scheduler.process, sidecar.process, self.app]
            try:
                async with asyncio.TaskGroup() as together:
                    for process in processes:
                        together.create_task(_fail_when_ended(process))
                    await sidecar.wait_ready(timeout=_SECONDS_TO_START)
                    await self.app.wait_ready(answers_ok(f"http://{LOOPBACK}:{self.port}/readyz"))
                    click.echo(f"Holdfast on http://{LOOPBACK}:{self.port}, with daprd on {sidecar.url}")
                    click.echo(f"Data:  {where}\nLogs:  {self.folder}")
                    click.echo(f"Other services call it as '{self.app_id}': {_joining(dapr, sidecar)}")
                    await asyncio.Event().wait()
            # Not `except*`: before Python 3.11.4 it raises a group again.
            except ExceptionGroup as group:
                failed, others = group.split(ComponentFailed)
                if failed is None or others is not None:
                    raise
                raise failed.exceptions[0] from None

    def _show_some(self, name: str, line: str) -> None:
        level, text = shorten(line)
        # Dapr logs every closed connection as an error, even while it is stopping.
        if LEVELS.index(level) >= LEVELS.index(self.dapr_log_level) and not self.stopping:
            _show(name, f"{level.upper():<7} {text}")

    def _app(self, sidecar: Sidecar) -> ChildProcess:
        # A process of its own: it imports Dapr's SDK, which other commands start without.
        from holdfast.runtime.dapr.admission import VARIABLE

        command = [
            *(sys.executable, "-m", "holdfast", "serve", *self.apps),
            *("--host", "dapr", "--listen", LOOPBACK, "--port", str(self.port)),
            *("--drain-timeout", str(self.drain_timeout)),
        ]
        return ChildProcess(
            "app",
            command,
            log=self.folder / "app.log",
            # The app is one process, so a secret made for this run is enough.
            environment={
                VARIABLE: os.environ.get(VARIABLE) or secrets.token_hex(32),
                **sidecar.environment,
                "PYTHONUNBUFFERED": "1",
            },
            on_line=lambda line: _show("app", line),
        )


def _joining(dapr: LocalDapr, sidecar: Sidecar) -> str:
    """Returns the ``dapr run`` options with which another service can call this app and its actors."""
    options = [
        *("--config", str(sidecar.configuration)),
        *("--placement-host-address", dapr.placement.address),
        *("--scheduler-host-address", dapr.scheduler.address),
    ]
    return f"dapr run {shlex.join(options)}"


async def _fail_when_ended(process: ChildProcess) -> None:
    await process.wait()
    raise ComponentFailed(f"{process.name} {process.ending()}, so everything was stopped. {process.log_tail()}")


def _show(name: str, line: str) -> None:
    click.echo(f"{click.style(f'{name:<10}', fg=_COLOURS.get(name))} | {line}")
