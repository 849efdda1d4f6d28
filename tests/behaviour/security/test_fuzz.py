"""Every route, every role, both tenants: no fault, no huge answer, no leak, and no request holds the event loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.behaviour.security.fuzz.run import run
from tests.support.seeds import VARIABLE, fresh_seeds

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("HOLDFAST_FUZZ_SECONDS", "25"))


async def test_no_request_breaks_a_promise(tmp_path: Path) -> None:
    [seed] = fresh_seeds(1)
    outcome = await run(tmp_path, seed, SECONDS)
    print(outcome.report())
    assert not outcome.findings, f"{VARIABLE}={seed} sends the same requests again.\n\n" + "\n\n".join(outcome.findings)
