"""The schemas of Dapr's, KEDA's and the Prometheus operator's objects, from the Go modules that define them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from holdfast.local.binaries import DAPR_VERSION
from holdfast.local.toolchain import find_go

#: The module and the folder of its definitions, by API group.
SOURCES = {
    "dapr.io": (f"github.com/dapr/dapr@v{DAPR_VERSION}", "charts/dapr/crds"),
    "keda.sh": ("github.com/kedacore/keda/v2@v2.17.2", "config/crd/bases"),
    "monitoring.coreos.com": (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd",
    ),
}


def wrong_in(manifest: dict[str, Any]) -> list[str]:
    """Returns what the object's own schema refuses, fields that it does not know included."""
    group, _, version = manifest["apiVersion"].partition("/")
    schema = _definition(group, manifest["kind"])[version]
    errors = jsonschema.Draft7Validator(schema).iter_errors(manifest)
    return sorted(f"{error.json_path}: {error.message}" for error in errors)


@cache
def _definition(group: str, kind: str) -> dict[str, dict[str, Any]]:
    """Returns the strict schemas of a kind, by version."""
    module, folder = SOURCES[group]
    # Definitions of other kinds are not read: they are large, and some are not plain YAML.
    files = (file.read_text("utf-8") for file in sorted((_downloaded(module) / folder).glob("*.yaml")))
    [text] = (text for text in files if f"\n    kind: {kind}\n" in text)
    versions = yaml.load(text, yaml.CSafeLoader)["spec"]["versions"]
    return {version["name"]: _strict(version["schema"]["openAPIV3Schema"]) for version in versions}


@cache
def _downloaded(module: str) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        outcome = subprocess.run(
            [find_go().program, "mod", "download", "-json", module],
            cwd=scratch,
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert outcome.returncode == 0, f"{module} could not be downloaded: {outcome.stdout}{outcome.stderr}"
    return Path(json.loads(outcome.stdout)["Dir"])


def _strict(schema: Any) -> Any:
    """Returns the schema as JSON Schema that refuses unknown fields, as the server does for `kubectl apply`."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {
        key: {name: _strict(one) for name, one in value.items()} if key == "properties" else _strict(value)
        for key, value in schema.items()
        # Of Go: int32, int64 and the like.
        if key != "format"
    }
    if "properties" in strict and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        strict.pop("anyOf", None)
        strict["type"] = ["integer", "string"]
    if schema.get("nullable") and isinstance(strict.get("type"), str):
        strict["type"] = [strict["type"], "null"]
    return strict
