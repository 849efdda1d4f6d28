"""The configuration of a daprd on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from holdfast.local import write_configuration

if TYPE_CHECKING:
    from pathlib import Path


def template(file: Path) -> str:
    resolution = yaml.safe_load(file.read_text())["spec"]["nameResolution"]
    assert resolution["component"] == "kubernetes"
    found: str = resolution["configuration"]["template"]
    return found


def test_each_app_has_its_address(tmp_path: Path) -> None:
    file = write_configuration(tmp_path / "new" / "c.yaml", {"a": "127.0.0.1:1", "b": "127.0.0.1:2"})
    assert template(file) == '{{if eq .ID "a"}}127.0.0.1:1{{else if eq .ID "b"}}127.0.0.1:2{{end}}'


def test_state_may_have_a_time_to_live(tmp_path: Path) -> None:
    spec = yaml.safe_load(write_configuration(tmp_path / "c.yaml", {}).read_text())["spec"]
    assert {"name": "ActorStateTTL", "enabled": True} in spec["features"]
