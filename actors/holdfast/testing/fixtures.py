"""The pytest fixture ``orchestration_env``, which needs a fixture ``app`` defined by the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.app import App
    from holdfast.testing.environment import TestEnvironment


@pytest.fixture
def orchestration_env(app: App) -> Iterator[TestEnvironment]:
    """Runs orchestrations of ``app`` without a server."""
    from holdfast.testing.environment import TestEnvironment

    with TestEnvironment(app) as stage:
        yield stage
