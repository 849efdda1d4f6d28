"""Starts each host once for all clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.stacks.daprd import DaprSqliteStack
from tests.support.stacks.served import EmbeddedStack, ServedStack
from tests.support.stacks.started import started_once

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


class WithTheExample(ServedStack):
    apps = (*ServedStack.apps, "examples.clients.app:app")


class OnEmbedded(WithTheExample, EmbeddedStack):
    pass


class OnDaprd(WithTheExample, DaprSqliteStack):
    pass


STACKS = {stack.name: stack for stack in (OnEmbedded, OnDaprd)}


@pytest.fixture(scope="package")
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ServedStack]]:
    with started_once(STACKS, tmp_path_factory) as start:
        yield start


# All tests of a host go to one worker, which starts the host once.
@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(f"sdks-{name}")) for name in STACKS])
def stack(request: pytest.FixtureRequest, start_stack: Callable[[str], ServedStack]) -> ServedStack:
    return start_stack(request.param)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the ends of the logs of a stack whose test failed."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, ServedStack):
        report.sections += [(process.name, process.log_tail()) for process in stack.processes]
    return report
