"""Dapr's API over gRPC: the embedded host answers as daprd, with the same codes, details and metadata."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1, common_v1
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.conformance.side_by_side.differences import GRPC
from tests.conformance.side_by_side.test_invocation import BODIES, constant
from tests.support.stacks.served import APP_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.stacks.served import ServedStack

pytestmark = pytest.mark.xdist_group("daprd-sqlite")

#: Metadata that daprd adds, or that tell the moment.
NOT_COMPARED = {"traceparent", "tracestate", "grpc-trace-bin", "dapr-date", "dapr-content-length"}


class Call(NamedTuple):
    name: str
    request: Any


class Outcome(NamedTuple):
    code: str
    details: str
    #: The details beyond the text.
    infos: Sequence[Any]
    answer: Any
    metadata: dict[str, str]


def method(name: str, data: bytes = b"", kind: str = "Counter", actor: str = "api") -> Call:
    return Call("InvokeActor", api_v1.InvokeActorRequest(actor_type=kind, actor_id=actor, method=name, data=data))


def state(key: str, kind: str = "Counter", actor: str = "api") -> Call:
    return Call("GetActorState", api_v1.GetActorStateRequest(actor_type=kind, actor_id=actor, key=key))


def upsert(key: str, value: bytes = b"1", **metadata: str) -> Any:
    return operation("upsert", key, value, **metadata)


def operation(kind: str, key: str, value: bytes = b"", **metadata: str) -> Any:
    return api_v1.TransactionalActorStateOperation(
        operationType=kind, key=key, value=any_pb2.Any(value=value), metadata=metadata
    )


def transaction(*operations: Any, kind: str = "Counter", actor: str = "api") -> Call:
    request = api_v1.ExecuteActorStateTransactionRequest(actor_type=kind, actor_id=actor, operations=operations)
    return Call("ExecuteActorStateTransaction", request)


def reminder(**fields: Any) -> Call:
    known = {"actor_type": "Reminded", "actor_id": "api", "name": "over-grpc", "due_time": "1h"}
    return Call("RegisterActorReminder", api_v1.RegisterActorReminderRequest(**(known | fields)))


def retried(**fields: Any) -> Any:
    return common_v1.JobFailurePolicy(constant=common_v1.JobFailurePolicyConstant(**fields))


def timer(**fields: Any) -> Call:
    known = {"actor_type": "Timed", "actor_id": "api", "name": "over-grpc", "due_time": "1h", "callback": "tick"}
    return Call("RegisterActorTimer", api_v1.RegisterActorTimerRequest(**(known | fields)))


def named(call: str, name: str, kind: str) -> Call:
    request = getattr(api_v1, f"{call}Request")(actor_type=kind, actor_id="api", name=name)
    return Call(call, request)


def invoke(
    path: str, verb: str | None = "GET", data: bytes = b"", query: str = "", app_id: str = APP_ID, kind: str = ""
) -> Call:
    extension = None
    if verb is not None:
        extension = common_v1.HTTPExtension(verb=common_v1.HTTPExtension.Verb.Value(verb), querystring=query)
    message = common_v1.InvokeRequest(
        method=path, data=any_pb2.Any(value=data), content_type=kind, http_extension=extension
    )
    return Call("InvokeService", api_v1.InvokeServiceRequest(id=app_id, message=message))


CALLS = {
    "a method": method("Get"),
    "a method with an argument": method("Add", b"1"),
    "an unknown method": method("Nothing"),
    "an unknown type": method("Get", kind="Nothing"),
    "an argument that is not JSON": method("Add", b"{"),
    "no argument where one is needed": method("Add"),
    "an argument of the wrong type": method("Add", b'"one"'),
    "an actor that fails": method("fail", kind="Faulty"),
    "an actor that refuses": method("refuse", b'"LOCK_NOT_FOUND"', kind="Faulty"),
    "a queue": method("Stats", kind="PushPopActor", actor="over-grpc"),
    "a queue that refuses": method("Acknowledge", b'{"lock_id": "none"}', kind="PushPopActor", actor="over-grpc"),
    "a queue called with an array": method("Acknowledge", b'[{"lock_id": "none"}]', "PushPopActor", "over-grpc"),
    "a method without a name": method(""),
    "a method with a slash": method("a/b"),
    "a method behind dots": method("../Get"),
    "a method named by dots": method(".."),
    "a method with a NUL": method("a\0b"),
    "a method with a line feed": method("a\nb"),
    "a method with a question mark": method("a?b"),
    "no id": method("Get", actor=""),
    "no type": method("Get", kind=""),
    "no type and no id": method("Get", kind="", actor=""),
    "dots for an id": method("Get", actor=".."),
    "a dot for an id": method("Get", actor="."),
    "an id with a slash": method("Get", actor="a/b"),
    "an id with a backslash": method("Get", actor="a\\b"),
    "an id with a control character": method("Get", actor="a\x1fb"),
    "a type with a slash": method("Get", kind="a/b"),
    "an id with many signs": method("Get", actor=";,~'$=*()"),
    "an id with a leading dot": method("Get", actor=".hidden"),
    "a long id": method("Get", actor="x" * 1000),
    "an id with a space": method("Get", actor="a b"),
    "an id with a bar": method("Get", actor="a||b"),
    "an id with an umlaut": method("Get", actor="ü"),
    "an id with a percent sign": method("Get", actor="a%41"),
    "state": state("count"),
    "state that is not there": state("nothing"),
    "state of an actor that never was": state("count", actor="never"),
    "state of an unknown type": state("count", kind="Nothing"),
    "state without a key": state(""),
    "state of no actor": state("", kind="", actor=""),
    "state of an actor without an id": state("count", actor=""),
    "state of an id with a slash": state("count", actor="a/b"),
    "state of an id with bars": state("count", actor="a||b"),
    "an empty transaction": transaction(),
    "an upsert of JSON": transaction(upsert("json", b'{"a": [1.0, 12345678901234567890]}')),
    "state that was JSON": state("json"),
    "an upsert of bytes": transaction(upsert("bytes", bytes(range(256)))),
    "state that was bytes": state("bytes"),
    "an upsert of nothing": transaction(upsert("empty", b"")),
    "state that was nothing": state("empty"),
    "an upsert without a value": transaction(
        api_v1.TransactionalActorStateOperation(operationType="upsert", key="empty")
    ),
    "an upsert and a delete": transaction(upsert("both"), operation("delete", "both")),
    "state that was deleted": state("both"),
    "an upsert without a key": transaction(upsert("")),
    "a delete without a key": transaction(operation("delete", "")),
    "a delete of what is not there": transaction(operation("delete", "nothing")),
    "an operation without a name": transaction(operation("", "a")),
    "an unknown operation": transaction(upsert("untouched"), operation("explode", "a")),
    "state of a transaction that failed": state("untouched"),
    "an upsert with other metadata": transaction(upsert("more", other="x")),
    "a key with bars": transaction(upsert("a||b")),
    "a transaction of an actor that is not active": transaction(actor="never"),
    "a transaction of an unknown type": transaction(kind="Nothing"),
    "a transaction of an actor without an id": transaction(actor=""),
    "a transaction with a time to live": transaction(upsert("ttl", ttlInSeconds="100")),
    "a transaction with a senseless time to live": transaction(upsert("ttl", ttlInSeconds="soon")),
    "a reminder": reminder(),
    "a reminder with data": reminder(data=b"x"),
    "a reminder that is there": named("GetActorReminder", "over-grpc", "Reminded"),
    "a reminder without a name": reminder(name=""),
    "a reminder with a slash in its name": reminder(name="a/b"),
    "a reminder named by dots": reminder(name=".."),
    "a reminder of an unknown type": reminder(actor_type="Nothing"),
    "a reminder without a type": reminder(actor_type=""),
    "a reminder of an actor without an id": reminder(actor_id=""),
    "a reminder of an id with a slash": reminder(actor_id="a/b"),
    "a reminder without any time": reminder(due_time=""),
    "a reminder with a period only": reminder(due_time="", period="1h"),
    "a reminder due at no time": reminder(due_time="soon"),
    "a reminder with a senseless period": reminder(period="often"),
    "a reminder without repetitions": reminder(period="R0/PT1H"),
    "a reminder with a time to live only": reminder(ttl="2h"),
    "a reminder with a time to live": reminder(period="1h", ttl="5h"),
    "a reminder with a senseless time to live": reminder(period="1h", ttl="short"),
    "a reminder that overwrites": reminder(overwrite=True),
    "a reminder that must not overwrite": reminder(name="once-over-grpc", overwrite=False),
    "the same again": reminder(name="once-over-grpc", overwrite=False),
    "a reminder that is dropped": reminder(
        failure_policy=common_v1.JobFailurePolicy(drop=common_v1.JobFailurePolicyDrop())
    ),
    "a reminder that is retried": reminder(
        failure_policy=retried(interval=duration_pb2.Duration(seconds=5, nanos=500_000_000), max_retries=3)
    ),
    "a reminder retried for ever": reminder(failure_policy=retried()),
    "a reminder retried never": reminder(failure_policy=retried(max_retries=0)),
    "a reminder with an empty policy": reminder(failure_policy=common_v1.JobFailurePolicy()),
    "a reminder retried before now": reminder(failure_policy=retried(interval=duration_pb2.Duration(seconds=-5))),
    "a reminder that is not there": named("GetActorReminder", "nothing", "Reminded"),
    "a reminder to get of an unknown type": named("GetActorReminder", "nothing", "Nothing"),
    "a reminder to get without a name": named("GetActorReminder", "", "Reminded"),
    "a reminder to end": named("UnregisterActorReminder", "over-grpc", "Reminded"),
    "a reminder to end that is not there": named("UnregisterActorReminder", "nothing", "Reminded"),
    "a reminder to end of an unknown type": named("UnregisterActorReminder", "nothing", "Nothing"),
    "a timer": timer(),
    "a timer with data": timer(data=b"1"),
    "a timer due at once": timer(due_time="", name="now-over-grpc"),
    "a timer without a name": timer(name=""),
    "a timer with a slash in its name": timer(name="a/b"),
    "a timer of an unknown type": timer(actor_type="Nothing"),
    "a timer of an actor without an id": timer(actor_id=""),
    "a timer of an actor that is not active": timer(actor_id="never"),
    "a timer due at no time": timer(due_time="soon"),
    "a timer with a senseless period": timer(period="often"),
    "a timer without repetitions": timer(period="R0/PT1H"),
    "a timer with a senseless time to live": timer(ttl="short"),
    "a timer to end": named("UnregisterActorTimer", "over-grpc", "Timed"),
    "a timer to end that is not there": named("UnregisterActorTimer", "nothing", "Timed"),
    "a timer to end of an unknown type": named("UnregisterActorTimer", "nothing", "Nothing"),
    "metadata to add": Call("SetMetadata", api_v1.SetMetadataRequest(key="team", value="queues")),
    "metadata without a key": Call("SetMetadata", api_v1.SetMetadataRequest(value="queues")),
    "an app that is not there": invoke("queues", app_id="nope"),
    "an app in capitals": invoke("queues", app_id=APP_ID.upper()),
    "an app without a name": invoke("queues", app_id=""),
    "an app in its namespace": invoke("queue/QUEUE", app_id=f"{APP_ID}.default"),
    "no HTTP extension": invoke("queues", verb=None),
    "no verb": invoke("queues", verb="NONE"),
    "the verb CONNECT": invoke("queues", verb="CONNECT"),
    "a path with a query": invoke("queues?limit=1"),
    "a path with a fragment": invoke("queues#1"),
    "a path with a control character": invoke("a\x01b"),
    "daprd's own path": invoke("dapr/config"),
    "a stored value": Call("GetState", api_v1.GetStateRequest(store_name="statestore", key="x")),
    "a secret": Call("GetSecret", api_v1.GetSecretRequest(store_name="x", key="y")),
    "a message to a topic": Call("PublishEvent", api_v1.PublishEventRequest(pubsub_name="x", topic="y")),
    "a job": Call("GetJob", api_v1.GetJobRequest(name="x")),
    "an actor's reminders": Call(
        "ListActorReminders", api_v1.ListActorRemindersRequest(actor_type="Reminded", actor_id="api")
    ),
}

VERBS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH")
PATHS = (
    "queues",
    "/queues",
    "queue/QUEUE",
    "queue/QUEUE/push",
    "queue/QUEUE/pop",
    "queue/QUEUE/acknowledge",
    "queue/QUEUE/config",
    "queue/QUEUE/../OTHER",
    "queue//QUEUE",
    "queue/a%20b",
    "queue/a b",
    "queue/ü",
    "../queues",
    "",
    "orchestrations/none",
    "orchestrations/nothing/start",
    "idempotency/default/QUEUE",
    "idempotency/default/QUEUE/begin",
    "healthz",
    "nothing",
    f"v1.0/invoke/{APP_ID}/method/queues",
)

_numbers = itertools.count()


def ask(sides: tuple[ServedStack, ServedStack], *calls: Call) -> list[tuple[Outcome, Outcome]]:
    """The outcomes of each call, daprd's first. QUEUE in the path of a method is a queue of its own."""
    number = next(_numbers)
    outcomes: list[list[Outcome]] = []
    for stack in sides:
        seen: list[Outcome] = []

        async def body(stack: ServedStack = stack, seen: list[Outcome] = seen) -> None:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.grpc_port}") as channel:
                stub = api_service_v1.DaprStub(channel)
                for kind, name in (("Counter", "Get"), ("Reminded", "fired"), ("Timed", "ticks")):
                    await stub.InvokeActor(api_v1.InvokeActorRequest(actor_type=kind, actor_id="api", method=name))
                for name, request in calls:
                    if name == "InvokeService":
                        own = type(request).FromString(request.SerializeToString())
                        own.message.method = own.message.method.replace("QUEUE", f"over-grpc-{number}")
                        request = own
                    seen.append(await outcome_of(getattr(stub, name)(request, timeout=20)))

        stack.run(body())
        outcomes.append(seen)
    return list(zip(*outcomes, strict=True))


async def outcome_of(call: Any) -> Outcome:
    answer: Any = None
    infos: list[Any] = []
    try:
        answer = readable(await call)
    except grpc.aio.AioRpcError as error:
        if (status := rpc_status.from_call(error)) is not None:
            infos = [unpacked(detail) for detail in status.details]
    code = (await call.code()).name
    metadata = {name: value for name, value in await call.initial_metadata() or () if name not in NOT_COMPARED}
    return Outcome(code, await call.details() or "", infos, answer, metadata)


def unpacked(detail: Any) -> tuple[str, str, dict[str, str]]:
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    return info.reason, info.domain, dict(info.metadata)


def readable(answer: Any) -> Any:
    body = answer.data.value if isinstance(answer, common_v1.InvokeResponse) else getattr(answer, "data", b"")
    if isinstance(body, bytes):
        with contextlib.suppress(ValueError):
            body = constant(json.loads(body))
    return body, getattr(answer, "content_type", None), str(answer) if not body else None


@pytest.mark.parametrize("name", [name for name in CALLS if name not in GRPC])
def test_the_outcome_is_the_same(sides: tuple[ServedStack, ServedStack], name: str) -> None:
    [(theirs, ours)] = ask(sides, CALLS[name])
    assert ours == theirs


@pytest.mark.parametrize("name", GRPC)
def test_the_outcome_differs_as_it_is_known(sides: tuple[ServedStack, ServedStack], name: str) -> None:
    [(theirs, ours)] = ask(sides, CALLS[name])
    assert (ours.code, ours.details) != (theirs.code, theirs.details)
    assert ours.code == GRPC[name].code
    assert GRPC[name].details in ours.details


@pytest.mark.parametrize("path", PATHS)
def test_every_verb(sides: tuple[ServedStack, ServedStack], path: str) -> None:
    for (theirs, ours), verb in zip(ask(sides, *(invoke(path, verb) for verb in VERBS)), VERBS, strict=True):
        assert ours == theirs, verb


@pytest.mark.parametrize("kind", ["", "application/json", "text/plain"])
def test_bodies(sides: tuple[ServedStack, ServedStack], kind: str) -> None:
    calls = [invoke("queue/QUEUE/push", "POST", body, kind=kind) for body in BODIES]
    for (theirs, ours), body in zip(ask(sides, *calls), BODIES, strict=True):
        assert ours == theirs, body[:100]


@pytest.mark.parametrize("query", ["count=2", "count=x", "count=1&count=2", "a=%20", "count", "?", "&&"])
def test_queries(sides: tuple[ServedStack, ServedStack], query: str) -> None:
    calls = [invoke("queue/QUEUE/push", "POST", b'{"items": [{"item": 1}, {"item": 2}]}')]
    for theirs, ours in ask(sides, *calls, invoke("queue/QUEUE/peek", query=query)):
        assert ours == theirs


def test_metadata(sides: tuple[ServedStack, ServedStack]) -> None:
    """Both set the metadata that SDKs read."""
    seen = []
    for stack in sides:

        async def body(stack: ServedStack = stack) -> None:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.grpc_port}") as channel:
                stub = api_service_v1.DaprStub(channel)
                await stub.SetMetadata(api_v1.SetMetadataRequest(key="team", value="queues"))
                seen.append(await stub.GetMetadata(api_v1.GetMetadataRequest()))

        stack.run(body())
    theirs, ours = seen
    assert ours.id == theirs.id == APP_ID
    assert ours.extended_metadata["team"] == theirs.extended_metadata["team"] == "queues"
    set_by_daprd = {field.name for field, _ in theirs.ListFields()} - {"workflows"}
    assert set_by_daprd <= {field.name for field, _ in ours.ListFields()}
    assert ours.actor_runtime.runtime_status == theirs.actor_runtime.runtime_status
    assert ours.actor_runtime.host_ready
    assert ours.app_connection_properties.port == sides[1].app_port
