"""The hosts a test runs on."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.stacks.base import Stack

DAPR = ("daprd-sqlite", "daprd-postgresql")
#: The hosts that are processes of their own and are called over HTTP.
SERVED = ("embedded", *DAPR)
ALL = (*SERVED, "simulated")

Test = Any


def on_hosts(*names: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Test]:
    """Makes a coroutine a test that runs once on each of these hosts, on the host's own event loop."""

    def decorate(body: Callable[..., Coroutine[Any, Any, None]]) -> Test:
        @functools.wraps(body)
        def test(stack: Stack, **arguments: Any) -> None:
            stack.run(body(stack, **arguments))

        # All tests of a host go to one worker, which starts the host once.
        hosts = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
        return pytest.mark.parametrize("stack", hosts, indirect=True)(test)

    return decorate


on_every_host = on_hosts(*ALL)
