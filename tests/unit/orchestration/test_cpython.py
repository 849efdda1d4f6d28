"""CPython's own tests of asyncio: inside orchestrations, and on ordinary loops of a process that runs orchestrations.

They are taken from the interpreter that runs this. Some come without them, such as Debian's ``python3`` and Docker's
``python`` images: these tests fail there, and say how to get them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MISSING = (
    f"{sys.executable} comes without test.test_asyncio, CPython's own tests of asyncio. On Debian and Ubuntu "
    "'apt install libpython3-testsuite' brings them. Elsewhere take a Python that has them (pyenv, uv, python.org's "
    "installers), and remove .venv, so that 'make test' makes it anew with that one."
)


def has_own_tests() -> bool:
    return importlib.util.find_spec("test") is not None and importlib.util.find_spec("test.test_asyncio") is not None


@pytest.fixture(autouse=True)
def own_tests() -> None:
    if not has_own_tests():
        pytest.fail(MISSING, pytrace=False)


#: Far fewer than there are. Below it, the tests were not found rather than not run.
MANY = 500


def run_python(*arguments: str, seed: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_orchestrations(*arguments: str, seed: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run_python("-m", "tests.unit.orchestration.cpython", *arguments, seed=seed))
    return answer


def test_they_hold_inside_orchestrations_kept_rebuilt_and_in_another_process(tmp_path: Path) -> None:
    recorded = in_orchestrations("record", str(tmp_path / "histories"), seed=1)
    assert recorded["failed"] == {}
    assert recorded["held"] > MANY
    replayed = in_orchestrations("replay", str(tmp_path / "histories"), seed=2)
    assert replayed["failed"] == {}
    assert replayed["held"] >= recorded["held"]


# One step of an orchestration, so that everything is in place that a server would have.
STEP = """
from holdfast import App
from tests.unit.orchestration.driver import Driver
app = App()
@app.orchestration
async def nothing(ctx): ...
driver = Driver(app)
driver.start("nothing")
assert driver.output is None
"""

ON_PLAIN_LOOPS = """
import io, json, unittest
NAMES = "context futures locks pep492 queues runners taskgroups tasks timeouts"

class Loader(unittest.TestLoader):
    def getTestCaseNames(self, case):
        # These make a hundred thousand objects, and take longer than all others.
        return [name for name in super().getTestCaseNames(case) if not name.endswith("_del_collect")]

suite = Loader().loadTestsFromNames([f"test.test_asyncio.test_{name}" for name in NAMES.split()])
result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
print(json.dumps({"run": result.testsRun, "failed": sorted(str(case) for case, _ in result.failures + result.errors)}))
"""


def failed_on_plain_loops(program: str) -> set[str]:
    answer = json.loads(run_python("-c", program).splitlines()[-1])
    assert answer["run"] > MANY
    return set(answer["failed"])


def test_ordinary_loops_are_as_they_were_after_orchestrations_ran() -> None:
    if failed := failed_on_plain_loops(STEP + ON_PLAIN_LOOPS):
        # Some of CPython's tests fail with plain asyncio too: without a network always, on a busy machine sometimes.
        failed &= failed_on_plain_loops(STEP + ON_PLAIN_LOOPS)
        assert failed <= failed_on_plain_loops(ON_PLAIN_LOOPS)
