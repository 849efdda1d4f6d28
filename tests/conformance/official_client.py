"""A program that uses the SDK as its documentation shows it: service invocation, and actors over gRPC.

It is run apart from the tests, which choose the protocol by the SDK's own environment variables. It prints what came
back as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import grpc
from dapr.actor import ActorId, ActorInterface, actormethod
from dapr.actor.client.proxy import ActorProxy
from dapr.aio.clients import DaprClient as AioClient
from dapr.clients import DaprClient
from dapr.clients.exceptions import DaprHttpError
from dapr.clients.grpc.dapr_actor_grpc_client import DaprActorGrpcClient
from dapr.serializers import DefaultJSONSerializer


class CounterInterface(ActorInterface):
    @actormethod(name="Add")
    async def add(self, by: object) -> object: ...

    @actormethod(name="Get")
    async def get(self) -> object: ...


def invoke(app_id: str, queue: str) -> list[Any]:
    """A queue by the app's id, from a push to an acknowledge, and a refusal."""
    seen: list[Any] = []
    with DaprClient() as client:

        def call(path: str, data: Any = None, **query: str) -> Any:
            answer = client.invoke_method(
                app_id,
                f"queue/{queue}/{path}",
                json.dumps(data or {}),
                content_type="application/json",
                http_verb="POST",
                http_querystring=tuple(query.items()),
            )
            return json.loads(answer.text())

        seen.append(call("push", {"item": {"task": 1}})["count"])
        taken = call("pop", require_ack="true", ttl_seconds="60")
        seen.append(taken["items"])
        try:
            call("pop")
        except DaprHttpError as error:
            seen.append(error.status_code)
        except grpc.RpcError as error:
            seen.append(error.code().name)
        seen.append(call("acknowledge", {"lock_id": taken["lock_id"]})["items_acknowledged"])
        answer = client.invoke_method(app_id, f"queue/{queue}", b"", http_verb="GET")
        seen.append(json.loads(answer.data)["count"])
    return seen


async def invoke_later(app_id: str, queue: str) -> Any:
    async with AioClient() as client:
        answer = await client.invoke_method(app_id, f"queue/{queue}/push", b'{"item": 2}', http_verb="POST")
        return json.loads(answer.data)["count"]


async def call_actors(actor_id: str) -> list[Any]:
    """Another app's actors, and their state, reminders and timers."""
    client = DaprActorGrpcClient()
    proxy = ActorProxy(client, "Counter", ActorId(actor_id), CounterInterface, DefaultJSONSerializer())
    seen = [await proxy.Add(5), await proxy.Get()]
    seen.append(json.loads(await client.get_state("Counter", actor_id, "count")))
    change = {"operation": "upsert", "request": {"key": "other", "value": {"a": [1.5, None]}}}
    await client.save_state_transactionally("Counter", actor_id, json.dumps([change]).encode())
    seen.append(json.loads(await client.get_state("Counter", actor_id, "other")))
    seen.append((await client.get_state("Counter", actor_id, "nothing")).decode())
    await client.invoke_method("Timed", actor_id, "ticks")
    await client.register_timer("Timed", actor_id, "t", b'{"dueTime": "0s", "callback": "tick", "data": {"a": 1}}')
    plan = json.dumps({"far": {"body": {"dueTime": "1h"}}}).encode()
    await client.invoke_method("Counted", actor_id, "register", plan)
    again = {"dueTime": "0s", "data": "eA==", "failurePolicy": {"constant": {"interval": "1s", "maxRetries": 3}}}
    await client.register_reminder("Counted", actor_id, "far", json.dumps(again).encode())
    while (ticks := json.loads(await client.invoke_method("Timed", actor_id, "ticks"))) == []:
        await asyncio.sleep(0.05)
    while (counts := json.loads(await client.invoke_method("Counted", actor_id, "counts"))) == {}:
        await asyncio.sleep(0.05)
    seen += [ticks, counts]
    await client.unregister_timer("Timed", actor_id, "t")
    await client.unregister_reminder("Counted", actor_id, "far")
    await client.close()
    return seen


if __name__ == "__main__":
    app, name = sys.argv[1:]
    seen = {"invoked": invoke(app, name), "later": asyncio.run(invoke_later(app, name))}
    print(json.dumps(seen | {"actors": asyncio.run(asyncio.wait_for(call_actors(name), 40))}))
