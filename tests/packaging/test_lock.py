"""The locked requirements: whole, with hashes, for every platform, and used wherever something is installed."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.packaging.dockerfile import DOCKERFILE, stages
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIREMENTS = ROOT / "deploy" / "requirements"
LOCKS = ("build", "serve", "dev", "bench")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def entries(lock: str) -> list[str]:
    """Each requirement with its hashes, on one line."""
    text = (REQUIREMENTS / f"{lock}.txt").read_text().replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def locked(lock: str) -> dict[str, Version]:
    requirements = [Requirement(entry.partition(" --hash")[0]) for entry in entries(lock)]
    return {name(one): Version(next(iter(one.specifier)).version) for one in requirements}


def name(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


def declared(*extras: str) -> Iterator[Requirement]:
    every = PROJECT["project"]["optional-dependencies"]
    for text in (*PROJECT["project"]["dependencies"], *(text for extra in extras for text in every[extra])):
        requirement = Requirement(text)
        if requirement.name == "holdfast":
            yield from declared(*requirement.extras)
        else:
            yield requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_is_pinned_by_hash(lock: str) -> None:
    assert entries(lock)
    for entry in entries(lock):
        assert re.fullmatch(r"[\w.\[\],-]+==[\w.]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", entry), entry


@pytest.mark.parametrize("lock", LOCKS)
def test_nothing_says_where_to_look(lock: str) -> None:
    """The installing machine chooses its package index, so the lock files name none."""
    text = (REQUIREMENTS / f"{lock}.txt").read_text()
    assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|://|@ ", text)


@pytest.mark.parametrize(
    ("lock", "extras"), [("serve", []), ("dev", ["dev"]), ("bench", ["dev", "bench"])], ids=lambda value: str(value)
)
def test_what_the_project_declares_is_locked(lock: str, extras: list[str]) -> None:
    found = locked(lock)
    for requirement in declared(*extras):
        assert found[name(requirement)] in requirement.specifier, f"{requirement}: run 'make lock'"
    for text in PROJECT["dependency-groups"]["build"]:
        assert locked("build")[name(Requirement(text))] in Requirement(text).specifier


def test_what_is_tested_is_what_the_image_has() -> None:
    tested = locked("dev")
    assert {one: tested.get(one) for one in locked("serve")} == locked("serve")


def test_the_makefile_installs_nothing_else() -> None:
    text = (ROOT / "Makefile").read_text()
    installs = re.findall(r"^\t@\$\(INSTALL\) (.*)$", text, re.MULTILINE)
    assert len(installs) == 4
    assert all("--require-hashes" in install and "deploy/requirements/" in install for install in installs)
    [itself] = re.findall(r"^INSTALL_ITSELF := \$\(INSTALL\) (.*)$", text, re.MULTILINE)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(itself.split())


def test_the_image_installs_nothing_else() -> None:
    runs = [run for stage in stages() for run in stage.all("RUN")]
    steps = [step for run in runs for step in run.split("&&") if step.lstrip().startswith("pip ")]
    assert len(steps) == 4
    for step in steps:
        assert "--require-hashes" in step or "--no-index" in step, step


def test_the_base_image_is_named_by_digest() -> None:
    [image] = re.findall(r"^ARG PYTHON_IMAGE=(.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}", image)
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)
    assert set(bases) == {"${PYTHON_IMAGE}"}
