"""Tilt's mode with a cluster: the image it builds, the chart it renders, and the secrets that the pods ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.dockerfile import DOCKERFILE, reaches_the_build, stages
from tests.packaging.helm import CHART, Manifest, chart
from tests.packaging.test_chart import the
from tests.packaging.tiltfile import Tilt, run
from tests.support.checkout import ROOT

# The tests of the chart run together.
pytestmark = pytest.mark.xdist_group("helm")

TILTFILE = ROOT / "tilt" / "cluster" / "Tiltfile"
DATABASE = "host=db.example user=holdfast dbname=holdfast"


class ClusterTilt(Tilt):
    """Tilt's builtins for clusters, with the parameters that Tilt 0.37 knows and the Tiltfile uses."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings, None, TILTFILE)
        self.manifests: list[Manifest] = []
        self.images: dict[str, dict[str, Any]] = {}
        self.forwards: dict[str, list[str]] = {}

    def docker_build(self, ref: str, context: str, *, dockerfile: str, only: list[str], ignore: list[str]) -> None:
        self.images[ref] = {"context": context, "dockerfile": dockerfile, "only": only, "ignore": ignore}

    def helm(self, path: str, *, name: str, set: list[str]) -> str:  # noqa: A002  (Tilt's name)
        assert (Path(path), name) == (CHART, "holdfast")
        return yaml.safe_dump_all(chart(*set))

    def encode_yaml(self, value: Any) -> str:
        return yaml.safe_dump(value)

    def k8s_yaml(self, text: str) -> None:
        self.manifests += yaml.safe_load_all(text)

    def k8s_resource(self, workload: str, *, port_forwards: list[str], labels: list[str]) -> None:
        assert labels
        self.forwards[workload] = port_forwards


def evaluated(**settings: str) -> ClusterTilt:
    tilt = ClusterTilt(settings)
    run(tilt, TILTFILE)
    return tilt


def secrets_in(value: Any) -> set[tuple[str, str]]:
    """Returns name and key of each Secret that something below refers to."""
    if isinstance(value, list):
        return set().union(*map(secrets_in, value))
    if not isinstance(value, dict):
        return set()
    found = set().union(*map(secrets_in, value.values()))
    return found | {(one["name"], one["key"]) for key, one in value.items() if key == "secretKeyRef"}


@pytest.mark.parametrize(("settings", "kind"), [({}, "StatefulSet"), ({"postgresql": DATABASE}, "Deployment")])
def test_everything_that_the_pods_need_is_there(settings: dict[str, str], kind: str) -> None:
    tilt = evaluated(**settings)
    [container] = the(tilt.manifests, kind)["spec"]["template"]["spec"]["containers"]
    assert container["image"].partition(":")[0] in tilt.images
    [forward] = tilt.forwards["holdfast"]
    assert forward == f"8080:{container['ports'][0]['containerPort']}"
    given = {
        (found["metadata"]["name"], key)
        for found in tilt.manifests
        if found["kind"] == "Secret"
        for key in found["stringData"]
    }
    needed = secrets_in(tilt.manifests)
    assert needed
    assert needed <= given


def test_the_image_is_built_from_all_that_its_dockerfile_copies_and_nothing_else() -> None:
    [image] = evaluated().images.values()
    assert (Path(image["context"]), Path(image["dockerfile"])) == (ROOT, DOCKERFILE)
    copied = {source for stage in stages() for sources, _ in stage.copies_of_context() for source in sources}
    assert all(any(Path(source).is_relative_to(one) for one in image["only"]) for source in copied)
    assert all(any(Path(source).is_relative_to(one) for source in copied) for one in image["only"])
    assert all(reaches_the_build(ROOT / source) for source in copied)


def test_port_token_and_database_can_be_set() -> None:
    tilt = evaluated(port="9000", token="another-token-0123", postgresql=DATABASE)
    assert tilt.forwards == {"holdfast": ["9000:8080"]}
    assert the(tilt.manifests, "Secret")["stringData"] == {"token": "another-token-0123"}
    assert the(tilt.manifests, "Secret", "holdfast-postgresql")["stringData"] == {"connection-string": DATABASE}
