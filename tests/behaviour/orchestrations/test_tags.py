"""Tags: given with a start, changed by the code, kept as long as the instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted

if TYPE_CHECKING:
    from tests.support.rest import Server

MOST = {f"key-{number:02}" + "k" * 58: "ä" * 255 for number in range(20)}


async def _tags(run: Run) -> Any:
    return (await run.status())["tags"]


@on_every_stack
async def test_a_start_gives_tags_and_a_second_start_changes_none(server: Server) -> None:
    run = Run(server)
    assert (await run.start("waiting", tags={"customer": "acme", "Z_1.a-b": ""})).status == 202
    assert (await run.start("waiting", tags={"customer": "other"})).status == 200
    assert await _tags(run) == {"customer": "acme", "Z_1.a-b": ""}
    [started, *_] = await run.history()
    assert started["tags"] == {"customer": "acme", "Z_1.a-b": ""}
    accepted(await run.raise_event("go"))
    await run.ended()
    assert await _tags(run) == {"customer": "acme", "Z_1.a-b": ""}


@on_every_stack
async def test_as_many_and_as_long_tags_as_there_may_be(server: Server) -> None:
    run = Run(server)
    assert (await run.start("echo", tags=MOST)).status == 202
    assert (await run.ended())["tags"] == MOST


@on_every_stack
async def test_code_changes_tags_and_its_next_executions_have_them(server: Server) -> None:
    run = Run(server)
    await run.start("tagging", tags={"stage": "new", "customer": "acme"})
    await run.waits_for("EventSubscribed")
    accepted(await run.raise_event("tags", {"stage": "paid", "late": "yes"}))
    assert await _tags(run) == {"stage": "paid", "customer": "acme", "late": "yes"}
    assert (await run.history())[-2]["tags"] == {"stage": "paid", "late": "yes"}
    accepted(await run.raise_event("tags", {"late": None}))
    status = await run.status()
    assert (status["execution_id"], status["tags"]) == (2, {"stage": "paid", "customer": "acme"})
    await run.waits_for("EventSubscribed")
    accepted(await run.raise_event("tags", {"stage": "sent"}))
    accepted(await run.tell("cancel"))
    assert (await run.ended())["tags"] == {"stage": "sent", "customer": "acme"}


@on_every_stack
async def test_tags_are_those_of_a_later_instance_of_the_same_id(server: Server) -> None:
    run = Run(server)
    await run.start("echo", tags={"customer": "acme"})
    await run.ended()
    assert (await run.delete()).status == 200
    await run.start("echo", 1)
    assert (await run.ended())["tags"] == {}


@on_every_stack
async def test_tags_of_the_code_that_are_not_valid_fail_it(server: Server) -> None:
    for number, wrong in enumerate(({"a b": "x"}, {"k": 1}, {"k": "v" * 256}, dict.fromkeys(map(str, range(21)), "x"))):
        run = Run(server, str(number))
        await run.start("tagging")
        await run.waits_for("EventSubscribed")
        accepted(await run.raise_event("tags", wrong))
        error = await run.error()
        assert (error["type"], error["message"].partition(":")[0].partition(".")[0]) == ("InvalidRequest", "tags")
