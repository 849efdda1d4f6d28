"""One trace runs through REST, actor turns, queues, workers, activities and children, also over a crash."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import grpc
from dapr.proto import api_service_v1, api_v1

from tests.behaviour.stacks import ALL, KILLED, on_every_stack, on_stacks
from tests.support.collector import Tree
from tests.support.runs import Run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

CONSUMER = 5


class Caller:
    """The span of a caller, which is not exported."""

    def __init__(self, server: Server, *, sampled: bool = True) -> None:
        self._server = server
        self.trace_id, self.id = secrets.token_hex(16), secrets.token_hex(8)
        self.traceparent = f"00-{self.trace_id}-{self.id}-{sampled:02x}"

    async def post(self, path: str, body: Any = None) -> Answer:
        text = None if body is None else json.dumps(body).encode()
        return await self._server.request("POST", path, text, headers={"traceparent": self.traceparent})

    async def start(self, name: str, input: Any = None) -> Run:  # noqa: A002
        run = Run(self._server, self.id)
        answer = await self.post(f"/orchestrations/{name}/start", {"instance_id": run.id, "input": input})
        assert answer.status == 202, answer.text
        return run

    @property
    def tree(self) -> Tree:
        return Tree(self._server.stack.collector.trace(self.trace_id), self.id)

    async def collected(self, *names: str) -> Tree:
        """Returns the tree when it has spans of these names, and so many of each."""

        def all_there() -> Tree | None:
            tree = self.tree
            there = all(len(tree.named(name)) >= names.count(name) for name in names)
            return tree if there and not tree.orphans else None

        return await eventually(all_there, what=f"there are spans {names} in one tree")


@on_every_stack
async def test_one_trace_from_the_start_to_the_activity(server: Server) -> None:
    caller = Caller(server)
    run = await caller.start("child", 1)
    assert await run.output() == 2
    tree = await caller.collected("orchestration child", "OrchestrationActor Complete", "PushPopActor Push")
    assert tree.lines() == [
        "POST /orchestrations/{name}/start",
        "  OrchestrationActor Start",
        "  orchestration child",
        "    send add",
        "      PushPopActor Push",
        "      run add",
        "        OrchestrationActor Complete",
    ]
    [ran] = tree.named("run add")
    assert ran.kind == CONSUMER
    assert ran.attributes == {
        "messaging.destination.name": "activities",
        "holdfast.instance_id": run.id,
        "holdfast.tenant": "default",
        "holdfast.activity": "add",
        "holdfast.attempt": 1,
        "holdfast.delivery_count": 1,
    }


@on_stacks(*ALL, part=KILLED)
async def test_a_whole_orchestration_with_a_kill_in_its_middle_is_one_tree(server: Server) -> None:
    caller = Caller(server)
    file = f"go-{caller.id}"
    run = await caller.start("order", file)
    folder = server.stack.folder
    await eventually(lambda: (folder / f"{file}.began").exists(), what="the activity waits for its file")
    # What was exported before the kill is there; its parent, the span of the instance, does not exist yet.
    await eventually(lambda: caller.tree.named("orchestration child"), what="the spans of before are collected")
    await eventually(lambda: caller.tree.named("send wait_for_file"), what="the activity's span is collected")
    assert caller.tree.named("orchestration order") == []
    assert caller.tree.orphans != []

    await server.stack.kill_app()
    (folder / file).touch()
    await server.stack.start_app()

    await run.waits_for("EventSubscribed")
    raised = await caller.post(f"/orchestrations/{run.id}/events/approved", 100)
    assert raised.status == 202, raised.text
    assert await run.output() == [2, 3, 4, 11, 101, 21]
    tree = await caller.collected(
        *("orchestration order", "orchestration child", "orchestration child", "run wait_for_file"),
        *("run add",) * 6,
        *("run fail",) * 2,
        *("OrchestrationActor Complete",) * 11,
        *("event approved", "OrchestrationActor RaiseEvent"),
    )
    [own] = tree.named("orchestration order")
    # A replay repeats none of them.
    names = sorted(span.name for span in tree.below(own.id))
    assert names == sorted(
        [
            *["send add"] * 4,
            *["send fail"] * 2,
            "send wait_for_file",
            *["orchestration child"] * 2,
            *["OrchestrationActor Start"] * 2,
            "event approved",
        ]
    )
    assert sorted(span.attributes["holdfast.attempt"] for span in tree.named("run fail")) == [1, 2]
    assert all(span.failed and span.attributes["error.type"] == "ValueError" for span in tree.named("run fail"))
    # The run that was killed was never exported; those after it are below the span of before the kill.
    [sent] = tree.named("send wait_for_file")
    assert {span.parent for span in tree.named("run wait_for_file")} == {sent.id}
    assert own.began < sent.began < min(span.began for span in tree.named("run wait_for_file")) < own.ended


@on_every_stack
async def test_an_activity_sees_the_context_of_its_run(server: Server) -> None:
    caller = Caller(server)
    run = await caller.start("looks")
    seen = await run.output()
    tree = await caller.collected("run traced")
    [ran] = tree.named("run traced")
    assert seen == {"given": f"00-{caller.trace_id}-{ran.id}-01", "current": f"{caller.trace_id}-{ran.id}"}


@on_every_stack
async def test_an_unsampled_trace_makes_no_spans_and_is_passed_on(server: Server) -> None:
    caller, other = Caller(server, sampled=False), Caller(server)
    run = await caller.start("looks")
    given = (await run.output())["given"]
    assert given.split("-")[1::2] == [caller.trace_id, "00"]
    await (await other.start("child", 1)).output()
    await other.collected("orchestration child")
    assert caller.tree.spans == []


@on_every_stack
async def test_a_failed_instance_names_the_type_of_its_error_only(server: Server) -> None:
    caller = Caller(server)
    run = await caller.start("fails")
    assert (await run.ended())["status"] == "FAILED"
    tree = await caller.collected("orchestration fails")
    [own] = tree.named("orchestration fails")
    assert own.failed
    assert own.attributes["error.type"] == "ValueError"
    assert "card of ann" not in repr(tree.spans)


@on_every_stack
async def test_an_instance_that_is_deleted_before_its_end_has_its_span(server: Server) -> None:
    caller = Caller(server)
    run = await caller.start("answers")
    (await run.delete(force=True)).ok()
    [own] = (await caller.collected("orchestration answers")).named("orchestration answers")
    assert own.attributes["error.type"] == "Deleted"


@on_every_stack
async def test_executions_of_one_instance_share_its_span(server: Server) -> None:
    caller = Caller(server)
    run = await caller.start("rounds", 2)
    assert await run.output() == 0
    tree = await caller.collected("orchestration rounds", *("run add",) * 3)
    [own] = tree.named("orchestration rounds")
    assert sorted(span.name for span in tree.below(own.id)) == ["send add"] * 3


@on_every_stack
async def test_events_and_requests_are_linked_to_their_senders(server: Server) -> None:
    caller, sender = Caller(server), Caller(server)
    run = await caller.start("answers")
    answer = await sender.post(f"/orchestrations/{run.id}/requests/price?timeout_seconds=30")
    assert answer.ok()["reply"] == 7
    tree = await caller.collected("request price", "orchestration answers")
    [received] = tree.named("request price")
    [turn] = (await sender.collected("OrchestrationActor Request")).named("OrchestrationActor Request")
    assert received.links == ((sender.trace_id, turn.parent),)


@on_every_stack
async def test_a_direct_call_to_an_actor_carries_its_context(server: Server) -> None:
    """daprd makes spans of its own between the two, which it exports elsewhere or not at all."""
    caller, run = Caller(server), Run(server)
    body = json.dumps({"name": "looks"}).encode()
    path = f"OrchestrationActor/{run.id}/method/Start"
    status, answer = await server.stack.request("POST", path, body, {"traceparent": caller.traceparent})
    assert status == 200, answer
    assert (await run.output())["given"].split("-")[1] == caller.trace_id
    await eventually(lambda: caller.tree.named("orchestration looks"), what="the span of the instance is collected")


@on_every_stack
async def test_a_call_over_grpc_carries_its_context(server: Server) -> None:
    caller, run = Caller(server), Run(server)
    request = api_v1.InvokeActorRequest(
        actor_type="OrchestrationActor", actor_id=run.id, method="Start", data=json.dumps({"name": "looks"}).encode()
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.stack.grpc_port}") as channel:
        stub = api_service_v1.DaprStub(channel)
        await stub.InvokeActor(request, metadata=(("traceparent", caller.traceparent),), timeout=30)
    assert (await run.output())["given"].split("-")[1] == caller.trace_id


@on_every_stack
async def test_a_start_without_a_context_begins_a_trace(server: Server) -> None:
    run = await Run(server).begin("looks")
    trace_id = (await run.output())["given"].split("-")[1]

    def whole() -> bool:
        tree = Tree(server.stack.collector.trace(trace_id), "")
        return bool(tree.named("orchestration looks")) and [span.name for span in tree.below("")] == [
            "POST /orchestrations/{name}/start"
        ]

    await eventually(whole, what="the trace begins with the request")


@on_every_stack
async def test_items_keep_the_context_of_their_push(server: Server) -> None:
    caller, other = Caller(server), Caller(server)
    queue = server.queue()
    pushed = {"items": [{"item": 1}, {"item": 2, "traceparent": other.traceparent}]}
    (await caller.post(f"/queue/{queue.name}/push", pushed)).ok()
    tree = await caller.collected("POST /queue/{queue}/push", "PushPopActor Push")
    [request] = tree.named("POST /queue/{queue}/push")
    messages = (await queue.lock(count=2))["messages"]
    assert [message["traceparent"] for message in messages] == [
        f"00-{caller.trace_id}-{request.id}-01",
        other.traceparent,
    ]
