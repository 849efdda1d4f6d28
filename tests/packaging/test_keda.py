"""KEDA's part in the chart, played by a script: workers from 0 to 1, while they work, and back to 0."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.local import ChildProcess
from tests.golden.recorder import Rest
from tests.packaging.helm import chart
from tests.packaging.test_chart import TOKEN, the
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.packaging.helm import Manifest

# The tests of the chart run together.
pytestmark = pytest.mark.xdist_group("helm")

VALUES = (
    "apps={gated:app}",
    "worker.enabled=true",
    "worker.keda.enabled=true",
    "worker.keda.queue=activities",
    "worker.keda.ageSecondsPerReplica=60",
    "worker.keda.maxReplicas=3",
)
_APP = """
import asyncio
from pathlib import Path

from holdfast import App, Context

app = App()
gate = Path(__file__).with_name("gate")

@app.activity
async def ship(item: str) -> str:
    while not gate.exists():
        await asyncio.sleep(0.05)
    return f"shipped {item}"

@app.orchestration
async def order(ctx: Context, item: str) -> str:
    return await ctx.call(ship, item)
"""


class Scaler:
    """Plays KEDA and the autoscaler: scales the processes of the Deployment that a ScaledObject names."""

    def __init__(self, manifests: list[Manifest], server: Server, folder: Path) -> None:
        self._scaled = the(manifests, "ScaledObject", "holdfast-worker")["spec"]
        deployment = the(manifests, "Deployment", self._scaled["scaleTargetRef"]["name"])
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        self._arguments = [self._here(word, server) for word in container["args"]]
        self._server = server
        self._folder = folder
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        self.workers: list[ChildProcess] = []
        self.ended: list[int] = []

    @staticmethod
    def _here(word: str, server: Server) -> str:
        """An argument of the container on this machine: the server's address, loopback, and a free port."""
        if word.startswith("http://"):
            return server.url
        return {"0.0.0.0": "127.0.0.1", "9464": "0"}.get(word, word)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for worker in self.workers:
            await worker.kill()
        await self._session.close()

    async def values(self) -> list[float | None]:
        """Reads each trigger as KEDA's metrics-api does; None is an error."""
        return [await self._value(trigger["metadata"]) for trigger in self._scaled["triggers"]]

    async def poll(self) -> int:
        """Scales once, the cooldown being over; returns the number of workers."""
        values = await self.values()
        targets = [float(trigger["metadata"]["targetValue"]) for trigger in self._scaled["triggers"]]
        known = [(value, target) for value, target in zip(values, targets, strict=True) if value is not None]
        lowest, highest = self._scaled["minReplicaCount"], self._scaled["maxReplicaCount"]
        if any(value for value, _ in known):
            wanted = max(math.ceil(value / target) for value, target in known)
            await self._scale(min(max(1, lowest, wanted), highest))
        elif len(known) == len(values):  # with a trigger in error it stops nothing
            await self._scale(lowest)
        return len(self.workers)

    async def _value(self, metadata: dict[str, str]) -> float | None:
        url = self._server.url + urlsplit(metadata["url"]).path
        async with self._session.get(url) as answer:
            assert answer.status == 200
            if metadata.get("format") != "prometheus":
                found = (await answer.json())[metadata["valueLocation"]]
                assert isinstance(found, int | float)
                return found
            text = await answer.text()
        name, _, labels = metadata["valueLocation"].partition("{")
        of = dict(pair.split("=") for pair in labels.removesuffix("}").split(","))
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and all(sample.labels[key] == of[key].strip('"') for key in of)
        ]
        return found[0] if found else None

    async def _scale(self, replicas: int) -> None:
        while len(self.workers) > replicas:
            worker = self.workers.pop()
            await worker.terminate()
            self.ended.append(await worker.wait())
        while len(self.workers) < replicas:
            name = f"worker{len(self.workers)}"
            command = [Path(sys.executable).with_name("holdfast"), *self._arguments]
            environment = {"HOLDFAST_TOKEN": TOKEN}
            log = self._folder / f"{name}.log"
            self.workers.append(ChildProcess(name, command, log=log, folder=self._folder, environment=environment))
            await self.workers[-1].start()


async def test_workers_are_started_from_zero_kept_while_they_work_and_stopped(tmp_path: Path) -> None:
    (tmp_path / "gated.py").write_text(_APP)
    server = Server(tmp_path, "gated:app", "--no-worker", "--token", TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with server, Scaler(chart(*VALUES), server, tmp_path) as scaler, aiohttp.ClientSession(headers=headers) as us:
        rest = Rest(server.url, us)

        async def reads(condition: Any, what: str) -> None:
            async def read() -> bool:
                return bool(condition(*await scaler.values()))

            await eventually(read, what=what)

        # Before its first item the queue has no metrics, so the trigger of the age is in error.
        assert await scaler.values() == [0, 0, None]
        assert await scaler.poll() == 0
        await rest.start("order", "one", "tea")
        await reads(
            lambda count, locked, age: (count, locked) == (1, 0) and age, "the activity waits, as there is no worker"
        )
        assert await scaler.poll() == 1
        await reads(lambda count, locked, age: count == 0 and locked == 1, "the worker runs the activity")
        assert await scaler.poll() == 1  # nothing waits, and the worker is not stopped
        (tmp_path / "gate").touch()
        assert (await rest.ended("one"))["output"] == "shipped tea"
        await reads(lambda count, locked, age: (count, locked, age) == (0, 0, 0), "nothing is left to do")
        assert await scaler.poll() == 0
        assert scaler.ended == [0]
