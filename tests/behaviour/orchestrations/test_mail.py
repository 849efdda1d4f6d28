"""Mailboxes of orchestrations that continue as new: accepted mail and accepted cancels are not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

LETTERS = 600
PADDING = "x" * 200


@on_every_stack
async def test_mail_to_a_suspended_one_that_continues_as_new_is_received(server: Server) -> None:
    run = await Run(server).begin("collecting", [])
    accepted(await run.tell("suspend"))
    for letter in ("a", "b", "c"):
        delivered(await run.raise_event("letters", letter, event_id=letter))
    accepted(await run.tell("resume"))
    delivered(await run.raise_event("letters", "b", event_id="b"))
    delivered(await run.raise_event("letters", "end"))
    assert await run.output() == ["a", "b", "c", "end"]
    assert (await run.status())["execution_id"] == 4


@on_every_stack
async def test_a_cancel_of_a_suspended_one_that_continues_as_new_ends_it(server: Server) -> None:
    run = await Run(server).begin("collecting", [])
    accepted(await run.tell("suspend"))
    delivered(await run.raise_event("letters", "a"))
    accepted(await run.tell("cancel", reason="enough"))
    status = await run.ended()
    assert (status["status"], status["execution_id"]) == ("CANCELLED", 2)


@on_every_stack
async def test_a_backlog_of_mail_is_received_in_order(server: Server) -> None:
    """With one letter read in each execution, unread mail must not be written again by each execution."""
    run = await Run(server).begin("counting", 0)
    accepted(await run.tell("suspend"))
    for number in range(LETTERS):
        delivered(await run.raise_event("letters", [number, PADDING]))
    accepted(await run.tell("resume"))
    delivered(await run.raise_event("letters", "end"))
    assert await run.output() == LETTERS
    assert (await run.status())["execution_id"] == LETTERS + 1

    async def swept() -> bool:
        kept = [key for key in await run.stored() if key.startswith(("history-", "mail-"))]
        return len(kept) < 15

    await eventually(swept)
