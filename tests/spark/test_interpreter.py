"""Spark starts the Python that Holdfast is installed in, wherever that one lies."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.spark.interpreter import python_variables

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("folder", ["plain", "with spaces (1)", "süß", "it's"])
def test_a_shell_finds_it_without_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    program = tmp_path / folder / "python"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho this one\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    variables = python_variables()
    # As Spark 4 looks for it before it looks for data sources, and as it then starts it.
    shell = ["sh", "-c", f"command -v {variables['PYSPARK_PYTHON']}"]
    assert subprocess.run(shell, env={**os.environ, **variables}, capture_output=True, check=False).returncode == 0
    monkeypatch.setenv("PATH", variables.get("PATH", os.environ["PATH"]))
    assert (
        subprocess.run([variables["PYSPARK_PYTHON"]], capture_output=True, text=True, check=True).stdout == "this one\n"
    )
