"""Declaring orchestrations and activities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from holdfast.errors import UnknownOrchestration
from holdfast.orchestration.registry import Registry

if TYPE_CHECKING:
    from holdfast import Context


async def test_what_is_declared_stays_the_function_it_is() -> None:
    app = App()

    @app.activity
    async def double(number: int) -> int:
        return 2 * number

    @app.activity(queue="gpu", lock_seconds=60, timeout=5, max_deliveries=2, idempotent=True)
    def halve(number: int) -> int:
        return number // 2

    @app.orchestration
    async def both(ctx: Context, number: int) -> int:
        return number

    assert await double(2) == 4
    assert halve(4) == 2
    activities = {activity.name: activity for activity in app.registry.activities}
    assert activities["double"].is_async
    assert activities["double"].queue == "activities"
    assert not activities["halve"].is_async
    options = activities["halve"]
    assert (options.queue, options.lock_seconds, options.timeout) == ("gpu", 60, 5)
    assert (options.max_deliveries, options.idempotent) == (2, True)
    assert app.registry.activity("halve") is options
    assert app.registry.activity("nonsense") is None
    assert [orchestration.name for orchestration in app.registry.orchestrations] == ["both"]


def test_a_worker_gets_arguments_and_gives_a_result() -> None:
    app = App()

    @app.activity
    def split(words: str) -> set[str]:
        return set(words.split())

    definition = app.registry.activity("split")
    assert definition is not None
    [words] = definition.arguments('"a b"')
    assert definition.result.load(definition.result.dump(split(words))) == {"a", "b"}


def test_two_of_one_name_are_refused() -> None:
    app = App()

    def declare() -> None:
        @app.activity
        async def same() -> None: ...

    declare()
    with pytest.raises(ValueError, match="two activities are called same"):
        declare()

    def declare_orchestration(version: str) -> None:
        @app.orchestration(version=version)
        async def same(ctx: Context) -> None: ...

    declare_orchestration("1")
    declare_orchestration("2")
    with pytest.raises(ValueError, match="two orchestrations are called same, version 2"):
        declare_orchestration("2")


def test_the_last_version_is_the_one_to_start() -> None:
    app = App()
    for version in ("2", "10", "1"):

        @app.orchestration(name="many", version=version)
        async def one(ctx: Context) -> None: ...

    assert app.registry.orchestration("many").version == "1"
    assert app.registry.orchestration("many", "10").version == "10"
    with pytest.raises(UnknownOrchestration, match="it has 2, 10, 1"):
        app.registry.orchestration("many", "3")


def test_the_apps_of_a_server_are_one() -> None:
    first, second = App(), App()

    @first.activity
    async def a() -> None: ...

    @second.orchestration
    async def b(ctx: Context) -> None: ...

    merged = Registry.of([first.registry, second.registry])
    assert merged.activity("a") is not None
    assert merged.orchestration("b").name == "b"


def test_what_cannot_be_called_so_is_refused() -> None:
    app = App()

    def plain(ctx: Any) -> None: ...
    async def too_many(ctx: Any, first: int, second: int) -> None: ...
    async def none() -> None: ...
    async def by_name(ctx: Any, *, given: int) -> None: ...

    for wrong in (plain, too_many, none, by_name):
        with pytest.raises(TypeError):
            app.orchestration(wrong)
    with pytest.raises(TypeError, match="at most one input"):
        app.activity(too_many)
    assert app.registry.orchestrations == app.registry.activities == []
