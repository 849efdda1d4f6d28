"""Mailboxes of orchestrations that continue as new: accepted mail and accepted cancels are not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.orchestration.core.limits import DEFAULT_LIMITS
from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

LETTERS = 600
#: More than one execution has, and more than ten executions have, whose histories are kept.
IDS = 150
PADDING = "x" * 200
#: A letter of almost a mebibyte, and how many of them an instance may leave unread.
LONG = "x" * (2**20 - 100)
FIT = DEFAULT_LIMITS.unread_bytes // 2**20


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
async def test_ids_of_events_are_remembered_over_many_executions(server: Server) -> None:
    """The documentation promises the last 1000 ids, however many executions received them."""
    run = await Run(server).begin("collecting", [])
    accepted(await run.tell("suspend"))
    for number in range(IDS):
        delivered(await run.raise_event("letters", number, event_id=f"id {number}"))
    accepted(await run.tell("resume"))

    async def all_are_received() -> bool:
        return bool((await run.status())["execution_id"] == IDS + 1)

    await eventually(all_are_received, within=60)
    delivered(await run.raise_event("letters", "again", event_id="id 0"))
    delivered(await run.raise_event("letters", "end"))
    assert await run.output() == [*range(IDS), "end"]


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


@on_every_stack
async def test_mail_beyond_the_limit_is_refused_and_what_was_accepted_is_received(server: Server) -> None:
    run = await Run(server).begin("counting", 0)
    accepted(await run.tell("suspend"))
    for number in range(FIT):
        delivered(await run.raise_event("letters", [number, LONG], event_id=str(number)))
    refused = await run.raise_event("letters", [FIT, LONG], event_id=str(FIT))
    assert (refused.status, refused.body["error_code"]) == (429, "CAPACITY")
    assert refused.headers["Retry-After"] == "1"
    started = await run.start("counting", 0, event={"name": "letters", "data": [FIT, LONG]})
    assert (started.status, started.body["error_code"]) == (429, "CAPACITY")
    # A repeat of an event that was accepted is answered as the first was.
    delivered(await run.raise_event("letters", [0, LONG], event_id="0"))
    accepted(await run.tell("resume"))

    async def is_read() -> bool:
        answer = await run.raise_event("letters", [FIT, LONG], event_id=str(FIT))
        assert answer.status in (202, 429), answer.text
        return answer.status == 202

    await eventually(is_read)
    delivered(await run.raise_event("letters", "end"))
    assert await run.output() == FIT + 1
