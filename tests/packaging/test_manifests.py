"""The manifests of the overlays are valid, hardened, and consistent with each other and with the image."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import holdfast
from holdfast.cli.serve import serve
from holdfast.local.components import component_file
from holdfast.runtime.dapr.admission import VARIABLE
from tests.packaging.dockerfile import stages
from tests.packaging.kustomize import Manifest, of_kind, rendered, the
from tests.packaging.sidecar import SIDECAR_FLAGS, SIDECAR_SETTINGS
from tests.support.checkout import ROOT

OVERLAYS = ["dapr", "embedded"]
# The oldest that has the `sleep` of preStop, and the newest whose schemas are installed.
KUBERNETES_VERSIONS = ["1.30.0", kubernetes_validate.latest_version()]
README = (ROOT / "deploy" / "README.md").read_text()


def workload(overlay: str) -> Manifest:
    (only,) = of_kind(overlay, "Deployment") + of_kind(overlay, "StatefulSet")
    return only


def pod(overlay: str) -> Manifest:
    template: Manifest = workload(overlay)["spec"]["template"]
    return template


def container(overlay: str) -> Manifest:
    (only,) = pod(overlay)["spec"]["containers"]
    found: Manifest = only
    return found


def pod_annotations() -> dict[str, str]:
    found: dict[str, str] = pod("dapr")["metadata"]["annotations"]
    return found


def drain_timeout() -> float:
    """Returns the default drain timeout of `holdfast serve`."""
    (found,) = (option.default for option in serve.params if option.name == "drain_timeout")
    assert isinstance(found, float)
    return found


def everything_named(value: Any, key: str) -> list[Any]:
    """Every value that lies under `key`, however deep."""
    if isinstance(value, dict):
        here = [value[key]] if key in value else []
        return here + [found for inner in value.values() for found in everything_named(inner, key)]
    if isinstance(value, list):
        return [found for inner in value for found in everything_named(inner, key)]
    return []


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_own_schema_accepts_every_manifest(overlay: str, version: str) -> None:
    checked = [manifest for manifest in rendered(overlay) if not manifest["apiVersion"].startswith("dapr.io/")]
    assert {"Service", "ServiceAccount", "NetworkPolicy"} < {manifest["kind"] for manifest in checked}
    for manifest in checked:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_does_not_pass_the_schema() -> None:
    broken = {**the("dapr", "Service"), "spec": {**the("dapr", "Service")["spec"], "selectors": {}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES_VERSIONS[0], strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_selector_finds_the_pods(overlay: str) -> None:
    labels = pod(overlay)["metadata"]["labels"].items()
    selectors = [
        workload(overlay)["spec"]["selector"]["matchLabels"],
        the(overlay, "Service")["spec"]["selector"],
        *(policy["spec"]["podSelector"]["matchLabels"] for policy in of_kind(overlay, "NetworkPolicy")),
        *(budget["spec"]["selector"]["matchLabels"] for budget in of_kind(overlay, "PodDisruptionBudget")),
        *(
            spread["labelSelector"]["matchLabels"]
            for spread in pod(overlay)["spec"].get("topologySpreadConstraints", [])
        ),
    ]
    for selector in selectors:
        assert selector.items() <= labels


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_port_that_is_named_is_one_the_container_has(overlay: str) -> None:
    ports = {port["name"]: port["containerPort"] for port in container(overlay)["ports"]}
    named = [
        *(port["targetPort"] for port in the(overlay, "Service")["spec"]["ports"]),
        *(probe["port"] for probe in everything_named(container(overlay), "httpGet")),
        *(
            port["port"]
            for policy in of_kind(overlay, "NetworkPolicy")
            for rule in policy["spec"]["ingress"]
            for port in rule["ports"]
            if isinstance(port["port"], str)
        ),
    ]
    assert set(named) <= set(ports)
    environment = {entry["name"]: entry.get("value") for entry in container(overlay)["env"]}
    assert environment["HOLDFAST_PORT"] == str(ports["http"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_secrets_are_named_not_committed_and_the_readme_makes_each(overlay: str) -> None:
    assert not of_kind(overlay, "Secret")
    made = {
        name: set(re.findall(r"--from-literal=([\w-]+)=", arguments))
        for name, arguments in re.findall(r"create secret generic (\S+) ((?:[^\n]*\\\n)*[^\n]*)", README)
    }
    wanted = [(ref["name"], ref["key"]) for ref in everything_named(rendered(overlay), "secretKeyRef")]
    if overlay == "dapr":
        # The injector reads the key `token` of the secret that this annotation names.
        wanted.append((pod_annotations()["dapr.io/app-token-secret"], "token"))
    assert wanted
    for name, key in wanted:
        assert key in made.get(name, set()), f"README does not say how to make the secret {name} with {key}"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_volumes_accounts_and_the_image_fit_together(overlay: str) -> None:
    image = stages()[-1]
    spec = pod(overlay)["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]} | {
        claim["metadata"]["name"] for claim in workload(overlay)["spec"].get("volumeClaimTemplates", [])
    }
    mounts = {mount["mountPath"]: mount["name"] for mount in container(overlay)["volumeMounts"]}
    assert set(mounts.values()) == volumes
    assert spec["serviceAccountName"] == the(overlay, "ServiceAccount")["metadata"]["name"]
    assert container(overlay)["image"] == f"holdfast:{holdfast.__version__}"
    context = container(overlay)["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == image.one("USER")
    command, module, option, host = container(overlay)["args"]
    assert (command, module) == tuple(image.exec_form("CMD"))
    assert (option, host) == ("--host", overlay)
    if overlay == "embedded":
        assert mounts[image.environment["HOLDFAST_DATA"]] == "data"
        assert spec["securityContext"]["fsGroup"] == context["runAsGroup"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_has_no_rights_it_does_not_need(overlay: str) -> None:
    spec, context = pod(overlay)["spec"], container(overlay)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["runAsUser"] > 0
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    resources = container(overlay)["resources"]
    assert {"cpu", "memory"} <= resources["requests"].keys()
    assert "memory" in resources["limits"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_does_not_set_our_port_to_the_address_of_the_service(overlay: str) -> None:
    assert the(overlay, "Service")["metadata"]["name"] == "holdfast"
    assert pod(overlay)["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_it_is_restarted_when_not_alive_and_left_out_when_not_ready(overlay: str) -> None:
    paths = {
        probe: container(overlay)[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_the_embedded_host_is_alone_with_its_volume() -> None:
    assert workload("embedded")["kind"] == "StatefulSet"
    assert workload("embedded")["spec"]["replicas"] == 1
    assert not of_kind("embedded", "Component")
    assert not everything_named(rendered("embedded"), "annotations")


def test_dapr_spreads_over_several_pods_that_leave_one_at_a_time() -> None:
    assert workload("dapr")["spec"]["replicas"] == 3
    assert workload("dapr")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert the("dapr", "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_every_annotation_is_one_that_this_dapr_reads() -> None:
    assert set(pod_annotations()) <= SIDECAR_FLAGS.keys() | SIDECAR_SETTINGS


def test_the_sidecar_finds_its_configuration_component_and_app() -> None:
    told = pod_annotations()
    store = the("dapr", "Component")
    assert told["dapr.io/config"] == the("dapr", "Configuration")["metadata"]["name"]
    assert store["scopes"] == [told["dapr.io/app-id"]]
    assert told["dapr.io/app-port"] == str(container("dapr")["ports"][0]["containerPort"])


def test_the_state_store_is_the_ready_component_with_its_secret_elsewhere() -> None:
    ready = yaml.safe_load(component_file("postgresql-v2").read_text())["spec"]
    ours = the("dapr", "Component")["spec"]
    assert {key: ours[key] for key in ("type", "version")} == {key: ready[key] for key in ("type", "version")}
    entries, ready_entries = (
        {entry.pop("name"): entry for entry in deepcopy(spec["metadata"])} for spec in (ours, ready)
    )
    assert entries.pop("connectionString").keys() == {"secretKeyRef"}
    del ready_entries["connectionString"]
    assert entries == ready_entries


def test_the_time_to_end_is_enough_for_the_app_to_drain_and_then_for_daprd() -> None:
    told = pod_annotations()
    leaving = int(told["dapr.io/graceful-shutdown-seconds"])
    before = container("dapr")["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert told["dapr.io/enable-native-sidecar"] == "true"
    assert before + drain_timeout() + leaving < pod("dapr")["spec"]["terminationGracePeriodSeconds"]
    assert drain_timeout() < pod("embedded")["spec"]["terminationGracePeriodSeconds"]


def test_only_holdfasts_pods_and_named_clients_reach_daprds_internal_port() -> None:
    (policy,) = (found for found in of_kind("dapr", "NetworkPolicy") if found["metadata"]["name"] == "holdfast-daprd")
    (rule,) = (rule for rule in policy["spec"]["ingress"] if {"port": 50002} in rule["ports"])
    admitted = [source["podSelector"]["matchLabels"] for source in rule["from"]]
    assert admitted == [{"app.kubernetes.io/name": "holdfast"}, {"holdfast-client": "true"}]
    # The pods call each other's actors there.
    assert admitted[0].items() <= pod("dapr")["metadata"]["labels"].items()
    assert not any("namespaceSelector" in source or "ipBlock" in source for source in rule["from"])
    assert 'holdfast-client: "true"' in README


def test_no_app_calls_by_app_id_that_is_not_named() -> None:
    policy = the("dapr", "Configuration")["spec"]["accessControl"]
    assert policy == {"defaultAction": "deny", "trustDomain": "public", "policies": []}


def test_the_policy_that_the_readme_shows_leaves_out_what_is_daprds_own() -> None:
    shown = next(block for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL) if "accessControl" in block)
    (change,) = yaml.safe_load(yaml.safe_load(shown)["patches"][0]["patch"])
    assert change["path"] == "/spec/accessControl/policies"
    (shop,) = change["value"]
    assert shop["defaultAction"] == "deny"
    names = {operation["name"].strip("/").partition("/")[0] for operation in shop["operations"]}
    assert names == {"queue", "queues", "orchestrations", "idempotency"}


def test_the_pods_share_a_secret_for_actor_calls() -> None:
    environment = {entry["name"]: entry.get("valueFrom") for entry in container("dapr")["env"]}
    assert environment[VARIABLE]["secretKeyRef"] == {"name": "holdfast-dapr", "key": "actor-secret"}
    assert environment[VARIABLE] != environment["APP_API_TOKEN"]


def test_an_app_that_drains_is_not_taken_for_a_dead_one() -> None:
    told = pod_annotations()
    interval, threshold = (int(told[f"dapr.io/app-health-{name}"]) for name in ("probe-interval", "threshold"))
    # The first check may fail the moment after the app stopped answering.
    assert interval * (threshold - 1) >= drain_timeout()


def test_no_file_of_an_overlay_is_left_out() -> None:
    for folder in (ROOT / "deploy" / "kubernetes").rglob("kustomization.yaml"):
        listed = set(re.findall(r"^  - (\S+\.yaml)$", folder.read_text(), re.MULTILINE))
        assert listed == {file.name for file in Path(folder.parent).glob("*.yaml")} - {folder.name}
