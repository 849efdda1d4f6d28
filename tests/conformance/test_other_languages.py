"""Requests and answers of other languages' clients, where they differ from Python's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1

from tests.conformance.hosts import SERVED, on_hosts
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.served import ServedStack

JSON = ("Content-Type", "application/json")


async def over_http(stack: ServedStack, kind: str, actor: str, method: str, body: bytes | None) -> bytes:
    status, _, answer = await stack.ask("POST", f"/v1.0/actors/{kind}/{actor}/method/{method}", body, [JSON])
    assert status == 200
    return answer


async def over_grpc(
    stack: ServedStack, kind: str, actor: str, method: str, body: bytes | None, metadata: dict[str, str] | None = None
) -> bytes:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.grpc_port}") as channel:
        request = api_v1.InvokeActorRequest(
            actor_type=kind, actor_id=actor, method=method, data=body or b"", metadata=metadata
        )
        answer: bytes = (await api_service_v1.DaprStub(channel).InvokeActor(request)).data
        return answer


WAYS = {"http": over_http, "grpc": over_grpc}
ways = pytest.mark.parametrize("way", WAYS)


@ways
@on_hosts(*SERVED)
async def test_an_argument_in_an_array(stack: ServedStack, way: str) -> None:
    """As JavaScript's actor proxy sends every argument."""
    queue = f"arrays-{way}"

    async def call(method: str, *arguments: Any, kind: str = "PushPopActor", space: bytes = b"") -> Any:
        body = space + json.dumps(arguments).encode() + space if arguments else None
        return json.loads(await WAYS[way](stack, kind, queue, method, body))

    assert (await call("Push", {"item": {"a": [1]}}))["count"] == 1
    assert (await call("Push", {"items": [{"item": [2]}, {"item": None}]}, space=b" \r\n"))["count"] == 2
    assert (await call("Peek", {"count": 5}))["items"] == [{"a": [1]}, [2], None]
    taken = await call("PopWithAck", {"ttl_seconds": 60})
    assert (await call("Acknowledge", {"lock_id": taken["lock_id"]}))["items_acknowledged"] == 1
    refused = await call("Acknowledge", {"lock_id": "none"})
    assert (refused["success"], refused["error_code"]) == (False, "LOCK_NOT_FOUND")
    status = await call("Status", kind="OrchestrationActor")
    assert status["error_code"] == "NOT_FOUND"


@ways
@pytest.mark.parametrize("body", [b"[]", b'[{"item": 1}, {"item": 2}]', b"[[{}]]", b"[1]", b'["x"]'])
@on_hosts(*SERVED)
async def test_an_array_that_is_no_argument(stack: ServedStack, way: str, body: bytes) -> None:
    answer = json.loads(await WAYS[way](stack, "PushPopActor", "no-argument", "Push", body))
    assert (answer["success"], answer["error_code"]) == (False, "INVALID_REQUEST")


@pytest.mark.parametrize("body", [b"[", b"[{}", b"]", b'[{"item": 1}}]', b"[{}] []"])
@on_hosts(*SERVED)
async def test_an_array_that_is_none(stack: ServedStack, body: bytes) -> None:
    status, answer = await stack.request("POST", "PushPopActor/no-array/method/Push", body)
    assert status == 500
    assert b"INVALID_REQUEST" in answer


@ways
@on_hosts(*SERVED)
async def test_a_large_argument_in_an_array(stack: ServedStack, way: str) -> None:
    items = [{"item": "x" * 500_000, "priority": number % 3} for number in range(5)]
    body = json.dumps([{"items": items}]).encode()
    assert json.loads(await WAYS[way](stack, "PushPopActor", f"large-{way}", "Push", body))["count"] == 5


@on_hosts(*SERVED)
async def test_a_large_array_of_two(stack: ServedStack) -> None:
    push = {"items": [{"item": "x" * 500_000}]}
    body = json.dumps([push, push, push]).encode()
    _, answer = await stack.request("POST", "PushPopActor/two/method/Push", body)
    assert b"INVALID_REQUEST" in answer or b"TOO_LARGE" in answer
    assert await stack.call("PushPopActor", "two", "Pop") == {"items": [], "count": 0, "messages": []}


@ways
@pytest.mark.parametrize("value", [[], [1], [[1]], [{"a": 1}], [1, 2], {"a": [1]}])
@on_hosts(*SERVED)
async def test_an_app_s_own_actor_gets_a_list_as_it_is(stack: ServedStack, way: str, value: Any) -> None:
    body = json.dumps(value).encode()
    assert json.loads(await WAYS[way](stack, "Keeper", "lists", "echo", body)) == value


@pytest.mark.parametrize(
    ("body", "headers", "answer"),
    [
        (None, [], b""),
        (None, [JSON], b"null"),
        (b"null", [JSON], b"null"),
        (b"1", [], b"null"),
    ],
)
@on_hosts(*SERVED)
async def test_a_method_that_returns_nothing(
    stack: ServedStack, body: bytes | None, headers: list[tuple[str, str]], answer: bytes
) -> None:
    """Python's client parses the answer; Java's, which sends neither body nor content type, needs none."""
    status, seen, text = await stack.ask("POST", "/v1.0/actors/Keeper/void/method/nothing", body, headers)
    assert (status, text) == (200, answer)
    assert answer == b"" or seen["Content-Type"] == "application/json"


@on_hosts(*SERVED)
async def test_a_method_that_returns_nothing_over_grpc(stack: ServedStack) -> None:
    assert await over_grpc(stack, "Keeper", "void", "nothing", b"") == b""
    assert await over_grpc(stack, "Keeper", "void", "nothing", b"null") == b"null"
    assert await over_grpc(stack, "Keeper", "void", "echo", b"null") == b"null"


@pytest.mark.parametrize(("body", "answer"), [(b"null", b"null"), (b"1", b"null"), (None, b"")])
@on_hosts(*SERVED)
async def test_a_content_type_over_grpc_changes_nothing(stack: ServedStack, body: bytes | None, answer: bytes) -> None:
    """Rust's SDK sends one, and parses the answer. daprd does not pass it on to the app."""
    content_type = {"Content-Type": "application/json"}
    assert await over_grpc(stack, "Keeper", "void", "nothing", body, content_type) == answer


@on_hosts(*SERVED)
async def test_a_timer_without_data(stack: ServedStack) -> None:
    """daprd leaves them out when it fires, and Python's SDK needs them."""
    await stack.call("Timed", "no-data", "ticks")
    status, _ = await stack.request("PUT", "Timed/no-data/timers/t", b'{"dueTime": "0s", "callback": "tick"}')
    assert status == 204

    async def ticked() -> bool:
        return bool(await stack.call("Timed", "no-data", "ticks"))

    await eventually(ticked)
    assert await stack.call("Timed", "no-data", "ticks") == [None]
