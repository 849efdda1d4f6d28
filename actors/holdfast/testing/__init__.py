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

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.environment import Run, TestEnvironment
    from holdfast.testing.replayer import replay

__all__ = ["Run", "TestEnvironment", "replay"]


def __getattr__(name: str) -> Any:
    # pytest imports this package in every run, for its fixture.
    if name in ("Run", "TestEnvironment"):
        from holdfast.testing import environment

        return getattr(environment, name)
    if name == "replay":
        from holdfast.testing.replayer import replay

        return replay
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
