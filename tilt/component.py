"""Runs one component in the foreground, for the Tiltfile.

python tilt/component.py daprd|placement|scheduler [ARGUMENT ...]
python tilt/component.py postgresql FOLDER RESOURCES
python tilt/component.py configuration FILE APP_ID=ADDRESS ...     writes daprd's configuration and exits
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.local import LocalPostgres, find_dapr, write_component, write_configuration


def dapr(name: str, arguments: list[str]) -> None:
    """Replaces this process with the program, so that signals reach it."""
    program = str(getattr(find_dapr(), name))
    os.execv(program, [program, *arguments])  # noqa: S606


async def postgresql(folder: Path, resources: Path) -> None:
    """Runs PostgreSQL until SIGTERM or SIGINT. Writes its component to `resources` once it accepts connections."""
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    async with LocalPostgres(folder, on_line=_show) as server:
        component = write_component("postgresql-v2", resources, connection=server.url())
        _show(f"PostgreSQL accepts connections on port {server.port}; its component is {component}")
        stopping = asyncio.create_task(asked_to_stop.wait())
        ending = asyncio.create_task(server.process.wait())
        await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            stopping.cancel()
            sys.exit(f"PostgreSQL {server.process.ending()}.")
        await server.stop()
        await ending


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(name: str, arguments: list[str]) -> None:
    if name == "postgresql":
        folder, resources = (Path(argument) for argument in arguments)
        asyncio.run(postgresql(folder, resources))
    elif name == "configuration":
        file, *apps = arguments
        write_configuration(Path(file), dict(app.split("=", 1) for app in apps))
    else:
        dapr(name, arguments)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in {"daprd", "placement", "scheduler", "postgresql", "configuration"}:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2:])
    except HoldfastError as error:
        sys.exit(str(error))
