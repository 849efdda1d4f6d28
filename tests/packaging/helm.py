"""Renders the chart with Helm itself: the machine's own, or one built once with Go."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from holdfast.local.toolchain import find_go
from tests.support.checkout import ROOT

VERSION = "v3.16.4"
CHART = ROOT / "deploy" / "helm" / "holdfast"

Manifest = dict[str, Any]


@cache
def chart(*settings: str, kubernetes: str = "1.30.0") -> list[Manifest]:
    """Every manifest of a release named holdfast, with these values (`--set`)."""
    outcome = template(*settings, kubernetes=kubernetes)
    assert outcome.returncode == 0, f"helm refuses {settings}: {outcome.stderr}"
    return [manifest for manifest in yaml.safe_load_all(outcome.stdout) if manifest]


def template(*settings: str, kubernetes: str = "1.30.0") -> subprocess.CompletedProcess[str]:
    options = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run(
        [_helm(), "template", "holdfast", str(CHART), "--namespace", "shop", "--kube-version", kubernetes, *options],
        capture_output=True,
        text=True,
        timeout=60,
    )


@cache
def _helm() -> str:
    return shutil.which("helm") or str(_built())


def _built() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast" / "helm"
    program = folder / f"helm-{VERSION}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the last step is a rename: another test run finds it whole or not at all.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            outcome = subprocess.run(
                [find_go().program, "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"],
                env={**os.environ, "GOBIN": scratch, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                timeout=1200,
            )
            assert outcome.returncode == 0, f"helm {VERSION} could not be built: {outcome.stderr}"
            (Path(scratch) / "helm").rename(program)
    return program
