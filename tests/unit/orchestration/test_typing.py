"""The results of ctx have the types of the functions that were called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT


def test_an_orchestration_has_the_types_it_should_have() -> None:
    usage = str(Path(__file__).with_name("typed_usage.py"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--warn-unused-ignores", "--disable-error-code=empty-body", usage],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
