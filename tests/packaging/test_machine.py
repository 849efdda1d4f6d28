"""One machine without Kubernetes: the compose file and the systemd unit start servers that this version has."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tomllib
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

import holdfast
from holdfast.cli.serve import serve
from tests.packaging.dockerfile import DOCKERFILE, stages
from tests.support.checkout import ROOT

COMPOSE = ROOT / "deploy" / "compose" / "compose.yaml"
UNIT = ROOT / "deploy" / "systemd" / "holdfast.service"


def service() -> dict[str, Any]:
    (found,) = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"].values()
    assert isinstance(found, dict)
    return found


def unit() -> RawConfigParser:
    # Strict: no key twice.
    parser = RawConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text("utf-8"))
    return parser


def drain_timeout() -> float:
    (found,) = (option.default for option in serve.params if option.name == "drain_timeout")
    assert isinstance(found, float)
    return found


def variables() -> set[str]:
    return {str(option.envvar) for option in serve.params if getattr(option, "envvar", None)}


def test_compose_builds_and_runs_the_image_with_its_token_and_volume() -> None:
    image, told = stages()[-1], service()
    composed = yaml.safe_load(COMPOSE.read_text("utf-8"))
    assert told["image"] == f"holdfast:{holdfast.__version__}"
    context = (COMPOSE.parent / told["build"]["context"]).resolve()
    assert context == ROOT
    assert context / told["build"]["dockerfile"] == DOCKERFILE
    serve.make_context("serve", told["command"][1:])
    assert told["command"][0] == "serve"
    assert set(told["environment"]) <= variables()
    (secret,) = told["secrets"]
    assert told["environment"]["HOLDFAST_TOKEN_FILE"] == f"/run/secrets/{secret}"
    assert secret in composed["secrets"]
    (volume,) = told["volumes"]
    name, _, target = volume.partition(":")
    assert name in composed["volumes"]
    assert target == image.environment["HOLDFAST_DATA"]
    (port,) = told["ports"]
    assert port.startswith("127.0.0.1:")
    assert port.endswith(f":{image.environment['HOLDFAST_PORT']}")


def test_compose_runs_it_without_rights_it_does_not_need_and_lets_it_drain() -> None:
    told = service()
    assert told["read_only"] is True
    assert told["tmpfs"] == ["/tmp"]
    assert told["cap_drop"] == ["ALL"]
    assert told["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "pid", "user"} & told.keys()
    assert float(told["stop_grace_period"].removesuffix("s")) > drain_timeout()


def test_the_unit_starts_a_server_with_options_that_exist(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame-0123456789")
    started = unit()["Service"]["ExecStart"]
    for name in ("STATE_DIRECTORY", "CREDENTIALS_DIRECTORY"):
        assert f"${{{name}}}" in started
        started = started.replace(f"${{{name}}}", str(tmp_path))
    program, command, *arguments = shlex.split(started)
    assert Path(program).name == "holdfast"
    assert command == "serve"
    told = serve.make_context("serve", arguments).params
    assert told["host_name"] == "embedded"
    assert Path(told["data"]) == tmp_path


def test_the_unit_gives_the_token_and_the_folder_that_it_names() -> None:
    told = unit()["Service"]
    credential, _, source = told["LoadCredential"].partition(":")
    assert f"${{CREDENTIALS_DIRECTORY}}/{credential}" in told["ExecStart"]
    assert Path(source).is_absolute()
    assert told["StateDirectory"] == "holdfast"
    assert float(told["TimeoutStopSec"]) > drain_timeout()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("SystemCallFilter", "@system-service"),
    ],
)
def test_the_unit_is_hardened(key: str, value: str) -> None:
    assert unit()["Service"][key] == value


def test_systemd_itself_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        # The tests above hold without it: a machine without systemd has nothing else to check the keys with.
        assert set(unit().sections()) == {"Unit", "Service", "Install"}
        return
    # Only the program is not installed here.
    text = UNIT.read_text("utf-8").replace("/opt/holdfast/bin/holdfast", shutil.which("true") or "/bin/true")
    (tmp_path / UNIT.name).write_text(text)
    outcome = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / UNIT.name)], capture_output=True, text=True, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr
    assert UNIT.name not in outcome.stderr


def test_the_image_has_the_labels_that_tools_read() -> None:
    (labels,) = stages()[-1].all("LABEL")
    found = dict(word.split("=", 1) for word in shlex.split(labels))
    prefix = "org.opencontainers.image."
    assert {key.removeprefix(prefix) for key in found} == {"title", "description", "licenses", "version", "revision"}
    assert found[f"{prefix}version"] == holdfast.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert found[f"{prefix}licenses"] == project["license"]
