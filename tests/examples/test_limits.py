"""The limits that the documents name are those of the code."""

from __future__ import annotations

import re

import pytest

from holdfast.cli.serve import serve
from holdfast.gateway import http_request
from holdfast.gateway.auth import audit_log, token_file, tokens
from holdfast.gateway.dapr_api import grpc_answers, grpc_limits, grpc_server
from holdfast.gateway.events import route, watches
from holdfast.gateway.metrics import event_loop, queue_stats
from holdfast.gateway.middleware import body_limits, http_protocol, write_buffers
from holdfast.gateway.query_params import MAX_LENGTH
from holdfast.gateway.queues import listing, partitions, stats_cache
from holdfast.gateway.quotas import creations, record_usage, usage
from holdfast.gateway.schedules import _PAGE_BYTES
from holdfast.idempotency.actor import IdempotencyActor
from holdfast.idempotency.record import RECORD_BYTES
from holdfast.orchestration.actor.cache import MAX_CACHED_BYTES
from holdfast.orchestration.api.requests import MAX_PAYLOAD_BYTES
from holdfast.orchestration.core.limits import DEFAULT_LIMITS
from holdfast.orchestration.storage.record import MAIL_BYTES, PAGE_BYTES
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.api.requests import MAX_ITEM_BYTES, MAX_QUOTED
from holdfast.pushpop.core.budgets import MAX_LOCKS_SHOWN, MAX_POP_BYTES
from holdfast.runtime.garbage_collection import LONGEST_SECONDS
from holdfast.runtime.in_process.transactions import MAX_OPERATIONS
from holdfast.runtime.in_process.turns import DEFAULT_MAX_IDLE
from holdfast.runtime.serialization import MAX_CONTAINERS, MAX_DEPTH
from holdfast.schedules.actor import ScheduleActor
from holdfast.worker.worker import DEFAULT_SLOTS
from tests.support.checkout import ROOT

BODY_TIMEOUT = next(option.default for option in serve.params if option.name == "body_timeout")


def size(number: int) -> str:
    """Returns a number of bytes in the unit that shows it exactly."""
    if number % 1024**2 == 0:
        return f"{number // 1024**2} MiB"
    assert number % 1024 == 0
    return f"{number // 1024} KiB"


def seconds(number: float) -> str:
    return f"{number:g} s"


def many(number: int) -> str:
    return f"{number:,}" if number >= 10_000 else str(number)


#: The limits in each row of a table of docs/access.md, by the beginning of the row.
ROWS = {
    "Request limits": {
        "head of a request": [size(http_protocol.MAX_HEAD), many(http_protocol.MAX_HEADERS)],
        "chunk extensions": [size(http_protocol.MAX_FRAMING)],
        "query": [many(http_request.MAX_PARAMETERS), many(MAX_LENGTH)],
        "body of a push": [size(body_limits.MAX_BODY), size(body_limits.MAX_CALL)],
        "body of an activity's outcome": [size(body_limits.MAX_TEXT_CALL)],
        "call of an app's own actor": [size(body_limits.MAX_BODY)],
        "any other body": [size(body_limits.MAX_CALL), size(MAX_PAYLOAD_BYTES)],
        "state transaction": [many(MAX_OPERATIONS)],
        "message of gRPC": [many(grpc_limits._MAX_FIELDS), size(grpc_limits._ENVELOPE)],
        "quotation in an error": [many(MAX_QUOTED)],
        "nesting of JSON": [many(MAX_DEPTH)],
        "lists and objects in one call": [size(body_limits.MAX_CALL), many(MAX_CONTAINERS)],
        "time for a complete request": [seconds(BODY_TIMEOUT)],
        "the same, while the server stops": [seconds(http_protocol.STOP_SECONDS)],
        "`Content-Encoding`": [],
        "two lengths": [],
        "`Transfer-Encoding` other": [],
        "unread mail of an instance": [many(DEFAULT_LIMITS.unread_mail), size(DEFAULT_LIMITS.unread_bytes)],
        "requests of a tenant per second": [],
        "concurrent calls of a tenant": [many(http_request.BULKY_AT_ONCE), many(http_request.BULKY_WAITING)],
        "bodies of a tenant": [
            size(http_request._LARGE),
            size(http_request.BODY_BYTES),
            many(http_request.BODY_WAITING),
            many(http_request.LARGE_AT_ONCE),
        ],
    },
    "Answer limits": {
        "an answer": [size(body_limits.MAX_ANSWER), size(MAIL_BYTES)],
        "a page of a history": [size(PAGE_BYTES)],
        "instances that one `bulk` call": [size(body_limits.MAX_BODY)],
        "locks shown for a queue": [many(MAX_LOCKS_SHOWN)],
        "partitions read for a page of `GET /queues`": [many(listing.MAX_PARTITIONS)],
        "partitions read for `GET /metrics`": [many(queue_stats.MOST_PARTITIONS)],
        "time for an answer to be read": [size(write_buffers.MIN_TAKEN), seconds(write_buffers.WRITE_SECONDS)],
        "streams of [events]": [
            many(watches.MOST_STREAMS),
            many(watches.MOST_OF_TENANT),
            many(route.MOST_TOPICS),
            f"{route.STREAM_SECONDS / 60:g} minutes",
        ],
        "answers in memory": [size(write_buffers.MAX_UNSENT)],
        "the same over gRPC": [size(grpc_answers.MAX_UNREAD), size(grpc_answers._SMALL)],
    },
}

#: The same of the table of limits in docs/tenants.md.
SHARED = {
    "partitions read at a time": [many(partitions.FAN_OUT)],
    "such reads at a time": [many(http_request.BULKY_AT_ONCE)],
    "partitions read for one page": [many(listing.MAX_PARTITIONS)],
    "bodies above 64 KiB in memory at once": [size(http_request._LARGE), size(http_request.BODY_BYTES)],
    "bodies above 64 KiB processed": [size(http_request._LARGE), many(http_request.LARGE_AT_ONCE)],
}

#: What the sentences of the documents say, with the values of the code.
SENTENCES = {
    "SECURITY.md": [
        f"At most {DEFAULT_MAX_IDLE:,} idle actors stay in memory",
        f"{size(PushPopActor.kept_bytes)} of items for a queue",
        f"{size(IdempotencyActor.kept_bytes)} for an idempotency record or a schedule",
        f"{size(MAX_CACHED_BYTES)} of inputs and unread mail for all instances together",
        f"An instance has {size(DEFAULT_LIMITS.unread_bytes)} of unread mail at most",
        f"stopped after {seconds(DEFAULT_LIMITS.seconds)} of processor time",
        f"`GET /events` ({watches.MOST_STREAMS}, and {watches.MOST_OF_TENANT} of one tenant)",
        f"holds the event loop for more than {event_loop.LONGEST_HOLD_SECONDS * 1000:.0f} ms",
        f"only while it takes about {LONGEST_SECONDS * 1000:.0f} ms",
    ],
    "docs/access.md": [
        f"A token has {tokens.MIN_TOKEN} to {tokens.MAX_TOKEN} visible ASCII characters",
        f"no response within {seconds(token_file.LOOK_SECONDS)}",
        f"after {seconds(token_file.UNVERIFIED_SECONDS)} without the file",
        f"a stream of events for {route.STREAM_SECONDS / 60:g} minutes at most",
        f"REST, the actor API and daprd's calls refuse more than {MAX_DEPTH}",
        f"a message has at most {size(body_limits.MAX_BODY)} and is not compressed",
        f"metadata have at most {size(grpc_server._MAX_METADATA)}",
        f"{grpc_server.RECEIVING_AT_ONCE} messages of a tenant are received at once, and "
        f"{grpc_server.RECEIVING_WAITING} wait; {grpc_server._MAX_CALLS} calls run at once",
        f"limited to {audit_log.MAX_REFUSALS:g} lines per second for each error and each token",
        f"and to {audit_log.MAX_REFUSALS_OF_ALL:g} for all tokens",
    ],
    "docs/tenants.md": [
        f"At most {DEFAULT_MAX_IDLE:,} idle actors stay in memory",
        f"beside Dapr for {stats_cache.SHARED_SECONDS:g} seconds where a queue has {stats_cache.MANY_PARTITIONS} "
        "partitions or more",
        f"its own slots ({DEFAULT_SLOTS} for each of its queues)",
        f"each counts its payload as JSON and {usage.ITEM_BYTES} bytes",
        f"its error, and {RECORD_BYTES} bytes, until it expires",
        f"by what it writes through other gateways in {record_usage.STALE_SECONDS:g} seconds",
        f"by what it pushes through the others in {usage.STALE_SECONDS:g} seconds",
        f"as children, in {creations.STALE_SECONDS:g} seconds",
        f"every {usage.FRESH_SECONDS:g} seconds while a tenant pushes",
        f"reads all queues of the tenant, {usage.AT_ONCE} at a time",
    ],
    "docs/orchestrations.md": [
        f"hold {DEFAULT_LIMITS.unread_mail:,} events, with {size(DEFAULT_LIMITS.unread_bytes)} of data",
    ],
}

_STATUS = re.compile(r"\b[45]\d\d (?=`)|(?<=\| )[45]\d\d\b|HTTP/\d\.\d")
_LIMIT = re.compile(r"\d+(?:,\d{3})*(?: (?:KiB|MiB|s|minutes)\b)?")


def table(document: str, heading: str) -> list[str]:
    """Returns the rows of the first table of a section."""
    section = (ROOT / document).read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.removeprefix("| ") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def check(rows: list[str], limits: dict[str, list[str]]) -> None:
    named = {}
    for row in rows:
        [start] = [start for start in limits if row.startswith(start)] or [row]
        named[start] = _LIMIT.findall(_STATUS.sub("", row))
    assert named == limits


@pytest.mark.parametrize("heading", ROWS)
def test_the_tables_of_access_control_name_the_limits_of_the_code(heading: str) -> None:
    check(table("docs/access.md", heading), ROWS[heading])


def test_the_table_of_what_tenants_share_names_the_limits_of_the_code() -> None:
    check(table("docs/tenants.md", "What is shared"), SHARED)


@pytest.mark.parametrize(("document", "sentence"), [(page, one) for page in SENTENCES for one in SENTENCES[page]])
def test_the_sentences_name_the_limits_of_the_code(document: str, sentence: str) -> None:
    assert sentence in " ".join((ROOT / document).read_text("utf-8").split())


def test_limits_that_a_document_names_once_for_several_are_the_same() -> None:
    assert PAGE_BYTES == _PAGE_BYTES == MAX_POP_BYTES
    assert MAX_ITEM_BYTES == MAX_PAYLOAD_BYTES
    assert IdempotencyActor.kept_bytes == ScheduleActor.kept_bytes
