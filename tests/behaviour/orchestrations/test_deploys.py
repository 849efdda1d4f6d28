"""Code that changes between two starts: instances that it does not fit are BLOCKED, lose nothing, and go on later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.behaviour.orchestrations.redeployment import blocked, deploys, release
from tests.behaviour.orchestrations.test_instances import listed
from tests.behaviour.stacks import ALL, KILLED, on_stacks
from tests.support.runs import Run, accepted, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

FRUIT = ["apple", "pear", "plum", "quince", "cherry", "fig", "grape", "kiwi", "lemon", "lime", "mango", "melon"]


@on_stacks(*ALL, part=KILLED)
async def test_departed_code_blocks_an_instance_until_a_rollback(server: Server) -> None:
    run, sound = await Run(server).begin("quote", "apple"), await Run(server, "sound").begin("waiting")
    await run.waits_for("ActivityScheduled")
    async with deploys(server) as changing:
        await changing.deploy(departed=True)
        reason = await blocked(run)
        assert reason["kind"] == "non_determinism"
        assert (reason["expected"], reason["found"]) == (
            "event 2, ActivityScheduled (price)",
            "ActivityScheduled (quick)",
        )
        assert "changing_definitions.py:" in reason["line"]

        async def is_listed() -> bool:
            return (await listed(server, status="BLOCKED")).keys() == {run.id}

        await eventually(is_listed)
        # Its activity comes again and is run, and its outcome kept, though the code cannot take it.
        release(run)
        delivered(await sound.raise_event("go", 1))
        assert await sound.output() == 1
        assert await run.types() == ["OrchestrationStarted", "ActivityScheduled"]
        await changing.deploy(kill=True)
        assert await run.output() == "price of apple"


@on_stacks(*ALL, part=KILLED)
async def test_missing_code_holds_no_slot_of_the_worker(server: Server) -> None:
    runs = [await Run(server, f"{number:02}").begin("quote", str(number)) for number in range(60)]
    await asyncio.gather(*(run.waits_for("ActivityScheduled") for run in runs))
    async with deploys(server) as changing:
        await changing.deploy(without=["quote"], kill=True)
        healthy = await Run(server, "healthy").begin("quote_model", [1, 2, 3])
        assert (await blocked(runs[0]))["kind"] == "missing_orchestration"
        for run in (*runs, healthy):
            release(run)
        assert set((await healthy.output()).values()) == {f"price of {{'number': {number}}}" for number in (1, 2, 3)}
        await changing.deploy()
        for number, run in enumerate(runs):
            assert await run.output() == f"price of {number}"


@on_stacks(*ALL, part=KILLED)
async def test_a_fan_out_over_a_set_gets_its_own_answers_in_any_process(server: Server) -> None:
    runs = [await Run(server, str(number)).begin("quote_set", FRUIT) for number in range(3)]
    async with deploys(server) as changing:
        for seed in ("1", "2", "3"):
            await changing.deploy(hash_seed=seed)
        for run in runs:
            release(run)
        for run in runs:
            assert await run.output() == {fruit: f"price of {fruit}" for fruit in FRUIT}


@on_stacks(*ALL, part=KILLED)
async def test_a_loop_over_a_set_is_blocked_and_never_answered_wrongly(server: Server) -> None:
    async with deploys(server) as changing:
        await changing.deploy(hash_seed="1")
        run = await Run(server).begin("quote_set_in_turn", FRUIT)
        await run.waits_for("ActivityScheduled")
        await changing.deploy(hash_seed="2")
        release(run)
        reason = await blocked(run)
        assert reason["kind"] == "non_determinism"
        assert "with input" in reason["expected"]
        assert "with input" in reason["found"]
        (await run.delete(force="true")).ok()


@on_stacks(*ALL, part=KILLED)
async def test_a_model_with_a_new_field_goes_on(server: Server) -> None:
    run = await Run(server).begin("quote_model", list(range(20)))
    async with deploys(server) as changing:
        await changing.deploy(field=True)
        release(run)
        assert await run.output() == {str(number): f"price of {{'number': {number}}}" for number in range(20)}


@on_stacks(*ALL, part=KILLED)
async def test_what_a_blocked_instance_was_sent_is_delivered_once_and_in_order(server: Server) -> None:
    letters = 120
    run = await Run(server).begin("collect", letters)
    delivered(await run.raise_event("ready"))
    delivered(await run.raise_event("parcels", 0))
    async with deploys(server) as changing:
        await changing.deploy(mailboxes=["letters"])
        reason = await blocked(run)
        assert reason["kind"] == "undeclared_mailbox"
        assert "parcels" in reason["message"]
        for number in range(1, letters // 2):
            delivered(await run.raise_event("parcels", number, event_id=str(number)))
        await changing.deploy(mailboxes=["letters"], kill=True)
        for number in range(1, letters):
            delivered(await run.raise_event("parcels", number, event_id=str(number)))
        assert (await run.types())[-1] == "EventRaised"
        await changing.deploy()
        assert await run.output() == list(range(letters))


@on_stacks(*ALL, part=KILLED)
async def test_blocked_instances_are_cancelled_deleted_and_suspended(server: Server) -> None:
    ancestor = await Run(server, "ancestor").begin("ancestor")
    deleted = await Run(server, "deleted").begin("collect", 1)
    suspended = await Run(server, "suspended").begin("collect", 0)
    await ancestor.child.waits_for("EventSubscribed")
    async with deploys(server) as changing:
        await changing.deploy(without=["offspring", "collect"])
        reason = await blocked(ancestor)
        assert (reason["kind"], reason["found"]) == ("missing_child", "No orchestration is called offspring.")
        await blocked(ancestor.child)
        accepted(await ancestor.tell("cancel", reason="enough"))
        assert (await ancestor.status())["status"] == "CANCELLED"
        assert (await ancestor.types())[-2:] == ["CancelRequested", "OrchestrationCancelled"]
        assert (await ancestor.child.ended())["status"] == "CANCELLED"
        (await deleted.delete()).refused(409, "CONFLICT")
        (await deleted.delete(force="true")).ok()
        assert not await deleted.is_found()
        assert (await blocked(suspended))["suspended"] is False
        accepted(await suspended.tell("suspend"))
        delivered(await suspended.raise_event("ready"), is_so=False)
        assert (await suspended.status())["status"] == "BLOCKED"
        assert (await suspended.status())["blocked"]["suspended"] is True
        await changing.deploy()

        async def is_suspended() -> bool:
            return bool((await suspended.status())["status"] == "SUSPENDED")

        await eventually(is_suspended)
        accepted(await suspended.tell("resume"))
        assert await suspended.output() == []
