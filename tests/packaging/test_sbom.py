"""The bill of materials of the image: what the lock file installs, with its hashes, and what needs what."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from tests.packaging.dockerfile import DOCKERFILE
from tests.packaging.test_lock import REQUIREMENTS, entries, locked
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

BASE = "python:3.12-slim@sha256:" + "ab" * 32


def made(lock: Path = REQUIREMENTS / "serve.txt", *image: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "deploy" / "sbom.py"), str(lock), *image],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return made(REQUIREMENTS / "serve.txt", BASE)


def named(document: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {found["name"]: found for found in document["components"] if f"pkg:{kind}/" in found.get("purl", "")}


def test_it_has_every_locked_package_with_its_hashes(document: dict[str, Any]) -> None:
    packages = named(document, "pypi")
    assert packages.pop("holdfast")["version"] == holdfast.__version__
    assert {name: found["version"] for name, found in packages.items()} == {
        name: str(version) for name, version in locked("serve").items()
    }
    listed = {
        (one["alg"], one["content"])
        for found in packages.values()
        for reference in found["externalReferences"]
        for one in reference["hashes"]
    }
    hashes = re.findall(r"sha256:([0-9a-f]{64})", "\n".join(entries("serve")))
    assert listed == {("SHA-256", one) for one in hashes}


def test_it_has_the_libraries_of_the_page_and_the_base_image(document: dict[str, Any]) -> None:
    assert named(document, "npm").keys() == {"preact", "htm"}
    [base] = [found for found in document["components"] if found["type"] == "container"]
    assert (base["name"], base["version"], base["hashes"][0]["content"]) == ("python", "3.12-slim", "ab" * 32)
    assert 'deploy/sbom.py requirements/serve.txt "${PYTHON_IMAGE}"' in DOCKERFILE.read_text()


def test_everything_is_reached_from_the_image(document: dict[str, Any]) -> None:
    needs = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    refs = [found["bom-ref"] for found in document["components"]]
    assert len(set(refs)) == len(refs)
    reached, open_refs = set(), [document["metadata"]["component"]["bom-ref"]]
    while open_refs:
        one = open_refs.pop()
        reached.add(one)
        open_refs += set(needs.get(one, [])) - reached
    assert reached == {*refs, "image"}


def test_what_is_not_for_linux_is_left_out_and_the_same_lock_gives_the_same_document(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    text = "".join(
        f"{name}==1.0{marker} \\\n    --hash=sha256:{'0' * 64}\n    # via holdfast (pyproject.toml)\n"
        for name, marker in (("kept", " ; sys_platform != 'win32'"), ("left-out", " ; sys_platform == 'win32'"))
    )
    lock.write_text(text)
    first = made(lock)
    assert named(first, "pypi").keys() == {"holdfast", "kept"}
    assert made(lock) == first
    lock.write_text(text.replace("==1.0", "==1.1"))
    assert made(lock)["serialNumber"] != first["serialNumber"]
