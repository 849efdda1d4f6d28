"""Tests of orchestrations without a server, with fake activities and a clock that the test advances.

async def test_an_unapproved_order_fails(orchestration_env):
    orchestration_env.fake(charge, lambda order: Receipt(id="r-1"))
    run = orchestration_env.start(checkout, order)
    await run.run_until_idle()
    assert run.status == "RUNNING"
    await orchestration_env.advance(3600)
    with pytest.raises(OrchestrationFailed):
        run.result()
"""

from __future__ import annotations

from holdfast.testing.environment import Run, TestEnvironment
from holdfast.testing.replayer import replay

__all__ = ["Run", "TestEnvironment", "replay"]
