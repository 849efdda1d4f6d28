"""No request holds the event loop, and with it everybody else's requests, for more than 100 ms."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import grpc.aio
import pytest

from tests.behaviour.security.event_loop_holds import Repeating
from tests.behaviour.security.guarded import QUEUE, TOKENS, OnEmbedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.behaviour.security.guarded import Guarded

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-holds")

#: As long as the head of a request lets it be.
DIGITS = "1" * 31_000
NUMBERS = {
    "integer": DIGITS,
    "integer, then a letter": f"{DIGITS}x",
    "integer, then half an exponent": f"-{DIGITS}e",
    "fraction, then a letter": f".{DIGITS}x",
    "exponent, then a letter": f"1e{DIGITS}x",
}


@pytest.fixture(scope="module")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OnEmbedded]:
    async with OnEmbedded(tmp_path_factory.mktemp("holds")) as guarded:
        yield guarded


@pytest.fixture
async def server(attacked: Guarded) -> AsyncIterator[Repeating]:
    """The server to attack. Fails when the test's requests held its event loop for too long, each time anew."""
    repeating = Repeating(attacked)
    await repeating.begin()
    yield repeating
    await repeating.check()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "place",
    [
        "/orchestrations/x/wait?timeout_seconds=",
        f"/queue/{QUEUE}/peek?count=",
        "/orchestrations/x/history?cursor=",
        "/orchestrations?limit=",
    ],
)
async def test_a_number_of_31_000_digits_in_a_query(server: Repeating, place: str, number: str) -> None:
    answer = await server.ask("GET", place + NUMBERS[number], token="reader")
    answer.refused(400, "INVALID_REQUEST")
    assert len(answer.text) < 4096


async def test_a_number_has_at_most_64_characters(server: Repeating) -> None:
    for zeros, status in ((62, 200), (63, 200), (64, 400)):
        answer = await server.ask("GET", f"/queue/{QUEUE}/peek?count={'0' * zeros}1", token="reader")
        assert answer.status == status


async def test_a_query_of_thousands_of_parameters(server: Repeating) -> None:
    query = "&".join(f"{number}=" for number in range(5_000))
    answer = await server.ask("GET", f"/orchestrations?{query}", token="reader")
    answer.refused(400, "INVALID_REQUEST")
    assert "at most 100 parameters" in answer.body["message"]
    assert len(answer.text) < 4096


async def test_a_parameter_whose_name_is_as_long_as_a_head_may_be(server: Repeating) -> None:
    answer = await server.ask("GET", f"/orchestrations?{DIGITS}=1", token="reader")
    answer.refused(400, "INVALID_REQUEST")
    assert len(answer.text) < 4096


async def test_a_content_length_of_thousands_of_digits(server: Repeating) -> None:
    proof = f"Host: localhost\r\nAuthorization: Bearer {TOKENS['user']}\r\nConnection: close\r\n"
    for digit in "09":
        head = f"POST /queue/{QUEUE}/push HTTP/1.1\r\n{proof}Content-Length: {digit * 5_000}1\r\n\r\n{{"
        assert await server.send_raw(head.encode()) == [400]


@pytest.mark.parametrize("depth", [101, 150, 198])
async def test_a_deep_body_for_an_actor_is_refused_at_the_door(server: Repeating, depth: int) -> None:
    body = b'{"item": %b}' % (b"[" * depth + b"]" * depth)
    answer = await server.ask("PUT", f"/v1.0/actors/PushPopActor/{QUEUE}/method/Push", body, token="operator")
    # An actor proxy raises on any other status, so Holdfast's own actors refuse a call inside a successful answer.
    assert (answer.status, answer.body["success"]) == (200, False)
    assert answer.body["error_code"] == "INVALID_REQUEST"
    assert "100 levels" in answer.body["message"]


def _keys(count: int) -> bytes:
    return b"".join(b',"%d":1' % number for number in range(count))


def _list(entry: bytes, count: int) -> bytes:
    return b"[%b]" % b",".join([entry] * count)


# Of many small lists that are far apart in memory when they are looked at level by level.
NESTED = _list(b"[" * 90 + b"]" * 90, 5_700)
KEYS, LISTS = _keys(1_300_000), _list(b"[]", 5_000_000)
# Of the calls that take no more than 1280 KiB: nearly as many as fit.
FEWER_KEYS = _keys(110_000)
PUSH, OUTCOME = "/queue/spare/push", "/orchestrations/x/outcome"
FAILED = b'{"of":"activity","execution_id":1,"scheduled_seq":1,"error":{"type":"E"%b}}'
HOSTILE = {
    "unknown keys of a push": (PUSH, b'{"item":1%b}' % KEYS),
    "unknown keys of an item": (PUSH, b'{"items":[{"item":1%b}]}' % KEYS),
    "unknown keys of 1000 items": (PUSH, b'{"items":%b}' % _list(b'{"item":1%b}' % _keys(1500), 1000)),
    "wrong items": (PUSH, b'{"items":%b}' % _list(b"1", 8_000_000)),
    "a payload of empty lists": (PUSH, b'{"item":%b}' % LISTS),
    "an item of empty lists": (PUSH, b'{"items":[{"item":%b}]}' % LISTS),
    "an item that does not end": (PUSH, b'{"items":[{"item":%b' % (b"[{}," * 4_000_000)),
    "unknown keys of an acknowledgement": ("/queue/spare/acknowledge", b'{"lock_id":"x"%b}' % KEYS),
    "fewer unknown keys of an acknowledgement": ("/queue/spare/acknowledge", b'{"lock_id":"x"%b}' % FEWER_KEYS),
    "wrong ids": ("/queue/spare/complete", b'{"ids":%b}' % _list(b"1", 8_000_000)),
    "fewer wrong ids": ("/queue/spare/complete", b'{"ids":%b}' % _list(b"1", 600_000)),
    "an input of empty lists": ("/orchestrations/x/start", b'{"input":%b}' % LISTS),
    "an event of empty lists": ("/orchestrations/x/events/e", LISTS),
    "a result of empty lists": ("/idempotency/default/k/commit", b'{"owner":"x","result":%b}' % LISTS),
    "unknown settings": ("/queue/spare/config", b'{"max_locks":1%b}' % KEYS),
    "fewer unknown settings": ("/queue/spare/config", b'{"max_locks":1%b}' % FEWER_KEYS),
    "unknown keys of an outcome": (OUTCOME, b'{"of":"activity"%b}' % FEWER_KEYS),
    "unknown keys of a failure": (OUTCOME, FAILED % FEWER_KEYS),
    "lists in each other as ids": ("/queue/spare/complete", b'{"ids":%b}' % NESTED),
    "lists in each other as a payload": (PUSH, b'{"item":%b}' % NESTED),
    "lists in each other as an item of many": (PUSH, b'{"items":[{"item":1},{"item":%b}]}' % (NESTED + b" " * 300_000)),
    "lists in each other as an event": ("/orchestrations/x/events/e", NESTED),
    "lists in each other as a result": ("/idempotency/default/k/commit", b'{"owner":"x","result":%b}' % NESTED),
    "lists in each other as a failure": (OUTCOME, b'{"of":"activity","error":[%b,%b]}' % (NESTED, NESTED)),
    "objects that do not end as an outcome": (OUTCOME, b'{"of":%b' % (b'{"a":' * 460_000)),
    "wrong types of a failure": (OUTCOME, FAILED % (b',"types":%b' % _list(b"1", 600_000))),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_body_with_a_million_mistakes(server: Repeating, what: str) -> None:
    path, body = HOSTILE[what]
    assert len(body) <= 16 * 1024 * 1024
    answer = await server.ask("PUT" if path.endswith("config") else "POST", path, body, token="operator")
    answer.refused(answer.status, {400: "INVALID_REQUEST", 413: "TOO_LARGE"}[answer.status])
    assert len(answer.text) < 4096


async def test_a_push_as_large_as_it_may_be(server: Repeating) -> None:
    record = {
        "id": 12345,
        "name": "Ada Lovelace",
        "amount": 12.5,
        "tags": ["a", "b"],
        "note": 'some "text" of a length',
    }
    items = [{"item": [{**record, "number": number}] * 125} for number in range(1000)]
    body = json.dumps({"items": items}).encode()
    assert 14 * 1024 * 1024 < len(body) <= 16 * 1024 * 1024
    pushed = (await server.ask("POST", "/queue/spare-large/push", body, token="user")).ok()
    assert (pushed["count"], len(set(pushed["ids"]))) == (1000, 1000)
    popped = (await server.ask("POST", "/queue/spare-large/pop?count=2", token="user")).ok()
    assert popped["items"] == [items[0]["item"], items[1]["item"]]


async def test_several_large_pushes_at_once(server: Repeating) -> None:
    body = b'{"items":%b}' % _list(b'{"item":"%b"}' % (b"x" * 16_000), 1000)
    pushes = [server.ask("POST", "/queue/spare-large/push", body, token="user") for _ in range(4)]
    assert [answer.status for answer in await asyncio.gather(*pushes)] == [200] * 4


async def test_the_description_of_the_api_is_made_beside_the_event_loop(server: Repeating) -> None:
    assert (await server.ask("GET", "/openapi.json", token="reader")).ok()["openapi"].startswith("3.")


ACTORS = "/v1.0/actors"
HOSTILE_TO_ACTORS = {
    "a call of an unknown actor": ("Unknown/x/method/Push", LISTS),
    "a call of an index": ("QueueIndexActor/x/method/Add", b"{%b}" % KEYS[1:]),
    "a batch of many calls": (
        "PushPopActor/spare/method/Batch",
        b'{"calls":%b}' % _list(b'{"method":"Stats"}', 60_000),
    ),
    "a batch of lists": ("PushPopActor/spare/method/Batch", b'{"calls":%b}' % NESTED),
    "a transaction of lists": ("PushPopActor/spare/state", LISTS),
    "a transaction of lists in each other": ("PushPopActor/spare/state", NESTED),
    "a transaction of many operations": (
        "PushPopActor/spare/state",
        _list(b'{"operation":"delete","request":{"key":"k"}}', 28_000),
    ),
    "a transaction of brackets in strings": ("PushPopActor/spare/state", _list(b'"[["', 250_000)),
    "data of a reminder": ("PushPopActor/spare/reminders/r", b'{"dueTime":"1h","data":%b}' % LISTS),
    "data of a timer": ("PushPopActor/spare/timers/t", b'{"dueTime":"1h","data":%b}' % NESTED),
}


@pytest.mark.parametrize("what", HOSTILE_TO_ACTORS)
async def test_a_large_body_for_an_actor(server: Repeating, what: str) -> None:
    path, body = HOSTILE_TO_ACTORS[what]
    assert len(body) <= 16 * 1024 * 1024
    answer = await server.ask("PUT", f"{ACTORS}/{path}", body, token="operator")
    assert answer.status in (400, 500) or answer.body["success"] is False
    assert "errorCode" in answer.body or answer.body["error_code"] in ("INVALID_REQUEST", "TOO_LARGE")
    assert len(answer.text) < 4096


def _fields(field: bytes, size: int) -> bytes:
    return field * (size // len(field))


#: By the call of Dapr's gRPC API.
HOSTILE_MESSAGES = {
    "a transaction of empty operations": ("ExecuteActorStateTransaction", _fields(b"\x1a\x00", 16 * 1024 * 1024)),
    "a smaller transaction of empty operations": ("ExecuteActorStateTransaction", _fields(b"\x1a\x00", 1_300_000)),
    "a call with much metadata": (
        "InvokeActor",
        b"".join(b"\x2a\x08\x0a\x06%06x" % number for number in range(1_600_000)),
    ),
    "a reminder with the same name again and again": ("RegisterActorReminder", _fields(b"\x1a\x00", 1_300_000)),
    "an invocation of empty messages": ("InvokeService", _fields(b"\x1a\x00", 16 * 1024 * 1024)),
}


@pytest.mark.parametrize("token", ["reader", "operator"])
@pytest.mark.parametrize("what", HOSTILE_MESSAGES)
async def test_a_message_of_many_fields(attacked: OnEmbedded, server: Repeating, what: str, token: str) -> None:
    name, message = HOSTILE_MESSAGES[what]
    assert len(message) <= 16 * 1024 * 1024
    metadata = [("authorization", f"Bearer {TOKENS[token]}")]

    async def send() -> str:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{attacked.grpc_port}") as channel:
            call = channel.unary_unary(f"/dapr.proto.runtime.v1.Dapr/{name}")
            try:
                await call(message, metadata=metadata, timeout=30)
            except grpc.aio.AioRpcError as error:
                return str(error.code().name)
        return "OK"

    refused = {"PERMISSION_DENIED"} if token == "reader" and name != "InvokeService" else set()
    assert await server.do(send) in {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"} | refused


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *(
            ("TenantIndexActor/x/method/Since", body)
            for body in (b"-1", b"-9223372036854775809", b'"x"', b"true", b"{}")
        ),
        *(("TenantIndexActor/x/method/Add", body) for body in (b"1", b"{}", b"null", b'"@"')),
        *(("QueueIndexActor/x/method/Add", body) for body in (b"1", b"{}", b"[]", b'"@"')),
        *(
            ("RecordUsageActor/x/method/Add", b'{"sender":"x","number":1,"changes":%b}' % body)
            for body in (b"1", b"[]", b'{"x":1}', b'{"1":1.5}', b'{"1":9007199254740993}')
        ),
        *(
            ("InstanceIndexActor/x/method/Find", body)
            for body in (b'{"criteria":{"tags":[["a"]]}}', b'{"position":["x","y"]}', b'{"position":[1]}')
        ),
        *(("NotifierActor/x/method/Notify", body) for body in (b"1", b"{}", b'{"topic":1,"payload":null}')),
    ],
)
async def test_an_internal_actor_refuses_what_is_none_of_its_requests(
    server: Repeating, path: str, body: bytes
) -> None:
    answer = await server.ask("PUT", f"{ACTORS}/{path}", body, token="operator")
    # daprd's API has this status for every call that an actor refuses.
    assert (answer.status, answer.body["errorCode"]) == (500, "ERR_ACTOR_INVOKE_METHOD")
    assert '"errorCode":"INVALID_REQUEST"' in answer.body["message"]
