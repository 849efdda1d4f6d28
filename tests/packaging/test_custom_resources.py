"""Dapr's, KEDA's and the Prometheus operator's own schemas accept the objects of overlays and chart."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.packaging import kustomize
from tests.packaging.custom_resources import SOURCES, wrong_in
from tests.packaging.helm import Manifest, chart
from tests.packaging.test_chart import EVERYTHING, SETTINGS, the

pytestmark = pytest.mark.xdist_group("helm")


def of_others(manifests: list[Manifest]) -> list[Manifest]:
    return [found for found in manifests if found["apiVersion"].partition("/")[0] in SOURCES]


@pytest.mark.parametrize("settings", [*SETTINGS, (*EVERYTHING, "worker.keda.ageSecondsPerReplica=60")])
def test_the_chart(settings: tuple[str, ...]) -> None:
    for manifest in of_others(chart(*settings)):
        assert wrong_in(manifest) == [], manifest["kind"]


def test_the_overlays() -> None:
    manifests = of_others(kustomize.rendered("dapr"))
    assert {found["kind"] for found in manifests} == {"Component", "Configuration"}
    for manifest in manifests:
        assert wrong_in(manifest) == [], manifest["kind"]


def test_all_kinds_are_compared() -> None:
    assert {found["kind"] for found in of_others(chart(*EVERYTHING))} == {
        *("Component", "Configuration", "TriggerAuthentication", "ScaledObject", "ServiceMonitor", "PodMonitor")
    }


def test_what_is_misspelt_or_of_a_wrong_type_is_found() -> None:
    configuration = deepcopy(the(chart(), "Configuration"))
    configuration["spec"]["accessControl"]["defaultActions"] = "deny"
    [wrong] = wrong_in(configuration)
    assert "defaultActions" in wrong
    scaled = deepcopy(the(chart(*EVERYTHING), "ScaledObject", "holdfast-worker"))
    scaled["spec"]["minReplicaCount"] = "0"
    scaled["spec"]["triggers"][0]["metadata"]["targetValue"] = 5
    assert [line.partition(":")[0] for line in wrong_in(scaled)] == [
        "$.spec.minReplicaCount",
        "$.spec.triggers[0].metadata.targetValue",
    ]
