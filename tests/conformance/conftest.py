"""Starts each host once for all of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.simulated import SimulatedStack
from tests.support.stacks.daprd import DaprPostgresqlStack, DaprSqliteStack
from tests.support.stacks.served import EmbeddedStack, ServedStack
from tests.support.stacks.started import started_once

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.support.stacks.base import Stack

STACKS = {stack.name: stack for stack in (EmbeddedStack, DaprSqliteStack, DaprPostgresqlStack, SimulatedStack)}


@pytest.fixture(scope="package")
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Stack]]:
    """Gives the stack of a name, started when it is first asked for."""
    with started_once(STACKS, tmp_path_factory) as start:
        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the ends of the logs of a stack whose test failed."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, ServedStack):
        report.sections += [(process.name, process.log_tail()) for process in stack.processes]
    return report


@pytest.fixture
def stack(request: pytest.FixtureRequest, start_stack: Callable[[str], Stack]) -> Stack:
    return start_stack(request.param)
