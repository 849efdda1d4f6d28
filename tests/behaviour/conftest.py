"""Starts each stack once for all of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from behaviour.stacks import STACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.served import ServedStack


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ServedStack]]:
    """Gives the stack of a name, started when it is first asked for."""
    running: dict[str, ServedStack] = {}
    failed: dict[str, Exception] = {}

    def start(name: str) -> ServedStack:
        if name in failed:
            pytest.fail(f"{name} did not start: {failed[name]}", pytrace=False)
        if name not in running:
            try:
                running[name] = STACKS[name](tmp_path_factory.mktemp(name))
            except Exception as error:
                failed[name] = error
                raise
        return running[name]

    yield start
    for stack in running.values():
        stack.close()


@pytest.fixture
def server(request: pytest.FixtureRequest, start_server: Callable[[str], ServedStack]) -> ServedStack:
    return start_server(request.param)
