"""Renders a kustomization with kustomize itself: the machine's own, or one built once with Go."""

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

VERSION = "v5.8.1"
OVERLAYS = ROOT / "deploy" / "kubernetes" / "overlays"

Manifest = dict[str, Any]


@cache
def rendered(overlay: str) -> list[Manifest]:
    """Every manifest of an overlay, as `kubectl apply -k` would send it."""
    outcome = subprocess.run([*_command(), str(OVERLAYS / overlay)], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, f"kustomize refuses the overlay {overlay}: {outcome.stderr}"
    return list(yaml.safe_load_all(outcome.stdout))


def of_kind(overlay: str, kind: str) -> list[Manifest]:
    return [manifest for manifest in rendered(overlay) if manifest["kind"] == kind]


def the(overlay: str, kind: str) -> Manifest:
    (only,) = of_kind(overlay, kind)
    return only


@cache
def _command() -> list[str]:
    if kustomize := shutil.which("kustomize"):
        return [kustomize, "build"]
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize"]
    return [str(_built()), "build"]


def _built() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast" / "kustomize"
    program = folder / f"kustomize-{VERSION}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the last step is a rename: another test run finds it whole or not at all.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            outcome = subprocess.run(
                [find_go().program, "install", f"sigs.k8s.io/kustomize/kustomize/v5@{VERSION}"],
                env={**os.environ, "GOBIN": scratch, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                timeout=1200,
            )
            assert outcome.returncode == 0, f"kustomize {VERSION} could not be built: {outcome.stderr}"
            (Path(scratch) / "kustomize").rename(program)
    return program
