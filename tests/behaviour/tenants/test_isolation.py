"""Tenants: what one has is not there for another, by whatever name, id or list it is asked for."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.behaviour.queues.test_partitions import PARTITIONS, one_in_each, partitioned
from tests.behaviour.queues.test_redrive import letters_of, rejected
from tests.behaviour.queues.test_replicas import MOVED, on_replicas, second_replica
from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.rest import Queue
from tests.support.runs import Run, accepted, delivered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server


def two(server: Server) -> tuple[Server, Server]:
    """Two tenants of this test, and two callers that use the same names."""
    return server.of(f"{server.name}-a"), server.of(f"{server.name}-b")


async def listed(server: Server, what: str, name: str) -> list[str]:
    """All names of a list, page by page."""
    names: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        answer = await server.request("GET", f"/{what}", query=query)
        if answer.status == 503:
            # Of hundreds of actors that are asked, one was not to be reached: it is said when to try again.
            await asyncio.sleep(float(answer.headers["Retry-After"]))
            continue
        page = answer.ok()
        names += [entry[name] for entry in page[what]]
        if "next_cursor" not in page:
            return names
        query["cursor"] = page["next_cursor"]


@on_every_stack
async def test_queues_of_the_same_name_are_apart(server: Server) -> None:
    ours, theirs = (caller.queue() for caller in two(server))
    (await ours.push_many("a", "b", "c")).ok()
    (await theirs.push("x", priority=2)).ok()
    (await ours.configure(max_locks=7)).ok()
    assert (await theirs.config())["max_locks"] == 1
    shown = await theirs.stats()
    assert (shown["queue"], shown["count"], shown["priorities"]) == (server.name, 1, {"2": 1})
    assert (await ours.stats())["count"] == 3
    assert (await server.queue().stats())["count"] == 0
    assert (await theirs.peek(count=10))["items"] == ["x"]
    (await theirs.purge()).ok()
    assert await ours.drain() == ["a", "b", "c"]
    assert await theirs.drain() == []


@on_every_stack
async def test_the_default_tenant_is_that_of_those_who_name_none(server: Server) -> None:
    (await server.queue().push("a")).ok()
    assert await server.of("default").queue().drain() == ["a"]


@on_every_stack
async def test_ids_of_another_tenant_are_unknown(server: Server) -> None:
    us, them = two(server)
    ours, theirs = await partitioned(us), await partitioned(them)
    await one_in_each(ours, 2)
    await one_in_each(theirs)
    locks = [await ours.lock(ttl_seconds=300) for _ in range(3)]
    held = [message["id"] for lock in locks for message in lock["messages"]]
    before = await ours.stored()
    for lock in locks:
        for call, body in (
            ("acknowledge", {}),
            ("abandon", {}),
            ("extend-lock", {"additional_ttl_seconds": 60}),
            ("dead-letter", {"reason": "mine now"}),
        ):
            (await theirs.send(call, {"lock_id": lock["lock_id"], **body})).refused(404, "LOCK_NOT_FOUND")
        prefix = lock["lock_id"][:6]
        (await theirs.requeue(prefix)).refused(404, "LOCK_NOT_FOUND")
        (await theirs.extend_for(prefix)).refused(404, "LOCK_NOT_FOUND")
    # In their own queue these are ids of unlocked items, or of no item.
    done = (await theirs.complete(*held)).body
    assert done.get("completed") == 0
    for item_id in held:
        assert (await theirs.revoke(item_id)).status in (200, 404)
    assert await theirs.in_flight() == []
    assert await ours.stored() == before
    for lock in locks:
        assert (await ours.acknowledge(lock["lock_id"])).ok()["items_acknowledged"] == 1
    assert len(await ours.drain()) == 2 * PARTITIONS - len(locks)


@pytest.mark.parametrize("name", ["@{}@{}", "%40{}%40{}", "{}@{}", "..%2F@{}@{}", "@{}%40{}"])
@on_every_stack
async def test_names_from_inside_mean_nothing_outside(server: Server, name: str) -> None:
    us, _ = two(server)
    (await us.queue().push("a")).ok()
    await Run(us).begin("waiting")
    guess = name.format(us.tenant, server.name)
    for verb, path in (
        ("POST", f"/queue/{guess}/pop"),
        ("GET", f"/queue/{guess}"),
        ("GET", f"/orchestrations/{guess}"),
        ("POST", f"/orchestrations/{guess}/cancel"),
        ("POST", f"/orchestrations/{guess}/requests/ask"),
        ("GET", f"/orchestrations/{guess}/requests/ask"),
    ):
        (await server.request(verb, path)).refused(400, "INVALID_REQUEST")
    pushed = await server.request("PUT", f"/queue/{server.name}/config", b'{"dead_letter_queue": "@x@y"}')
    pushed.refused(400, "INVALID_REQUEST")
    assert (await us.queue().stats())["count"] == 1


@pytest.mark.parametrize("tenant", ["a@b", "@a", ".a", "a/b", "a||b", "a b", "é", "x" * 256, "~", "*"])
@on_every_stack
async def test_what_cannot_be_a_tenant_is_refused(server: Server, tenant: str) -> None:
    headers = {"Holdfast-Tenant": tenant}
    for path in ("/queues", f"/queue/{server.name}", "/orchestrations", "/metrics", "/status"):
        (await server.request("GET", path, headers=headers)).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_lists_show_one_tenants_only(server: Server) -> None:
    us, them = two(server)
    names = [f"{server.name}-{number}" for number in range(5)]
    for name in names:
        (await Queue(us, name).push(1)).ok()
        run = Run(us)
        run.id = name
        await run.begin("echo")
    (await them.queue("only").push(1)).ok()
    await Run(them, "only").begin("echo")

    async def all_listed() -> bool:
        ended = [run async for run in _runs(us) if run["status"] == "COMPLETED"]
        return len(ended) == 5 and set(names) <= set(await listed(us, "queues", "queue"))

    await eventually(all_listed)
    assert await listed(us, "queues", "queue") == names
    assert await listed(us, "orchestrations", "instance_id") == names[::-1]
    assert await listed(them, "orchestrations", "instance_id") == [f"{server.name}-only"]
    assert await listed(them, "queues", "queue") == [f"{server.name}-only"]
    everybody = await listed(server, "queues", "queue")
    assert not [name for name in everybody if name.startswith(server.name)]


async def _runs(server: Server) -> Any:
    for entry in (await server.request("GET", "/orchestrations")).ok()["orchestrations"]:
        yield entry


@on_every_stack
async def test_dead_letters_stay_in_their_tenant(server: Server) -> None:
    us, them = two(server)
    for caller in (us, them):
        (await caller.queue().configure(dead_letter_queue=f"{server.name}-shared")).ok()
    await rejected(us.queue(), "a", "b")
    [letter] = await rejected(them.queue(), "x")
    assert (letter["tenant_id"], letter["original_queue"]) == (them.tenant, server.name)
    ours = await letters_of(us.queue(), 2)
    assert [one["tenant_id"] for one in ours] == [us.tenant, us.tenant]
    shared = (await us.queue("shared").peek(count=10))["messages"]
    assert [message["dead_letter"]["tenant_id"] for message in shared] == [us.tenant] * 2
    assert (await us.queue().stats())["dead_letters"] == 2
    # The first has the same id in both; a second there is only in ours.
    assert (await them.queue().redrive(ids=[ours[1]["id"]])).ok()["redriven"] == 0
    assert (await us.queue().redrive()).ok()["redriven"] == 2
    assert await us.queue().drain() == ["a", "b"]
    assert await them.queue().drain() == []
    assert (await them.queue().redrive()).ok()["redriven"] == 1
    assert await them.queue().drain() == ["x"]


@on_every_stack
async def test_partitions_and_dead_letters_of_one_tenant_go_together(server: Server) -> None:
    us, _ = two(server)
    queue = await partitioned(us, max_deliveries=1)
    await one_in_each(queue, 2)
    count = (await queue.stats())["count"]
    for _ in range(count):
        (await queue.abandon((await queue.lock())["lock_id"])).ok()
    letters = await letters_of(queue, count)
    assert {letter["tenant_id"] for letter in letters} == {us.tenant}
    assert (await queue.redrive()).ok()["redriven"] == count

    async def back() -> bool:
        return bool((await queue.stats())["count"] == count)

    await eventually(back)
    assert (await server.queue().stats())["counters"]["pushed"] == 0


@on_every_stack
async def test_dedup_ids_are_a_tenants_own(server: Server) -> None:
    ours, theirs = (caller.queue() for caller in two(server))
    assert (await ours.push("a", dedup_id="x")).ok()["count"] == 1
    assert (await theirs.push("b", dedup_id="x")).ok()["count"] == 1
    assert (await ours.push("c", dedup_id="x")).ok()["count"] == 0
    assert (await ours.drain(), await theirs.drain()) == (["a"], ["b"])


@on_every_stack
async def test_waiting_for_an_item_is_waiting_for_ones_own(server: Server) -> None:
    ours, theirs = (caller.queue() for caller in two(server))
    waiting = server.begin(ours.pop(wait_seconds=60))
    their_waiting = server.begin(theirs.pop(wait_seconds=60))
    (await theirs.push("theirs")).ok()
    assert (await their_waiting).ok()["items"] == ["theirs"]
    assert not waiting.done()
    (await ours.push("ours")).ok()
    assert (await waiting).ok()["items"] == ["ours"]


@on_every_stack
async def test_instances_of_the_same_id_are_apart(server: Server) -> None:
    us, them = two(server)
    ours, theirs = Run(us), Run(them)
    await ours.begin("waiting")
    for call in (
        theirs.get(""),
        theirs.get("/history"),
        theirs.get("/wait"),
        theirs.raise_event("go", "theirs"),
        theirs.tell("cancel"),
        theirs.tell("suspend"),
        theirs.tell("resume"),
        theirs.tell("rerun"),
        theirs.tell("outcome", of="activity", execution_id=1, scheduled_seq=2, result="1"),
        theirs.delete(force=True),
    ):
        (await call).refused(404, "NOT_FOUND")
    await theirs.begin("waiting")
    assert (await us.request("POST", "/orchestrations/waiting/start", _named(ours.id))).ok()["created"] is False
    accepted(await theirs.tell("cancel"))
    assert (await theirs.ended())["status"] == "CANCELLED"
    waits = server.begin(ours.get("/wait", timeout_seconds=60))
    delivered(await ours.raise_event("go", "ours"))
    waited = (await waits).ok()
    assert waited["output"] == "ours", waited
    (await theirs.delete()).ok()
    assert await ours.output() == "ours"


def _named(instance_id: str) -> bytes:
    return json.dumps({"instance_id": instance_id}).encode()


@on_every_stack
async def test_an_orchestration_stays_in_its_tenant_with_all_it_starts(server: Server) -> None:
    us, them = two(server)
    run = await Run(us).begin("parent", "everything")
    await eventually(run.child.is_found)
    await run.child.waits_for("EventSubscribed")
    assert (await run.child.status())["parent"]["instance_id"] == run.id
    (await Run(them).child.get("")).refused(404, "NOT_FOUND")
    (await Run(server).child.get("")).refused(404, "NOT_FOUND")
    delivered(await run.child.raise_event("go", "done"))
    assert await run.output() == [8, "NonRetryable", "child", "RuntimeError", "done"]
    assert {line["tenant_id"] for line in server.stack.effects() if run.id in line["instance_id"]} == {us.tenant}
    # Its activities were items of its own tenant's queue only.
    assert (await Queue(us, "activities").stats())["counters"]["pushed"] >= 2
    assert (await Queue(them, "activities").stats())["counters"]["pushed"] == 0
    detached = await Run(us, "detached").begin("starter", "echo")
    await detached.output()
    await eventually(detached.child.is_found)
    assert (await detached.child.ended())["status"] == "COMPLETED"
    (await Run(server, "detached").child.get("")).refused(404, "NOT_FOUND")


@on_every_stack
async def test_what_strangers_push_for_an_instance_of_another_tenant_does_nothing(server: Server) -> None:
    us, them = two(server)
    run = await Run(us).begin("calling", "hold")
    await run.waits_for("ActivityScheduled")
    [scheduled] = [event for event in await run.history() if event["type"] == "ActivityScheduled"]
    # Something of theirs runs, so that their queues are served.
    assert await (await Run(them, "other").begin("fan_out", 1)).output() == 0
    forged = {
        "instance_id": run.id,
        "tenant": us.tenant,
        "execution_id": 1,
        "scheduled_seq": scheduled["seq"],
        "name": "double",
        "attempt": 1,
        "input": 4,
    }
    queue = Queue(them, "activities")
    (await queue.push(forged)).ok()
    (await queue.push({key: value for key, value in forged.items() if key != "tenant"})).ok()

    async def gone() -> bool:
        stats = await queue.stats()
        return (stats["count"], stats["locked"]) == (0, 0)

    await eventually(gone)
    assert (await run.status())["status"] == "RUNNING"
    (server.stack.folder / f"released-{run.id}").touch()
    assert await run.output() == "held"


@on_stacks(*ALL, part=KILLED)
async def test_a_tenants_orchestration_survives_the_process(server: Server) -> None:
    us, them = two(server)
    runs = [await Run(caller).begin("calling", "hold") for caller in (us, them)]
    for run in runs:
        await eventually(partial(_began, run))
    await server.stack.kill_app()
    (server.stack.folder / f"released-{server.name}").touch()
    await server.stack.start_app()
    for run in runs:
        assert await run.output() == "held"

    async def listed_again() -> bool:
        return await listed(us, "orchestrations", "instance_id") == [server.name]

    await eventually(listed_again, what="the index lists what ran when the process was killed")


async def _began(run: Run) -> bool:
    return (await Queue(run.server, "acked").stats())["locked"] == 1


@on_every_stack
async def test_keys_are_a_tenants_own(server: Server) -> None:
    us, them = two(server)

    async def begin(caller: Server, tenant: str) -> Any:
        return (await caller.request("POST", f"/idempotency/{tenant}/{server.name}/begin", b'{"owner": "w"}')).ok()

    assert (await begin(us, "~"))["attempt"] == 1
    commit = json.dumps({"owner": "w", "result": 17}).encode()
    (await us.request("POST", f"/idempotency/~/{server.name}/commit", commit)).ok()
    assert (await begin(them, "~"))["outcome"] == "run"
    assert (await begin(server, "~"))["outcome"] == "run"
    # A caller without a bound tenant may name any.
    assert await begin(server, us.tenant or "") == {"outcome": "done", "result": 17}


@on_every_stack
async def test_metrics_are_those_of_one_tenant(server: Server) -> None:
    us, them = two(server)
    (await us.queue().push_many(*range(5))).ok()
    (await them.queue("other").push(1)).ok()

    async def shown(caller: Server) -> dict[str, float]:
        answer = await caller.request("GET", "/metrics")
        assert answer.status == 200
        return {
            sample.labels["queue"]: sample.value
            for family in text_string_to_metric_families(answer.text.decode())
            for sample in family.samples
            if sample.name == "holdfast_queue_pushed_items_total"
        }

    async def ours() -> Any:
        return await shown(us) == {server.name: 5.0}

    async def others() -> Any:
        return await shown(them) == {f"{server.name}-other": 1.0}

    await eventually(ours)
    await eventually(others)
    assert server.name not in await shown(server)
    assert (await us.request("GET", "/status")).ok()["tenant"] == us.tenant


@on_every_stack
async def test_a_tenant_may_have_so_many_queues(server: Server) -> None:
    us = server.of("three-queues")
    queues = [us.queue(str(number)) for number in range(4)]
    for queue in queues[:3]:
        (await queue.push(1)).ok()
    (await queues[3].push(1)).refused_for_now(429, "CAPACITY")
    (await queues[3].configure(partitions=2)).refused_for_now(429, "CAPACITY")
    (await queues[0].push(2)).ok()

    async def all_listed() -> bool:
        return len(await listed(us, "queues", "queue")) == 3

    await eventually(all_listed)
    (await queues[3].push(1)).refused_for_now(429, "CAPACITY")
    for other in two(server):
        (await other.queue("3").push(1)).ok()
    # One that is deleted makes room, and only the tenant's own is deleted.
    (await us.request("DELETE", f"/queue/{queues[0].name}", query={"force": True})).ok()
    (await queues[3].push(1)).ok()
    (await queues[0].push(1)).refused_for_now(429, "CAPACITY")
    for other in two(server):
        (await other.request("DELETE", f"/queue/{queues[1].name}")).ok()
        assert (await other.queue("3").stats())["count"] == 1
    assert (await queues[1].stats())["count"] == 1


@on_every_stack
async def test_a_tenant_may_store_so_many_items(server: Server) -> None:
    us = server.of("ten-items")
    first, second = us.queue("first"), us.queue("second")
    (await first.push_many(*range(6))).ok()
    (await second.push_many(*range(5))).refused_for_now(429, "CAPACITY")
    (await second.push_many(*range(4), delay_seconds=3600)).ok()
    (await first.push("one more")).refused_for_now(429, "CAPACITY")
    # A locked one is still there; one that is done with is not.
    lock = await first.lock(count=2)
    (await second.push("one more")).refused_for_now(429, "CAPACITY")
    (await first.acknowledge(lock["lock_id"])).ok()
    (await second.push_many("one", "two")).ok()
    answers = await asyncio.gather(*(queue.push("too much") for queue in (first, second) for _ in range(5)))
    for answer in answers:
        answer.refused_for_now(429, "CAPACITY")
    for queue in (first, second):
        await queue.drain()
        (await queue.purge()).ok()
    answers = await asyncio.gather(*(first.push(number) for number in range(15)))
    assert sorted(answer.status for answer in answers) == [200] * 10 + [429] * 5
    (await server.queue().push_many(*range(20))).ok()


@on_replicas
async def test_a_replica_serves_tenants_that_another_had_first(server: Server) -> None:
    async with second_replica(server) as second:
        runs = [await Run(second.of(f"{server.name}-{number}")).begin("calling", "hold") for number in range(6)]
        for run in runs:
            await eventually(partial(_began, run))
    (server.stack.folder / f"released-{server.name}").touch()
    for run in runs:
        again = Run(server.of(run.server.tenant or ""))
        again.id = run.id
        assert await again.output(within=MOVED) == "held"
