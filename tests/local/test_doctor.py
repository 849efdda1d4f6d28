"""`holdfast doctor` says what is there, what is missing and how to get it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.doctor import doctor
from holdfast.local import DAPR_VERSION

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(doctor, arguments)


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing but Python: neither programs nor the wheels that bring some."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("JAVA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("holdfast.local.postgres.usable_postgres", lambda: iter(()))
    return tmp_path


def test_all_that_the_tests_need_is_found_here() -> None:
    answer = json.loads(run("--json").output)
    found = {part["name"]: part for part in answer["components"] if part["found"]}
    assert {"Python", "Holdfast", "SQLite", "daprd", "placement", "scheduler", "PostgreSQL", "Java"} <= set(found)
    assert found["Python"]["where"] == sys.executable
    assert found["daprd"]["version"] == DAPR_VERSION
    assert all(part["version"] and part["where"] for part in found.values())


@pytest.mark.usefixtures("bare_machine")
def test_python_alone_is_enough_for_the_embedded_server() -> None:
    result = run()
    assert result.exit_code == 0
    assert "Nothing is missing for holdfast serve." in result.output


@pytest.mark.usefixtures("bare_machine")
def test_what_is_missing_comes_with_how_to_get_it() -> None:
    answer = json.loads(run("--json").output)
    missing = {part["name"]: part["how_to_get"] for part in answer["components"] if not part["found"]}
    assert set(missing) == {
        *("daprd", "placement", "scheduler", "Go", "PostgreSQL", "Java", "Chromium", "tilt", "kubectl")
    }
    assert all(missing.values())
    table = run().output
    assert all(name in table for name in missing)
    assert "dapr init --slim" in table


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("purpose", ["dapr", "postgresql", "spark", "page", "tilt", "deploy"])
def test_a_purpose_that_lacks_something_ends_with_3(purpose: str) -> None:
    result = run("--for", "embedded", "--for", purpose)
    assert result.exit_code == 3
    assert "Missing for" in result.output
    assert json.loads(run("--json", "--for", purpose).output)["ok"] is False


def test_a_program_of_another_version_is_named(bare_machine: Path) -> None:
    other = bare_machine / "daprd"
    other.write_text("github.com/dapr/dapr/pkg/buildinfo.version=1.12.0 ")
    other.chmod(0o755)
    assert f"{other} is 1.12.0" in run().output


def test_a_wrong_call_ends_with_2() -> None:
    assert run("--for", "nothing").exit_code == 2
