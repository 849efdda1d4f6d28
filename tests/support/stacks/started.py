"""Stacks that are started when a test first asks for them, and go on until the last one is over."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.support.stacks.base import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

AnyStack = TypeVar("AnyStack", bound=Stack)


@contextmanager
def started_once(
    stacks: Mapping[str, Callable[[Path], AnyStack]], folders: pytest.TempPathFactory
) -> Iterator[Callable[[str], AnyStack]]:
    """Gives the stack of a name. One that did not start is not tried again."""
    running: dict[str, AnyStack] = {}
    failed: dict[str, Exception] = {}

    def start(name: str) -> AnyStack:
        if name in failed:
            pytest.fail(f"{name} did not start: {failed[name]}", pytrace=False)
        if name not in running:
            try:
                running[name] = stacks[name](folders.mktemp(name))
            except Exception as error:
                failed[name] = error
                raise
        return running[name]

    yield start
    for stack in running.values():
        stack.close()
