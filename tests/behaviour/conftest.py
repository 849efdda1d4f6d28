"""Starts each stack once for all of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.stacks import STACKS
from tests.support.stacks.started import started_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.stacks.served import ServedStack


@pytest.fixture(scope="package")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ServedStack]]:
    """Gives the stack of a name, started when it is first asked for."""
    with started_once(STACKS, tmp_path_factory) as start:
        yield start


@pytest.fixture
def server(request: pytest.FixtureRequest, start_server: Callable[[str], ServedStack]) -> ServedStack:
    return start_server(request.param)
