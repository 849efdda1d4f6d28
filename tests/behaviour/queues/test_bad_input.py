"""Whatever is said, the answer is a refusal in one form, nothing is stored, and the server lives on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.behaviour.refusals import EXTEND, REQUEUE, RefusalCheck
from tests.behaviour.stacks import EMBEDDED, on_every_stack, on_stacks

if TYPE_CHECKING:
    from tests.support.rest import Server

MEBIBYTE = 1024 * 1024

NOT_TEXT: list[Any] = [None, 7, 1.5, True, [], {}, ["a"], {"a": 1}]
#: Neither text nor a list of it.
NOT_IDS: list[Any] = [None, 7, "0-0-0-0", True, {}, [], [None], [7], [["0-0-0-0"]], ["0-0-0-0", 1.5], ["x"] * 1001]
NOT_A_COUNT: list[Any] = [None, "1", "", "abc", True, False, 1.0, 1.5, -1, 10**30, -(10**30), [], [1], {}, {"a": 1}]

NOT_SECONDS: list[Any] = [None, "1", "", "abc", True, False, -1, -0.001, -(10**30), [], [1], {}, {"a": 1}]

BODIES: dict[str, dict[str, list[Any]]] = {
    "push": {
        "priority": [*NOT_A_COUNT, 2**31],
        "idempotency_key": [*NOT_TEXT[1:], "k" * 1025, "a\u0000b"],
        "tenant_id": [*NOT_TEXT[1:], "t" * 256, "a\u0000b", "a/b", "a||b", "a@b", ".a", "a\n"],
        "dedup_id": [*NOT_TEXT[1:], "", "d" * 256, "a\u0000b"],
        "delay_seconds": [*NOT_SECONDS, 31_536_000.1, 10**30],
        "ttl_seconds": [*NOT_A_COUNT[1:], 0, 31_536_001],
        "elsewhere": [0, 1, -1, "x", None],
        "items": [None, 7, "a", {}, [], [None], [7], ["a"], [[]], [{}], [{"priority": 1}], [{"item": 1, "x": 1}]],
        "dedup_idd": ["x"],
        "": ["an empty name"],
        "__proto__": [{}],
    },
    "acknowledge": {"lock_id": [*NOT_TEXT, "", "l" * 256], "lock": ["x"]},
    "abandon": {
        "lock_id": [*NOT_TEXT, "", "l" * 256],
        "error": [*NOT_TEXT[1:], "e" * 1025],
        "delay_seconds": [*NOT_SECONDS, 31_536_000.1, 10**30],
        "ids": NOT_IDS[1:],
        "errors": ["x"],
    },
    "extend-lock": {
        "lock_id": [*NOT_TEXT, "", "l" * 256],
        "additional_ttl_seconds": [*(value for value in NOT_A_COUNT if value != 10**30), 0],
        "ttl_seconds": [30],
    },
    "dead-letter": {
        "lock_id": [*NOT_TEXT, "", "l" * 256],
        "reason": [*NOT_TEXT[1:], "r" * 1025],
        "ids": NOT_IDS[1:],
        "error": ["x"],
    },
    "complete": {"ids": NOT_IDS, "id": ["0-0-0-0"], "lock_id": ["x"]},
    "redrive": {
        "ids": NOT_IDS[1:],
        "max": [*(value for value in NOT_A_COUNT[1:] if value != 10**30), 0],
        "cursor": [0, ["0-0-0"]],
        "original_queue": ["x"],
        "limit": [1],
    },
    REQUEUE: {
        "delay_seconds": [*NOT_SECONDS, 31_536_000.1, 10**30],
        "error": [*NOT_TEXT[1:], "e" * 1025],
        "lock_id_prefix": ["kX3vQ1"],
        "lock_id": ["kX3vQ1"],
    },
    EXTEND: {
        "additional_ttl_seconds": [*(value for value in NOT_A_COUNT if value != 10**30), 0],
        "lock_id_prefix": ["kX3vQ1"],
        "ttl_seconds": [30],
    },
    "config": {
        "max_locks": [*NOT_A_COUNT, 0],
        "max_deliveries": [*NOT_A_COUNT, 0],
        "dead_letter_queue": [*NOT_TEXT[1:], "", "a/b", "a b", ".a", "a||b", "a@b", "ü", "q" * 256, "a\u0000", "a\n"],
        "partitions": [*NOT_A_COUNT, 0, 257],
        "dedup_window_seconds": [*NOT_A_COUNT, 86_401],
        "capacity": [*NOT_A_COUNT[1:], 0, 2**53 + 1],
        "default_ttl_seconds": [*NOT_A_COUNT[1:], 0, 31_536_001],
        "expired_to_dead_letters": [None, 0, 1, "true", "", [], {}],
        "rate_per_second": [*NOT_SECONDS[1:], 0, 0.0, 1e10, 10**30],
        "max_lock": [1],
        "elsewhere": [0, 1],
        "original_queue": ["x"],
    },
}
VALID: dict[str, dict[str, Any]] = {
    "push": {"item": 1},
    "acknowledge": {"lock_id": "abc123def45"},
    "abandon": {"lock_id": "abc123def45"},
    "extend-lock": {"lock_id": "abc123def45"},
    "dead-letter": {"lock_id": "abc123def45"},
    "complete": {"ids": ["0-0-0-0"]},
    "redrive": {},
    REQUEUE: {},
    EXTEND: {},
    "config": {},
}
#: Calls that may come without a body.
OPTIONAL = ("redrive", REQUEUE, EXTEND)

NOT_A_NUMBER = [
    "",
    "abc",
    "1,5",
    "0x10",
    "1_0",
    "%201",
    "1%20",
    "true",
    "null",
    "[1]",
    "nan",
    "inf",
    "%EF%BC%91",
    "--1",
    "1" * 5000,
]
NOT_AN_INTEGER = [*NOT_A_NUMBER, "1.0", "1.5", "1e1"]
NOT_1_TO_100 = [*NOT_AN_INTEGER, "0", "-1", "101", "1" * 30]
QUERIES: dict[tuple[str, str], dict[str, list[str]]] = {
    ("POST", "/queue/{q}/pop"): {
        "require_ack": ["", "1", "0", "yes", "on", "t", "null", "truee", "%00"],
        "ttl_seconds": NOT_AN_INTEGER,
        "count": NOT_1_TO_100,
        "wait_seconds": [*NOT_A_NUMBER, "-1", "-0.1", "300.1", "1e9", "1e999"],
        "cuont": ["1"],
    },
    ("GET", "/queue/{q}/peek"): {"count": NOT_1_TO_100, "wait_seconds": ["1"]},
    ("GET", "/queue/{q}/dead-letters"): {
        "limit": NOT_1_TO_100,
        "cursor": ["", "x", "0-0", "0-0-0-0", "-1-0-0", "0-0-x", "%ff", "0-0-0%00", "c" * 256, "1" * 50 + "-0-0"],
        "original_queue": ["x"],
        "page": ["1"],
    },
    # Calls without parameters.
    ("GET", "/queue/{q}"): {"count": ["1"]},
    ("GET", "/queue/{q}/config"): {"max_locks": ["2"]},
    ("DELETE", "/queue/{q}/items"): {"dry_run": ["true"], "%ff": ["1"]},
    ("GET", "/queues"): {"limit": NOT_1_TO_100, "cursor": ["c" * 256, "%ff"], "page": ["1"]},
}

NOT_JSON = [
    b"",
    b" \n",
    b"{",
    b'{"item": 1',
    b'{"item": 1}}',
    b'{"item": 1} {"item": 2}',
    b'{"item": 1,}',
    b"{'item': 1}",
    b"{item: 1}",
    b'{"item": NaN}',
    b'{"item": Infinity}',
    b'{"item": -Infinity}',
    b'{"item": 1e400}',
    b'{"items": [{"item": 1}, {"item": [{"a": -1e400}]}]}',
    b'{"item": 01}',
    b'{"item": .5}',
    b'{"item": +1}',
    b'{"item": 0x10}',
    b'{"item": 1_000}',
    b'{"item": "\\ud800"}',
    b'{"item": "\\x41"}',
    b'{"item": "a\nb"}',
    b'{"item": "\xff"}',
    b'\xef\xbb\xbf{"item": 1}',
    '{"item": 1}'.encode("utf-16"),
    b'{"item": undefined}',
    b"/* a */ {}",
    b"item=1",
    b"<item>1</item>",
    b"\x00",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    b'{"item": ' + b"1" * 5000 + b"}",
    b'{"item": ' + b"[" * 50_000,
    b'{"item": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"item": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
]
NOT_AN_OBJECT = [b"null", b"true", b"1", b'"item"', b"[]", b'[{"item": 1}]']


@pytest.mark.parametrize("call", BODIES)
@on_every_stack
async def test_fields_that_are_wrong(server: Server, call: str) -> None:
    queue = server.queue()
    verb = "PUT" if call == "config" else "POST"
    path = f"/queue/{queue.name}/{call}"
    async with RefusalCheck(server) as check:
        for name, values in BODIES[call].items():
            for value in values:
                body = VALID[call] | {name: value}
                if name == "items":
                    del body["item"]
                check.refused(await server.request(verb, path, json.dumps(body).encode()), {name: value})
                if call == "push" and name != "items":
                    many = {"items": [{"item": "good"}, body, {"item": "good"}]}
                    check.refused(await queue.send("push", many), ("many", {name: value}))


@on_stacks(EMBEDDED)
async def test_a_push_that_is_wrong_leaves_nothing_in_a_queue_of_several_partitions(server: Server) -> None:
    queue = server.queue()
    (await queue.configure(partitions=3)).ok()
    for name, values in BODIES["push"].items():
        for value in values:
            body = {"dedup_id": "d"} | VALID["push"] | {name: value}
            if name == "items":
                body = {name: value}
            (await queue.send("push", body)).refused(400, "INVALID_REQUEST")
            if name not in ("items", "elsewhere"):
                many = {"items": [{"item": "good", "dedup_id": "m"}, body, {"item": "good"}]}
                (await queue.send("push", many)).refused(400, "INVALID_REQUEST")
    large = {"item": "x" * (MEBIBYTE + 1), "dedup_id": "l"}
    (await queue.send("push", large)).refused(413, "TOO_LARGE")
    (await queue.send("push", {"items": [{"item": 1, "dedup_id": "d"}, large]})).refused(413, "TOO_LARGE")
    assert (await queue.stats())["count"] == 0
    # And nothing of it is remembered.
    for dedup_id in "dml":
        assert (await queue.push("first", dedup_id=dedup_id)).ok()["count"] == 1


@pytest.mark.parametrize("call", [call for call in BODIES if VALID[call]])
@on_every_stack
async def test_fields_that_are_missing(server: Server, call: str) -> None:
    queue = server.queue()
    async with RefusalCheck(server) as check:
        for missing in VALID[call]:
            body = {name: value for name, value in VALID[call].items() if name != missing}
            check.refused(await queue.send(call, body), f"without {missing}")
            check.refused(await queue.send(call, body | {missing.upper(): 1}), f"{missing} in capitals")


@pytest.mark.parametrize("call", BODIES)
@on_every_stack
async def test_bodies_that_are_not_json_objects(server: Server, call: str) -> None:
    verb = "PUT" if call == "config" else "POST"
    async with RefusalCheck(server) as check:
        for body in (*NOT_JSON, *NOT_AN_OBJECT):
            if call in OPTIONAL and not body.strip():
                continue
            answer = await server.request(verb, f"/queue/{server.name}/{call}", body)
            check.refused(answer, body)


@pytest.mark.parametrize(("verb", "path"), QUERIES)
@on_every_stack
async def test_queries_that_are_wrong(server: Server, verb: str, path: str) -> None:
    async with RefusalCheck(server) as check:
        for name, values in QUERIES[verb, path].items():
            for value in values:
                query = f"{path.format(q=server.name)}?{name}={value}"
                check.refused(await server.request(verb, query), query)


@on_every_stack
async def test_a_body_may_be_100_levels_deep(server: Server) -> None:
    queue = server.queue()
    for opened, closed in (("[", "]"), ('{"a":', "}")):
        for around, levels in (('{"item": %s}', 99), ('{"items": [{"item": %s}]}', 97)):
            inner = "1" if opened != "[" else ""
            item = opened * levels + inner + closed * levels
            (await queue.send("push", (around % item).encode())).ok()
            assert (await queue.pop()).ok()["items"] == [json.loads(item)]
            deeper = opened * (levels + 1) + inner + closed * (levels + 1)
            (await queue.send("push", (around % deeper).encode())).refused(400, "INVALID_REQUEST")
    assert (await queue.stats())["count"] == 0


@on_every_stack
async def test_faults_are_not_told(server: Server) -> None:
    """Answers to invalid input show no code, paths or memory addresses."""
    for body in NOT_JSON:
        answer = await server.request("POST", f"/queue/{server.name}/push", body)
        for secret in (b"Traceback", b".py", b"site-packages", b"holdfast.", b"0x7f"):
            assert secret not in answer.text
        assert len(answer.text) < 1000
    answer = await server.request("POST", f"/queue/{quote('<b>' * 50)}/push", b"{}")
    assert b"<b>" not in answer.text
