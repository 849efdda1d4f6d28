"""For pytest: ``rehearsal`` needs a fixture ``app`` of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.app import App
    from holdfast.testing.rehearsal import Rehearsal


@pytest.fixture
def rehearsal(app: App) -> Iterator[Rehearsal]:
    """Runs orchestrations of ``app`` without a server."""
    from holdfast.testing.rehearsal import Rehearsal

    with Rehearsal(app) as stage:
        yield stage
