"""A perpetual orchestration takes another version where its next execution begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from holdfast import App
from holdfast.orchestration.core.history import ContinuedAsNew, OrchestrationStarted
from holdfast.orchestration.core.instance import Blocked
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import Context


class State(BaseModel):
    total: int


def deploy(*versions: str, mailboxes: tuple[str, ...] = ()) -> App:
    app = App()
    if "1" in versions:

        @app.orchestration(name="meter", version="1", mailboxes=mailboxes)
        async def first(ctx: Context, total: int) -> None:
            wanted = await ctx.event("go")
            ctx.continue_as_new({"total": total + 1} if wanted else total + 1, version=wanted)

    if "2" in versions:

        @app.orchestration(name="meter", version="2")
        async def second(ctx: Context, state: State) -> Any:
            return [await ctx.event("go"), state.total]

    return app


@pytest.mark.parametrize("wanted", ["2", "latest"])
def test_the_next_execution_has_the_version_that_is_asked_for(wanted: str, cold: bool) -> None:
    driver = Driver(deploy("1", "2"), cold=cold)
    driver.start("meter", 1, version="1")
    driver.raise_event("go", wanted)
    [continued] = [event for event in driver.events if isinstance(event, ContinuedAsNew)]
    started = driver.history[0]
    assert isinstance(started, OrchestrationStarted)
    assert (continued.version, started.version) == ("2", "2")
    driver.raise_event("go", "end")
    assert driver.output == ["end", 2]


def test_without_one_the_version_stays_although_a_later_one_is_declared(cold: bool) -> None:
    driver = Driver(deploy("1", "2"), cold=cold)
    driver.start("meter", 1, version="1")
    driver.raise_event("go", None)
    started = driver.history[0]
    assert isinstance(started, OrchestrationStarted)
    assert (started.execution_id, started.version, started.input) == (2, "1", "2")


def test_a_version_that_is_not_deployed_yet_blocks_it_until_it_is(cold: bool) -> None:
    driver = Driver(deploy("1"), cold=cold)
    driver.start("meter", 1)
    before = list(driver.events)
    with pytest.raises(Blocked) as blocked:
        driver.raise_event("go", "2")
    assert blocked.value.reason["kind"] == "missing_orchestration"
    assert driver.events == before
    driver.rebuild(deploy("1", "2"))
    driver.raise_event("go", "2")
    driver.raise_event("go", "end")
    assert driver.output == ["end", 2]


def test_an_input_that_the_next_version_does_not_take_fails_where_it_is_given(cold: bool) -> None:
    app = deploy("2")

    @app.orchestration(name="meter", version="1")
    async def first(ctx: Context) -> None:
        ctx.continue_as_new("text", version="2")

    driver = Driver(app, cold=cold)
    driver.start("meter", version="1")
    assert (driver.error.type, driver.error.message.partition(":")[0]) == ("InvalidRequest", "The input of version 2")


def test_a_mailbox_with_mail_that_the_next_version_lacks_blocks_it(cold: bool) -> None:
    driver = Driver(deploy("1", "2", mailboxes=("mail",)), cold=cold)
    driver.start("meter", 1, version="1")
    driver.raise_event("mail", 1)
    with pytest.raises(Blocked) as blocked:
        driver.raise_event("go", "2")
    assert blocked.value.reason["kind"] == "undeclared_mailbox"


def test_latest_is_no_version_of_its_own() -> None:
    app = App()
    with pytest.raises(ValueError, match="no version may be called latest"):

        @app.orchestration(version="latest")
        async def one(ctx: Context) -> None: ...
