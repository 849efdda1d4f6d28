"""An actor type is one class: a second one of its name is refused, on every host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dapr.actor import Actor, ActorInterface
from fastapi import FastAPI

from holdfast.errors import SettingsError
from holdfast.runtime.dapr import DaprHost
from holdfast.runtime.embedded import EmbeddedHost
from holdfast.server import OWN_ACTORS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.runtime.contract import Host


def dapr(_folder: Path) -> Host:
    return DaprHost(FastAPI())


def embedded(folder: Path) -> Host:
    return EmbeddedHost(folder)


def named(name: str) -> type[Actor]:
    made: Any = type(name, (Actor, ActorInterface), {})
    kind: type[Actor] = made
    return kind


on_both_hosts = pytest.mark.parametrize("host", [dapr, embedded])


@on_both_hosts
async def test_the_same_class_may_come_twice(host: Callable[[Path], Host], tmp_path: Path) -> None:
    where, one = host(tmp_path), named("Mine")
    await where.register(one)
    await where.register(one)
    assert await where.active_counts() == {"Mine": 0}
    await where.stop()


@on_both_hosts
@pytest.mark.parametrize("own", OWN_ACTORS)
async def test_a_class_called_like_another_is_refused(
    host: Callable[[Path], Host], own: type[Actor], tmp_path: Path
) -> None:
    where = host(tmp_path)
    await where.register(own)
    with pytest.raises(SettingsError, match=f"Two actor classes are called {own.__name__}"):
        await where.register(named(own.__name__))
    await where.stop()
