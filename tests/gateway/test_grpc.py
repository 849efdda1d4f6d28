"""The gRPC port of a running server: limits, deadlines, TLS, and how it begins and ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1, common_v1
from google.protobuf import any_pb2

from holdfast.gateway.dapr_api.grpc_server import RECEIVING_AT_ONCE
from holdfast.gateway.http_request import BODY_BYTES
from holdfast.local.ports import free_port
from tests.gateway.test_tls import Authority
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.xdist_group("grpc")

MEBIBYTE = 1024 * 1024
BODY_TIMEOUT = 1
SERVICE = "/dapr.proto.runtime.v1.Dapr/"
#: Calls whose answers, of 3 MB each, are more than a tenant may have unread.
UNREAD = 24
#: Calls whose actors wait for each other.
WAITING = RECEIVING_AT_ONCE + 1
APP = f"""
import asyncio

from dapr.actor import Actor, ActorInterface, actormethod

from holdfast import App

app = App()
barrier = asyncio.Barrier({WAITING})


class WaitingInterface(ActorInterface):
    @actormethod(name="Wait")
    async def wait(self, argument: str) -> int: ...


@app.actor
class WaitingActor(Actor, WaitingInterface):
    async def wait(self, argument: str) -> int:
        await barrier.wait()
        return len(argument)
"""
UNREAD_ITEM = b'{"item": "' + b"x" * 1_000_000 + b'"}'
SETTINGS = """
[tenants.slow]
requests_per_second = 1
"""


class GrpcServer(Server):
    def __init__(self, folder: Path, *options: str) -> None:
        self.grpc_port = free_port()
        super().__init__(folder, "--grpc-port", str(self.grpc_port), *options)

    def channel(self, **options: int) -> Any:
        """Options are gRPC's own, with ``__`` for a full stop."""
        given = [(f"grpc.{name.replace('__', '.')}", value) for name, value in options.items()]
        return grpc.aio.insecure_channel(
            f"127.0.0.1:{self.grpc_port}", options=[("grpc.max_receive_message_length", -1), *given]
        )


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GrpcServer]:
    folder = tmp_path_factory.mktemp("grpc")
    (folder / "holdfast.toml").write_text(SETTINGS)
    async with GrpcServer(folder, "--body-timeout", str(BODY_TIMEOUT)) as running:
        yield running


@pytest.fixture
async def channel(server: GrpcServer) -> AsyncIterator[Any]:
    async with server.channel() as channel:
        yield channel


def invocation(verb: str, path: str, body: bytes = b"", query: str = "") -> Any:
    extension = common_v1.HTTPExtension(verb=common_v1.HTTPExtension.Verb.Value(verb), querystring=query)
    message = common_v1.InvokeRequest(method=path, data=any_pb2.Any(value=body), http_extension=extension)
    return api_v1.InvokeServiceRequest(id="holdfast", message=message)


async def code_of(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return failure.value.code().name, failure.value.details() or ""


async def test_a_large_push(channel: Any) -> None:
    item = b'{"item": "' + b"x" * 500_000 + b'"}'
    body = b'{"items": [' + b",".join([item] * 20) + b"]}"
    stub = api_service_v1.DaprStub(channel)
    answer = await stub.InvokeService(invocation("POST", "queue/large/push", body))
    assert b'"count":20' in answer.data.value
    answer = await stub.InvokeActor(
        api_v1.InvokeActorRequest(actor_type="PushPopActor", actor_id="large", method="Push", data=body)
    )
    assert b'"count":20' in answer.data


async def test_large_messages_of_calls_that_wait_do_not_hold_up_others(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(APP)
    body = json.dumps("x" * 100_000).encode()
    async with GrpcServer(tmp_path, "waiting:app") as server, server.channel() as channel:
        stub = api_service_v1.DaprStub(channel)
        requests = [
            api_v1.InvokeActorRequest(actor_type="WaitingActor", actor_id=str(number), method="Wait", data=body)
            for number in range(WAITING)
        ]
        answers = await asyncio.gather(*(stub.InvokeActor(request, timeout=60) for request in requests))
    assert [answer.data for answer in answers] == [b"100000"] * WAITING


async def test_large_messages_have_room_only_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(APP)
    body = json.dumps("x" * (BODY_BYTES // 5)).encode()
    async with GrpcServer(tmp_path, "waiting:app", "--body-timeout", "5") as server, server.channel() as channel:
        stub = api_service_v1.DaprStub(channel)
        requests = [
            api_v1.InvokeActorRequest(actor_type="WaitingActor", actor_id=str(number), method="Wait", data=body)
            for number in range(6)
        ]
        calls = [stub.InvokeActor(request) for request in requests[:5]]
        codes = [asyncio.create_task(call.code()) for call in calls]
        [refused], waiting = await asyncio.wait(codes, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub.GetMetadata(api_v1.GetMetadataRequest(), timeout=60)
        # A call whose caller has gone goes on, and has its message in memory.
        for call in calls:
            call.cancel()
        await asyncio.gather(*waiting)
        assert (await code_of(stub.InvokeActor(requests[5], timeout=60)))[0] == "RESOURCE_EXHAUSTED"
        await server.kill()


async def test_a_message_that_is_too_large(channel: Any) -> None:
    stub = api_service_v1.DaprStub(channel)
    call = stub.InvokeService(invocation("POST", "queue/large/push", b"x" * (17 * MEBIBYTE)))
    assert (await code_of(call))[0] == "RESOURCE_EXHAUSTED"
    call = stub.InvokeService(invocation("POST", "orchestrations/x/start", b"x" * (2 * MEBIBYTE)))
    code, _ = await code_of(call)
    assert code == "UNKNOWN"
    assert dict(await call.initial_metadata())["dapr-http-status"] == "413"


async def test_a_message_is_not_compressed(channel: Any) -> None:
    stub = api_service_v1.DaprStub(channel)
    call = stub.InvokeService(
        invocation("POST", "queue/large/push", b" " * (8 * MEBIBYTE)), compression=grpc.Compression.Gzip
    )
    assert (await code_of(call))[0] == "UNIMPLEMENTED"


async def test_a_message_has_to_arrive_in_time(channel: Any) -> None:
    call = channel.stream_unary(f"{SERVICE}GetMetadata")()
    code, details = await code_of(call)
    assert (code, f"within {BODY_TIMEOUT} seconds" in details) == ("DEADLINE_EXCEEDED", True)


async def test_messages_that_are_none(channel: Any) -> None:
    call = channel.unary_unary(f"{SERVICE}InvokeActor")(b"\xff\xff")
    assert await code_of(call) == ("INVALID_ARGUMENT", "The message is not a InvokeActorRequest.")
    call = channel.stream_unary(f"{SERVICE}InvokeActor")(iter(()))
    assert await code_of(call) == ("INVALID_ARGUMENT", "The call has no message.")


@pytest.mark.parametrize(
    "path", [f"{SERVICE}GetState", f"{SERVICE}None", "/grpc.health.v1.Health/Check", "/a.b/c", f"{SERVICE}by_name"]
)
async def test_what_is_not_served_says_so(channel: Any, path: str) -> None:
    code, details = await code_of(channel.unary_unary(path)(b""))
    assert code == "UNIMPLEMENTED"
    assert details.startswith(f"{path} is not served: ")


async def test_a_stream_that_is_not_served_says_so(channel: Any) -> None:
    call = channel.stream_stream(f"{SERVICE}SubscribeTopicEventsAlpha1")()
    assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_rate_of_a_tenant(channel: Any) -> None:
    stub = api_service_v1.DaprStub(channel)
    codes = set()
    for _ in range(5):
        call = stub.InvokeService(invocation("GET", "queues"), metadata=[("holdfast-tenant", "slow")])
        codes.add(await call.code())
    assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes


async def test_calls_are_counted(server: GrpcServer, channel: Any) -> None:
    stub = api_service_v1.DaprStub(channel)
    await stub.GetMetadata(api_v1.GetMetadataRequest())
    await code_of(stub.GetActorState(api_v1.GetActorStateRequest(actor_type="a", actor_id="a/b")))
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics") as answer:
        text = await answer.text()
    for name, status in (("GetMetadata", 200), ("GetActorState", 400)):
        assert f'holdfast_http_requests_total{{method="POST",route="{SERVICE}{name}",status="{status}"}}' in text


async def test_callers_that_leave_at_the_moment_of_a_push_lose_nothing(server: GrpcServer, channel: Any) -> None:
    """The server cannot know whether an answer still reached its caller; if it did not, the lock expires."""
    stub = api_service_v1.DaprStub(channel)

    async def ask(verb: str, path: str, body: Any = None, query: str = "") -> Any:
        answer = await stub.InvokeService(invocation(verb, path, json.dumps(body or {}).encode(), query))
        return json.loads(answer.data.value)

    await ask("PUT", "queue/left/config", {"max_locks": 50, "max_deliveries": 1000})
    got: list[Any] = []
    for number in range(20):
        query = "wait_seconds=20&require_ack=true&ttl_seconds=5"
        polls = [stub.InvokeService(invocation("POST", "queue/left/pop", b"", query)) for _ in range(3)]
        push = asyncio.create_task(ask("POST", "queue/left/push", {"item": number}))
        await asyncio.sleep(number * 0.001)
        for poll in polls:
            poll.cancel()
        for poll in polls:
            if await poll.code() is grpc.StatusCode.OK:
                body = json.loads((await poll).data.value)
                got += body["items"]
                await ask("POST", "queue/left/acknowledge", {"lock_id": body["lock_id"]})
        await push

    async def unlocked() -> bool:
        return int((await ask("GET", "queue/left"))["locked"]) == 0

    await eventually(unlocked, what="no lock is left")
    got += (await ask("POST", "queue/left/pop", None, "count=100"))["items"]
    assert sorted(got) == list(range(20))


async def test_an_orderly_stop(tmp_path: Path) -> None:
    """A long poll is answered at once, and a call that comes later is refused."""
    async with GrpcServer(tmp_path) as server, server.channel() as channel:
        stub = api_service_v1.DaprStub(channel)
        poll = stub.InvokeService(invocation("POST", "queue/q/pop", query="wait_seconds=20"))

        async def waiting() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics") as response:
                return "holdfast_long_polls_waiting 1.0" in await response.text()

        await eventually(waiting, what="the long poll waits")
        assert await asyncio.wait_for(server.stop(), 15) == 0
        assert b'"items":[]' in (await poll).data.value
        assert (await code_of(stub.GetMetadata(api_v1.GetMetadataRequest())))[0] == "UNAVAILABLE"


async def test_it_goes_on_after_a_kill(tmp_path: Path) -> None:
    async with GrpcServer(tmp_path) as server:
        async with server.channel() as channel:
            await api_service_v1.DaprStub(channel).InvokeService(invocation("POST", "queue/q/push", b'{"item": 1}'))
        await server.kill()
        await server.start()
        async with server.channel() as channel:
            answer = await api_service_v1.DaprStub(channel).InvokeService(invocation("POST", "queue/q/pop"))
            assert b'"items":[1]' in answer.data.value


async def test_grpc_to_the_http_port_is_told_where_grpc_is(server: GrpcServer) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as wrong:
        for _ in range(3):
            _, details = await code_of(api_service_v1.DaprStub(wrong).GetMetadata(api_v1.GetMetadataRequest()))
            sentence = f"gRPC is served at port {server.grpc_port}: set DAPR_GRPC_PORT to it."
            assert sentence in details
    assert server.logged().count("spoke HTTP/2") == 1


async def test_and_that_it_is_off(tmp_path: Path) -> None:
    async with Server(tmp_path) as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as wrong:
        _, details = await code_of(api_service_v1.DaprStub(wrong).GetMetadata(api_v1.GetMetadataRequest()))
        assert "gRPC is off: start the server with --grpc-port." in details


def refused(folder: Path, *options: str) -> str:
    """Starts a server with options that it refuses, and returns its error."""
    command = [Path(sys.executable).with_name("holdfast"), "serve", "--port", "0", "--data", str(folder / "data")]
    run = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    return run.stderr


def test_a_port_that_is_taken(server: GrpcServer, tmp_path: Path) -> None:
    said = refused(tmp_path, "--grpc-port", str(server.grpc_port))
    assert said.count("\n") == 1
    assert f"Cannot listen on 127.0.0.1 port {server.grpc_port} for gRPC" in said
    assert "--grpc-port" in said


def test_beside_daprd_it_is_daprds(tmp_path: Path) -> None:
    assert "beside daprd, daprd serves gRPC" in refused(tmp_path, "--host", "dapr", "--grpc-port", "0")


def test_beyond_loopback_it_needs_a_token_too(tmp_path: Path) -> None:
    assert "without a token" in refused(tmp_path, "--listen", "0.0.0.0", "--grpc-port", "0")


async def test_a_free_port_is_told(tmp_path: Path) -> None:
    async with Server(tmp_path, "--grpc-port", "0") as server:
        await server.says("gRPC:  127.0.0.1:")
        port = server.logged().partition("gRPC:  127.0.0.1:")[2].split()[0]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert (await api_service_v1.DaprStub(channel).GetMetadata(api_v1.GetMetadataRequest())).id == "holdfast"


@pytest.mark.parametrize("together", [False, True], ids=["two files", "one file"])
async def test_tls(tmp_path: Path, together: bool) -> None:
    authority = Authority(tmp_path)
    files = (authority.both,) if together else (authority.certificate, authority.key)
    options = [option for pair in zip(("--tls-cert", "--tls-key"), map(str, files), strict=False) for option in pair]
    server = GrpcServer(tmp_path, *options)
    await server._process.start()
    try:
        await server.says("gRPC:  ")
        trusted = grpc.ssl_channel_credentials(authority.authority.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{server.grpc_port}", trusted) as channel:
            assert (await api_service_v1.DaprStub(channel).GetMetadata(api_v1.GetMetadataRequest())).id == "holdfast"
        for channel in (
            grpc.aio.insecure_channel(f"127.0.0.1:{server.grpc_port}"),
            grpc.aio.secure_channel(f"127.0.0.1:{server.grpc_port}", grpc.ssl_channel_credentials()),
        ):
            async with channel:
                call = api_service_v1.DaprStub(channel).GetMetadata(api_v1.GetMetadataRequest(), timeout=10)
                assert (await code_of(call))[0] in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    finally:
        await server._process.terminate()


def test_without_the_port_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys, holdfast.server, holdfast.cli.serve, holdfast.runtime.embedded;"
        "print([name for name in sys.modules if name.startswith('holdfast.gateway.dapr_api.grpc')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "[]\n"


async def test_a_verb_that_there_is_not(server: GrpcServer, channel: Any) -> None:
    call = invocation("GET", "queues")
    call.message.http_extension.verb = 77
    code, details = await code_of(api_service_v1.DaprStub(channel).InvokeService(call))
    assert (code, "invalid HTTP verb" in details) == ("INTERNAL", True)
    assert "Traceback" not in server.logged()


async def test_answers_that_are_never_read_do_not_fill_the_memory(server: GrpcServer) -> None:
    async with server.channel() as channel:
        # The answer has three such items.
        push = invocation("POST", "queue/unread/push", b'{"items": [%b]}' % b",".join([UNREAD_ITEM] * 3))
        await api_service_v1.DaprStub(channel).InvokeService(push)
    peek = invocation("GET", "queue/unread/peek", query="count=100").SerializeToString()

    def begin(channel: Any, **metadata: str) -> Any:
        # A call with a stream of answers reads one only when it is asked to.
        return channel.unary_stream(f"{SERVICE}InvokeService")(peek, metadata=tuple(metadata.items()))

    # Otherwise gRPC receives more ahead, the faster the connection is.
    async with server.channel(http2__bdp_probe=0) as channel:
        unread = [begin(channel) for _ in range(UNREAD)]

        async def one_is_dropped() -> bool:
            ended = [await call.details() for call in unread if call.done()]
            return any("was carried out, but its answer was dropped" in details for details in ended)

        await eventually(one_is_dropped, what="the tenant has too much that is unread", within=60)
        # Nor may it ask for more, but other tenants may.
        one = begin(channel)
        # Refused beforehand, or dropped where some room was left, but too little for this answer.
        assert await one.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNKNOWN)
        other = begin(channel, **{"holdfast-tenant": "other"})
        assert b'"count":0' in await other.read()
        for call in unread:
            call.cancel()

        async def is_served_again() -> bool:
            again = begin(channel)
            return await again.read() is not grpc.aio.EOF and await again.code() is grpc.StatusCode.OK

        await eventually(is_served_again, what="what was unread is no longer counted", within=60)
    assert "Traceback" not in server.logged()
