"""The client's types are part of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT


def test_a_callers_code_has_the_types_it_should_have() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--warn-unused-ignores", str(Path(__file__).with_name("typed_usage.py"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_package_does_not_import_the_client_before_it_is_asked_for() -> None:
    code = (
        "import sys, holdfast; assert 'holdfast.client' not in sys.modules; "
        "from holdfast import Client; assert Client is sys.modules['holdfast.client'].Client"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
