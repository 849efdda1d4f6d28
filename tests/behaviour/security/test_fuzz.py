"""Every route, every role, both tenants: no fault, no huge answer, no leak, and no request holds the event loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.behaviour.security.fuzz.run import run
from tests.support.seeds import VARIABLE, fresh_seeds

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("HOLDFAST_FUZZ_SECONDS", "25"))


@pytest.mark.parametrize(
    ("with_dapr", "seconds"),
    [
        pytest.param(False, SECONDS, id="embedded", marks=pytest.mark.xdist_group("fuzz-embedded")),
        # As long as one round of all routes and callers takes, as a rule.
        pytest.param(True, SECONDS / 2, id="dapr", marks=pytest.mark.xdist_group("fuzz-dapr")),
    ],
)
async def test_no_request_breaks_a_promise(tmp_path: Path, with_dapr: bool, seconds: float) -> None:
    [seed] = fresh_seeds(1)
    outcome = await run(tmp_path, seed, seconds, with_dapr=with_dapr)
    print(outcome.report())
    assert not outcome.findings, f"{VARIABLE}={seed} sends the same requests again.\n\n" + "\n\n".join(outcome.findings)
