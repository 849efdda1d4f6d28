"""A pod of the dapr overlay without a cluster: daprd as the injector would start it, the app as the pod says."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml

from holdfast.local import ChildProcess, LocalDapr, LocalPostgres, find_dapr
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.packaging.kustomize import the
from tests.packaging.sidecar import daprd_arguments
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.local import Sidecar

SECONDS = 60.0
SECRETS = {
    "holdfast": {"token": "that-of-the-callers"},
    "holdfast-dapr": {"token": "sidecar", "actor-secret": "0123456789abcdef"},
}


class Cluster:
    """The surroundings that the overlay expects: Dapr, PostgreSQL, and the secrets it names."""

    def __init__(self, folder: Path, dapr: LocalDapr, database: str) -> None:
        self.folder = folder
        self.gate = folder / "gate"
        self._dapr = dapr
        self._secrets = {**SECRETS, "holdfast-postgresql": {"connection-string": database}}
        self._template = the("dapr", "Deployment")["spec"]["template"]
        (self._container,) = self._template["spec"]["containers"]

    async def pod(self, name: str, app: str) -> Pod:
        port = free_port()
        sidecar = await self._sidecar(port)
        environment = {**self._environment(), **sidecar.environment}
        environment |= {"HOLDFAST_PORT": str(port), "HOLDFAST_LISTEN": "127.0.0.1", "GATE": str(self.gate)}
        program = ChildProcess(
            name,
            [_holdfast(), *self._arguments(app)],
            log=self.folder / f"{name}.log",
            environment=environment,
            folder=Path(__file__).parent,
        )
        pod = Pod(program, sidecar, port)
        await program.start()
        probe = self._container["readinessProbe"]["httpGet"]["path"]
        await program.wait_ready(answers_ok(f"{pod.url}{probe}"), timeout=SECONDS)
        return pod

    async def _sidecar(self, app_port: int) -> Sidecar:
        annotations = self._template["metadata"]["annotations"]
        configuration = self.folder / "configuration.yaml"
        configuration.write_text(yaml.safe_dump(the("dapr", "Configuration")))
        token = self._secrets[annotations["dapr.io/app-token-secret"]]["token"]
        return await self._dapr.sidecar(
            app_port=app_port,
            resources=self._resources(),
            environment={"APP_API_TOKEN": token},
            arguments=daprd_arguments(annotations, app_port=str(app_port), config=str(configuration)),
        )

    async def shop(self) -> Sidecar:
        """The daprd of another app, with nothing but names."""
        sidecar = await self._dapr.sidecar(app_id="shop")
        await sidecar.wait_ready()
        return sidecar

    def _resources(self) -> Path:
        """The component as it is, but for its secret: in a cluster Dapr's operator would have resolved that."""
        folder = self.folder / "resources"
        folder.mkdir(exist_ok=True)
        (folder / "secrets.json").write_text(json.dumps(self._secrets))
        store = {**the("dapr", "Component"), "auth": {"secretStore": "secrets"}}
        secrets = {
            "apiVersion": store["apiVersion"],
            "kind": "Component",
            "metadata": {"name": "secrets"},
            "spec": {
                "type": "secretstores.local.file",
                "version": "v1",
                "metadata": [
                    {"name": "secretsFile", "value": str(folder / "secrets.json")},
                    {"name": "multiValued", "value": "true"},
                ],
            },
        }
        (folder / "components.yaml").write_text(yaml.safe_dump_all([secrets, store]))
        return folder

    def _arguments(self, app: str) -> list[str]:
        command, _, *rest = self._container["args"]
        return [command, app, *rest]

    def _environment(self) -> dict[str, str]:
        def value(entry: dict[str, Any]) -> str:
            if "value" in entry:
                return str(entry["value"])
            secret = entry["valueFrom"]["secretKeyRef"]
            return self._secrets[secret["name"]][secret["key"]]

        return {entry["name"]: value(entry) for entry in self._container["env"]}


class Pod:
    def __init__(self, app: ChildProcess, sidecar: Sidecar, port: int) -> None:
        self.app = app
        self.sidecar = sidecar
        self.url = f"http://127.0.0.1:{port}"

    async def call(self, actor: str, method: str, body: object = None) -> tuple[int, str]:
        url = f"{self.sidecar.url}/v1.0/actors/{actor}/method/{method}"
        async with aiohttp.ClientSession() as session, session.post(url, data=json.dumps(body)) as answer:
            return answer.status, await answer.text()

    async def status_of(self, method: str, path: str, **headers: str) -> int:
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{self.url}{path}", data="1") as answer,
        ):
            return answer.status

    async def end(self) -> None:
        """As the kubelet ends a pod with a native sidecar: the app first, and daprd when the app is gone."""
        await self.app.terminate(grace=SECONDS)
        await self.sidecar.process.terminate(grace=SECONDS)


def _holdfast() -> Path:
    return Path(sys.executable).with_name("holdfast")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with (
        LocalPostgres(tmp_path / "postgresql") as postgres,
        LocalDapr(tmp_path / "dapr", find_dapr()) as dapr,
    ):
        yield Cluster(tmp_path, dapr, await postgres.create_database("holdfast"))


async def test_a_turn_that_runs_while_its_pod_ends_is_saved_and_answered(cluster: Cluster) -> None:
    first = await cluster.pod("first", "gated:app")
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        saving = group.create_task(first.call("GatedActor/kept", "Save", "to the end"))
        await eventually(cluster.gate.with_suffix(".reached").exists)
        ending = group.create_task(first.end())
        await eventually(lambda: "SIGTERM: stopping" in first.app.log.read_text())
        assert first.app.running, first.app.log_tail()
        cluster.gate.with_suffix(".open").touch()
        await ending
    assert saving.result() == (200, '"to the end"')
    assert first.app.returncode == 0, first.app.log_tail()
    assert first.sidecar.process.returncode == 0, first.sidecar.process.log_tail()

    second = await cluster.pod("second", "gated:app")
    assert await second.call("GatedActor/kept", "Get") == (200, '"to the end"')
    await second.end()


async def test_only_callers_with_a_token_and_the_sidecar_reach_the_app(cluster: Cluster) -> None:
    cluster.gate.with_suffix(".open").touch()
    pod = await cluster.pod("guarded", "gated:app")
    assert await pod.call("GatedActor/mine", "Save", "by daprd") == (200, '"by daprd"')

    assert await pod.status_of("GET", "/status") == 401
    assert await pod.status_of("GET", "/status", authorization="Bearer that-of-the-callers") == 200
    # Going round daprd would go round its turn locks.
    around = "/actors/GatedActor/mine/method/Save"
    for headers in ({}, {"authorization": "Bearer that-of-the-callers"}, {"dapr-api-token": "guessed"}):
        assert await pod.status_of("PUT", around, **headers) in {401, 403}
    assert await pod.call("GatedActor/mine", "Get") == (200, '"by daprd"')
    await pod.end()


async def test_the_access_control_policy_refuses_apps_that_it_does_not_name(cluster: Cluster) -> None:
    """Here without mTLS, by which a cluster's Dapr knows apps: the policy then names none."""
    first, second = [await cluster.pod(name, "gated:app") for name in ("one", "two")]
    shop = await cluster.shop()
    url = f"{shop.url}/v1.0/invoke/holdfast/method"
    bearer = {"authorization": "Bearer that-of-the-callers"}
    async with aiohttp.ClientSession(headers=bearer) as session:
        for verb, path in (("GET", "/queues"), ("PUT", "/actors/GatedActor/mine/method/Get"), ("GET", "/dapr/config")):
            async with session.request(verb, url + path) as answer:
                assert answer.status == 403
                assert "access control policy has denied access" in await answer.text()
    # Actor calls between the pods are not service invocation.
    cluster.gate.with_suffix(".open").touch()
    for number in range(10):
        assert await first.call(f"GatedActor/{number}", "Save", "kept") == (200, '"kept"')
        assert await second.call(f"GatedActor/{number}", "Get") == (200, '"kept"')
    for pod in (first, second):
        await pod.end()


async def test_metrics_tell_actor_methods_apart_but_not_ids(cluster: Cluster) -> None:
    cluster.gate.with_suffix(".open").touch()
    pod = await cluster.pod("measured", "gated:app")
    assert (await pod.call("GatedActor/conspicuous", "Save", "x"))[0] == 200
    command = pod.sidecar.process.command
    port = command[command.index("--metrics-port") + 1]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        metrics = await answer.text()
    assert 'path="actors/GatedActor/{id}/method/Save"' in metrics
    assert "conspicuous" not in metrics
    await pod.end()
