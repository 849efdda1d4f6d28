"""Peers that are no servers: processes that measure themselves when they are told to, a line of JSON at a time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.load import CallFailed, Load
from holdfast.local import LocalDapr, LocalPostgres, find_dapr, write_component

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_FOLDER = Path(__file__).parent
_SECONDS_TO_START = 120.0
_SECONDS_TO_ANSWER = 900.0


class Peer:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, question: dict[str, Any], timeout: float = _SECONDS_TO_ANSWER) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        await self._process.stdin.drain()
        return await self.answer(timeout)

    async def answer(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(timeout):
            while line := await self._process.stdout.readline():
                if line.startswith(b"{"):  # libraries say other things there, too
                    answer: dict[str, Any] = json.loads(line)
                    return answer
        raise CallFailed("A peer ended by itself: see what it wrote above.")

    async def load(self, seconds: float, callers: int) -> Load:
        return Load((await self.ask({"seconds": seconds, "callers": callers}))["rate"], 0.0)


@asynccontextmanager
async def dbos_sqlite(folder: Path) -> AsyncIterator[Peer]:
    async with _run(_FOLDER / "peer_dbos.py", str(folder)) as peer:
        yield peer


@asynccontextmanager
async def dapr_workflow(folder: Path) -> AsyncIterator[Peer]:
    resources = folder / "resources"
    async with LocalPostgres(folder / "postgresql") as postgres:
        write_component("postgresql-v2", resources, connection=await postgres.create_database("workflows"))
        async with LocalDapr(folder / "dapr", find_dapr()) as dapr:
            sidecar = await dapr.sidecar(resources=resources)
            async with _run(_FOLDER / "peer_workflow.py", environment=sidecar.environment) as peer:
                yield peer


@asynccontextmanager
async def _run(script: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | dict(environment or {}),
        limit=2**20,
    )
    try:
        peer = Peer(process)
        await peer.answer(_SECONDS_TO_START)
        yield peer
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
