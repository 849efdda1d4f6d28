"""The Helm chart, rendered by Helm: the same objects as the overlays, and more that can be turned on."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from aiohttp import ClientSession

import holdfast
from holdfast.cli.serve import serve
from holdfast.cli.worker import worker
from tests.packaging import kustomize
from tests.packaging.helm import CHART, Manifest, chart, template
from tests.packaging.test_monitoring import misnamed
from tests.support.server import Server

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "open-sesame-0123456789"

# One worker renders; the program is built once.
pytestmark = pytest.mark.xdist_group("helm")

EVERYTHING = (
    "worker.enabled=true",
    "worker.queues={activities}",
    "worker.keda.enabled=true",
    "worker.keda.queue=activities",
    "serviceMonitor.enabled=true",
    "autoscaling.enabled=true",
    "networkPolicy.from[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=monitoring",
)
SETTINGS = [
    (),
    ("mode=embedded",),
    EVERYTHING,
    ("mode=embedded", *EVERYTHING),
    ("worker.enabled=true", "worker.autoscaling.enabled=true"),
]
#: Of other projects, which kubernetes_validate does not know.
FOREIGN = ("dapr.io/", "keda.sh/", "monitoring.coreos.com/")


def the(manifests: list[Manifest], kind: str, name: str = "holdfast") -> Manifest:
    (only,) = (found for found in manifests if found["kind"] == kind and found["metadata"]["name"] == name)
    return only


def bare(manifest: Manifest) -> Manifest:
    """Without what Helm and kustomize add in their own ways."""
    copy = deepcopy(manifest)
    copy["metadata"].pop("labels", None)
    for container in copy["spec"].get("template", {}).get("spec", {}).get("containers", []) if "spec" in copy else []:
        container.pop("imagePullPolicy", None)
    return copy


def by_name(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(found["kind"], found["metadata"]["name"]): bare(found) for found in manifests}


@pytest.mark.parametrize("mode", ["dapr", "embedded"])
def test_with_its_defaults_it_is_the_overlay(mode: str) -> None:
    assert by_name(chart(f"mode={mode}")) == by_name(kustomize.rendered(mode))


@pytest.mark.parametrize("version", ["1.30.0", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("settings", SETTINGS)
def test_kubernetes_own_schema_accepts_every_manifest(settings: tuple[str, ...], version: str) -> None:
    for manifest in chart(*settings, kubernetes=version):
        if not manifest["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("settings", SETTINGS)
def test_no_two_objects_have_one_name_and_all_are_of_the_release(settings: tuple[str, ...]) -> None:
    manifests = chart(*settings)
    assert len(by_name(manifests)) == len(manifests)


def test_workers_run_the_activities_and_the_server_none() -> None:
    manifests = chart(*EVERYTHING)
    (server,) = the(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    deployment = the(manifests, "Deployment", "holdfast-worker")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert "--no-worker" in server["args"]
    assert serve.make_context("serve", server["args"][1:]).params["no_worker"] is True
    told = worker.make_context("worker", container["args"][1:]).params
    service = the(manifests, "Service")
    assert told["url"] == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert (told["listen"], told["port"]) == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert told["queues"] == ("activities",)
    # The Service must not send requests to workers.
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    for policy in (found for found in manifests if found["kind"] in {"NetworkPolicy", "PodDisruptionBudget"}):
        name = policy["metadata"]["name"]
        selector = policy["spec"].get("podSelector") or policy["spec"]["selector"]
        labels = pod["metadata"]["labels"].items()
        assert (selector["matchLabels"].items() <= labels) == (name == "holdfast-worker")
    assert container["securityContext"] == server["securityContext"]
    assert "replicas" not in deployment["spec"]


def test_keda_reads_waiting_and_running_items_of_the_queue() -> None:
    manifests = chart(*EVERYTHING)
    scaled = the(manifests, "ScaledObject", "holdfast-worker")["spec"]
    assert scaled["scaleTargetRef"] == {"name": "holdfast-worker"}
    assert scaled["minReplicaCount"] == 0
    assert [trigger["type"] for trigger in scaled["triggers"]] == ["metrics-api"] * 2
    read = [trigger["metadata"] for trigger in scaled["triggers"]]
    assert [metadata["valueLocation"] for metadata in read] == ["count", "locked"]
    for metadata, trigger in zip(read, scaled["triggers"], strict=True):
        assert metadata["url"] == "http://holdfast.shop:8080/queue/activities"
        assert metadata["authMode"] == "bearer"
        the(manifests, "TriggerAuthentication", trigger["authenticationRef"]["name"])


def test_keda_reads_the_age_from_a_metric_that_exists() -> None:
    triggers = the(chart(*EVERYTHING, "worker.keda.ageSecondsPerReplica=60"), "ScaledObject", "holdfast-worker")
    *_, age = triggers["spec"]["triggers"]
    assert age["metadata"] == {
        "url": "http://holdfast.shop:8080/metrics",
        "format": "prometheus",
        "valueLocation": 'holdfast_queue_oldest_age_seconds{queue="activities"}',
        "targetValue": "60",
        "authMode": "bearer",
    }
    assert misnamed(age["metadata"]["valueLocation"]) == []


def test_monitors_find_their_ports_and_send_the_token() -> None:
    manifests = chart(*EVERYTHING)
    (service,) = the(manifests, "ServiceMonitor")["spec"]["endpoints"]
    assert service["port"] in {port["name"] for port in the(manifests, "Service")["spec"]["ports"]}
    (pod,) = the(manifests, "PodMonitor", "holdfast-worker")["spec"]["podMetricsEndpoints"]
    workers = the(manifests, "Deployment", "holdfast-worker")["spec"]["template"]["spec"]["containers"][0]
    assert pod["port"] in {port["name"] for port in workers["ports"]}
    assert service["authorization"] == pod["authorization"] == {"credentials": {"name": "holdfast", "key": "token"}}
    assert the(manifests, "Service")["metadata"]["labels"]["app.kubernetes.io/name"] == "holdfast"


@pytest.mark.parametrize(
    "settings",
    [
        ("mode=cluster",),
        ("replica=2",),
        ("worker.enabled=true", "worker.keda.enabled=true"),
        ("worker.enabled=true", "worker.keda.enabled=true", "worker.keda.queue=q", "worker.autoscaling.enabled=true"),
    ],
)
def test_values_that_cannot_work_are_refused(settings: tuple[str, ...]) -> None:
    assert template(*settings).returncode != 0


def test_it_has_the_version_of_the_package() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert described["version"] == described["appVersion"] == holdfast.__version__


async def test_the_queue_that_keda_reads_is_active_while_items_wait_or_run(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(
        "".join(
            f'[[token]]\nname = "{role}"\nrole = "{role}"\ntenant = "*"\ntoken = "{TOKEN}-{role}"\n'
            for role in ("user", "reader")
        )
    )
    (tmp_path / "tokens.toml").chmod(0o600)
    triggers = the(chart(*EVERYTHING), "ScaledObject", "holdfast-worker")["spec"]["triggers"]
    user, reader = ({"Authorization": f"Bearer {TOKEN}-{role}"} for role in ("user", "reader"))
    async with Server(tmp_path, "--tokens", str(tmp_path / "tokens.toml")) as server, ClientSession() as session:
        queue = server.url + urlsplit(triggers[0]["metadata"]["url"]).path

        async def values() -> list[int]:
            async with session.get(queue, headers=reader) as answer:
                assert answer.status == 200
                told = await answer.json()
            return [told[trigger["metadata"]["valueLocation"]] for trigger in triggers]

        async def post(path: str, body: object) -> dict[str, str]:
            async with session.post(queue + path, json=body, headers=user) as answer:
                assert answer.status == 200
                found: dict[str, str] = await answer.json()
                return found

        assert await values() == [0, 0]
        await post("/push", {"items": [{"item": number} for number in range(3)]})
        assert await values() == [3, 0]
        lock = await post("/pop?require_ack=true&count=3", {})
        assert await values() == [0, 3]
        await post("/acknowledge", {"lock_id": lock["lock_id"]})
        assert await values() == [0, 0]
