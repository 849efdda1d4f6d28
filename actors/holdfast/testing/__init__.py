"""Orchestrations in tests: without a server, with activities of the test's own, on a clock that skips the waiting.

async def test_an_order_that_nobody_approves(rehearsal):
    rehearsal.fake(charge, lambda order: Receipt(id="r-1"))
    run = rehearsal.start(checkout, order)
    await run.settle()
    assert run.status == "RUNNING"
    await rehearsal.skip(3600)
    with pytest.raises(OrchestrationFailed):
        run.result()
"""

from __future__ import annotations

from holdfast.testing.recorded import replay
from holdfast.testing.rehearsal import Rehearsal, Run

__all__ = ["Rehearsal", "Run", "replay"]
