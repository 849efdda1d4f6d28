"""Service invocation over HTTP: a call of the app's own id is answered by the embedded host as by daprd."""

from __future__ import annotations

import base64
import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.conformance.side_by_side.differences import INVOCATION, METADATA_KEY, METADATA_VALUE, NOT_SERVED
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from tests.support.stacks.served import ServedStack

pytestmark = pytest.mark.xdist_group("daprd-sqlite")

BY_PATH = f"/v1.0/invoke/{APP_ID}/method/"
JSON = ("Content-Type", "application/json")
#: What differs from one moment to the next.
VOLATILE = {"enqueued_at", "lock_id", "lock_id_prefix", "lock_expires_at", "oldest_age_seconds", "expires_at", "owner"}
VOLATILE |= {"lease_expires_at", "updated_at"}

VERBS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")
#: Each is asked for by every verb, without a body.
PATHS = (
    "queues",
    "queues?limit=0",
    "queue/QUEUE",
    "queue/QUEUE/push",
    "queue/QUEUE/pop?count=2",
    "queue/QUEUE/peek?count=x",
    "queue/QUEUE/config",
    "queue/QUEUE/items",
    "queue/QUEUE/items/0-0-0-0",
    "queue/QUEUE/dead-letters",
    "orchestrations?status=RUNNING",
    "orchestrations/none",
    "orchestrations/nothing/start",
    "orchestrations/none/wait?timeout_seconds=0",
    "idempotency/default/QUEUE",
    "idempotency/default/QUEUE/begin",
    "idempotency/other/QUEUE",
    "healthz",
    "nothing",
    "nothing/at/all?a=b",
)
#: Asked for by GET.
ODD_PATHS = (
    "",
    "/",
    "//queues",
    "queues/",
    "queue//QUEUE",
    "queue/QUEUE/../OTHER",
    "queue/QUEUE/%2e%2e/OTHER",
    "./queues",
    "../queues",
    "queue/..",
    "queue/a%20b",
    "queue/a%2520b",
    "queue/%C3%A9",
    "queue/%ff",
    "queue/a%2Fb",
    "queue/a+b",
    "queue/a;b",
    "queue/~%7E",
    "queue/x" + "y" * 300,
    "idempotency/default/a%2Fb",
    "idempotency/default/a%252Fb",
    "idempotency/default/%C3%A9",
    "idempotency/default/%C3%A9%3F%23",
    "a%3Fb",
    "a%23b",
    "a%01b",
    "queues?limit=1&limit=2",
    "queues?a%20b=%26",
    "queues??",
    "dapr/config",
    "v1.0/metadata",
    "v1.0/actors/Counter/api/method/Get",
    f"v1.0/invoke/{APP_ID}/method/queues",
)
BODIES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff",
    b"{}",
    b'{"item": 1}',
    b'{"item": 1, "priority": -1}',
    b'{"items": []}',
    b'{"items": [{"item": 1}, {"item": 2, "priority": 3}]}',
    b'{"item": "' + b"x" * 100_000 + b'"}',
    b'{"unknown": 1}',
)
#: What a body may be sent with. A list has a header that is sent twice, as Java's SDK does.
HEADERS: tuple[list[tuple[str, str]], ...] = (
    [JSON],
    [JSON, JSON],
    [("Content-Type", "text/plain")],
    [("Content-Type", "application/octet-stream")],
    [("Content-Encoding", "gzip")],
    [("Content-Encoding", "identity")],
    [("Holdfast-Tenant", "acme")],
    [("Holdfast-Tenant", "a b")],
    [("X-Anything", "1"), ("Cookie", "a=b"), ("Accept", "text/html")],
    [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
    [("Origin", "https://shop.example")],
    [("Sec-Fetch-Site", "cross-site")],
)


class Answer(NamedTuple):
    status: int
    content_type: str | None
    allow: str | None
    body: Any


class Request(NamedTuple):
    verb: str
    path: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


_numbers = itertools.count()


def ask(sides: tuple[ServedStack, ServedStack], *requests: Request) -> list[tuple[Answer, Answer]]:
    """The answers of both to each request, daprd's first. QUEUE in a path is a queue of its own."""
    answers: list[list[Answer]] = []
    number = next(_numbers)
    for stack in sides:
        given: list[Answer] = []

        async def body(stack: ServedStack = stack, given: list[Answer] = given) -> None:
            for verb, path, sent, headers in requests:
                path = path.replace("QUEUE", f"invoked-{number}")
                status, got, text = await stack.ask(verb, path, sent, headers)
                given.append(Answer(status, got.get("Content-Type"), got.get("Allow"), readable(text)))

        stack.run(body())
        answers.append(given)
    return list(zip(*answers, strict=True))


def readable(body: bytes) -> Any:
    try:
        return constant(json.loads(body))
    except ValueError:
        return body


def constant(value: Any) -> Any:
    """The value without what differs from one moment to the next; the list of queues is the server's."""
    if isinstance(value, dict):
        return {
            key: "…" if (key in VOLATILE and item is not None) or key == "queues" else constant(item)
            for key, item in value.items()
        }
    return [constant(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", PATHS)
def test_every_verb(sides: tuple[ServedStack, ServedStack], path: str) -> None:
    for verb, (theirs, ours) in zip(VERBS, ask(sides, *(Request(verb, BY_PATH + path) for verb in VERBS)), strict=True):
        assert ours == theirs, verb


@pytest.mark.parametrize("path", [path for path in ODD_PATHS if path not in INVOCATION])
def test_odd_paths(sides: tuple[ServedStack, ServedStack], path: str) -> None:
    [(theirs, ours)] = ask(sides, Request("GET", BY_PATH + path))
    assert ours == theirs


@pytest.mark.parametrize("path", INVOCATION)
def test_paths_that_are_taken_otherwise(sides: tuple[ServedStack, ServedStack], path: str) -> None:
    [(theirs, ours)] = ask(sides, Request("GET", BY_PATH + path))
    assert ours != theirs
    expected = INVOCATION[path]
    assert (ours.status, ours.body["error_code"]) == (expected.status, expected.code)
    assert expected.message in ours.body["message"]


@pytest.mark.parametrize("path", ["queue/QUEUE/push", "queue/QUEUE/config", "orchestrations/nothing/start"])
def test_bodies(sides: tuple[ServedStack, ServedStack], path: str) -> None:
    verb = "PUT" if path.endswith("config") else "POST"
    requests = [Request(verb, BY_PATH + path, body) for body in BODIES]
    for (theirs, ours), body in zip(ask(sides, *requests), BODIES, strict=True):
        assert ours == theirs, body[:100]


@pytest.mark.parametrize("headers", HEADERS, ids=str)
def test_headers(sides: tuple[ServedStack, ServedStack], headers: list[tuple[str, str]]) -> None:
    push = Request("POST", f"{BY_PATH}queue/QUEUE/push", b'{"item": 1}', tuple(headers))
    stats = Request("GET", f"{BY_PATH}queue/QUEUE", None, tuple(headers))
    for theirs, ours in ask(sides, push, stats):
        assert ours == theirs


def test_a_queue_from_the_first_push_to_the_last_acknowledge(sides: tuple[ServedStack, ServedStack]) -> None:
    queue = f"{BY_PATH}queue/QUEUE"
    requests = [
        Request("POST", f"{queue}/push", b'{"items": [{"item": {"a": 1.5}}, {"item": [null], "priority": 1}]}'),
        Request("POST", f"{queue}/pop?require_ack=true&ttl_seconds=60"),
        Request("POST", f"{queue}/pop"),
        Request("POST", f"{queue}/acknowledge", b'{"lock_id": "none"}'),
        Request("POST", f"{queue}/acknowledge", b"{}"),
        Request("GET", f"{queue}/in-flight"),
        Request("GET", queue),
    ]
    answers = ask(sides, *requests)
    for (theirs, ours), request in zip(answers, requests, strict=True):
        assert ours == theirs, request
    assert [ours.status for _, ours in answers] == [200, 200, 423, 400, 400, 200, 200]


def in_header(path: str, app_id: str) -> Request:
    return Request("GET", path, None, (("dapr-app-id", app_id),))


def by_user(path: str, credentials: str) -> Request:
    return Request("GET", path, None, (("Authorization", f"Basic {base64.b64encode(credentials.encode()).decode()}"),))


@pytest.mark.parametrize(
    "request_",
    [
        in_header("/queue/QUEUE", APP_ID),
        in_header("/queue/QUEUE/", APP_ID),
        in_header("/queue/x/../QUEUE?a=b", APP_ID),
        in_header("/queue/QUEUE", f"{APP_ID}.default"),
        in_header("/nothing", APP_ID),
        in_header("/healthz", APP_ID),
        in_header("/v1.0/healthz", APP_ID),
        in_header("/v1.0/healthz", "nowhere"),
        in_header("/v1.0/nothing", APP_ID),
        Request("POST", "/v1.0/actors/Counter/api/method/Get", None, (("dapr-app-id", APP_ID),)),
        in_header(f"{BY_PATH}queues", APP_ID),
        by_user("/queue/QUEUE", f"dapr-app-id:{APP_ID}"),
        by_user("/queue/QUEUE", f"Dapr-App-Id:{APP_ID}"),
        Request("GET", f"/v1.0/invoke/{APP_ID}.default/method/queue/QUEUE"),
        Request("GET", "/v1.0/invoke/%63onformance/method/queue/QUEUE"),
        Request("GET", f"/v1.0/invoke/{APP_ID}/method"),
        Request("GET", f"/v1.0/invoke/{APP_ID}"),
        Request("GET", f"/v1.0/invoke/{APP_ID}/queues"),
        Request("GET", "/v1.0/invoke//method/queues"),
        Request("GET", "/v1.0/invoke/"),
        Request("POST", "/v1.0/invoke"),
        Request("GET", "/v1.0/nothing"),
        Request("GET", "/v1.0/healthz"),
        Request("GET", "/v1.0/healthz/outbound"),
        Request("POST", "/v1.0/healthz"),
        Request("POST", "/v1.0/metadata"),
        Request("PUT", "/v1.0/metadata", b"x"),
        Request("PUT", "/v1.0/metadata/", b"x"),
        Request("PUT", "/v1.0/metadata/a/b", b"x"),
        Request("PUT", "/v1.0/metadata/a%20b", b"\xff"),
        Request("PUT", "/v1.0/metadata/key", b"value"),
        Request("PUT", "/v1.0/metadata/key"),
        Request("GET", "/v1.0/metadata/key"),
        Request("DELETE", "/v1.0/metadata/key"),
    ],
    ids=lambda request: " ".join(map(str, request)) if isinstance(request, Request) else None,
)
def test_other_ways_to_name_the_app(sides: tuple[ServedStack, ServedStack], request_: Request) -> None:
    [(theirs, ours)] = ask(sides, request_)
    assert ours == theirs


@pytest.mark.parametrize(
    "request_",
    [
        in_header("/queues", "nowhere"),
        in_header(f"{BY_PATH}queues", "nowhere"),
        by_user("/queues", "dapr-app-id:nowhere"),
        Request("GET", "/v1.0/invoke/nowhere/method/queues"),
        Request("POST", "/v1.0/invoke/nowhere/method/queue/QUEUE/push", b'{"item": 1}'),
        Request("GET", f"/v1.0/invoke/{APP_ID.upper()}/method/queues"),
    ],
    ids=lambda request: " ".join(map(str, request)) if isinstance(request, Request) else None,
)
def test_an_app_that_is_not_there(sides: tuple[ServedStack, ServedStack], request_: Request) -> None:
    [(theirs, ours)] = ask(sides, request_)
    assert (ours.status, ours.content_type) == (theirs.status, theirs.content_type) == (500, "application/json")
    for answer in (theirs, ours):
        assert set(answer.body) == {"errorCode", "message"}
        assert answer.body["errorCode"] == "ERR_DIRECT_INVOKE"
    assert ours.body["message"].partition(" for ")[0] == theirs.body["message"].partition(" for ")[0]


def test_metadata(sides: tuple[ServedStack, ServedStack]) -> None:
    """The metadata that SDKs read have the same form, and include an attribute that was put."""
    requests = [Request("PUT", "/v1.0/metadata/owner-team", b"queues"), Request("GET", "/v1.0/metadata")]
    _, (theirs, ours) = ask(sides, *requests)
    assert set(theirs.body) <= set(ours.body)
    assert ours.body["id"] == theirs.body["id"] == APP_ID
    for answer in (theirs, ours):
        assert answer.body["extended"]["owner-team"] == "queues"
        assert "daprRuntimeVersion" in answer.body["extended"]
        assert all(isinstance(name, str) for name in answer.body["enabledFeatures"])
        assert answer.body["appConnectionProperties"].keys() == {"port", "protocol", "channelAddress"}
        assert answer.body["scheduler"].keys() == {"connected_addresses"}
        assert {"type": "PushPopActor"}.items() <= next(
            one for one in answer.body["actors"] if one["type"] == "PushPopActor"
        ).items()
    assert ours.body["actorRuntime"].keys() == theirs.body["actorRuntime"].keys()
    for field in ("runtimeStatus", "hostReady", "placement"):
        assert ours.body["actorRuntime"][field] == theirs.body["actorRuntime"][field]


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("k" * METADATA_KEY, b"v" * METADATA_VALUE, True),
        ("k" * (METADATA_KEY + 1), b"", False),
        ("key", b"v" * (METADATA_VALUE + 1), False),
    ],
    ids=["both at the limit", "a long key", "a long value"],
)
def test_only_the_embedded_host_limits_metadata(
    sides: tuple[ServedStack, ServedStack], key: str, value: bytes, fits: bool
) -> None:
    [(theirs, ours)] = ask(sides, Request("PUT", f"/v1.0/metadata/{key}", value))
    assert theirs.status == 204
    assert ours.status == (204 if fits else 400)


@pytest.mark.parametrize("path", NOT_SERVED)
def test_building_blocks_that_only_daprd_serves(sides: tuple[ServedStack, ServedStack], path: str) -> None:
    [(theirs, ours)] = ask(sides, Request("GET", f"/v1.0/{path}"))
    assert (ours.status, ours.body["errorCode"]) == (404, "ERR_DIRECT_INVOKE")
    assert not isinstance(theirs.body, dict) or theirs.body.get("errorCode") != "ERR_DIRECT_INVOKE"
