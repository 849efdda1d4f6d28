"""``record FILE`` runs the tests, kept and rebuilt, and writes their histories; ``replay FILE`` takes those up here.

Both print JSON: the number of tests that pass, and the outcome of each test that does not.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from holdfast.orchestration.core.history import load_event
from holdfast.orchestration.core.replayer import verify_history
from holdfast.orchestration.status import Status
from tests.unit.orchestration.cpython.harness import an_app, names_of, prepare
from tests.unit.orchestration.cpython.scope import SCOPE, reason_against
from tests.unit.orchestration.driver import Driver

APP = an_app()


def outcome(name: str, *, cold: bool) -> tuple[str, Driver]:
    driver = Driver(APP, name, cold=cold)
    # The tests' loops begin at 0 as well.
    driver.now = 0.0
    driver.start("cpython", name)
    while driver.status is Status.RUNNING and driver.instance.next_moment is not None:
        driver.wait()
    driver.instance.close()
    if driver.status is Status.COMPLETED:
        return driver.output, driver
    return str(driver.error if driver.status is Status.FAILED else driver.status), driver


def record(file: Path) -> dict[str, Any]:
    held, failed, histories = 0, {}, {}
    for module, classes in SCOPE.items():
        for name in names_of(module, classes.split()):
            if reason_against(name) is not None:
                continue
            live, driver = outcome(name, cold=False)
            rebuilt, _ = outcome(name, cold=True)
            if {live, rebuilt} <= {"passed", "skipped"}:
                held += live == "passed"
                histories[name] = [event.dump() for event in driver.history]
            else:
                failed[name] = {"live": live, "rebuilt": rebuilt}
    file.write_bytes(to_json(histories))
    return {"held": held, "failed": failed}


def replay(file: Path) -> dict[str, Any]:
    held, failed = 0, {}
    for name, events in from_json(file.read_bytes()).items():
        try:
            verify_history(APP.registry, name, [load_event(event) for event in events])
            held += 1
        except Exception as error:
            failed[name] = {"in another process": str(error)}
    return {"held": held, "failed": failed}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    prepare()
    print(json.dumps({"record": record, "replay": replay}[sys.argv[1]](Path(sys.argv[2]))))
