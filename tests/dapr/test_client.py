"""The client's calls to a real sidecar."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from holdfast import errors
from holdfast.local.ports import free_port
from holdfast.runtime.contract import StateChange
from holdfast.runtime.dapr import DaprHostClient
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.dapr.cluster import Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-client")

MEBIBYTE = 1024 * 1024

HOSTILE_IDS = [
    "",
    ".",
    "..",
    "a/b",
    "a\\b",
    "a||b",
    "a b",
    "a+b",
    "a%41",
    "a%2Fb",
    "a?b",
    "a#b",
    "a\nb",
    "a\0b",
    "ü",
    "a" * 1001,
]


def connections_to(port: int) -> set[Any]:
    """Returns the connections of all processes to the port, including connections that were just closed."""
    return {found.laddr for found in psutil.net_connections("tcp") if found.raddr and found.raddr.port == port}


async def test_connections_are_used_again(replica: Replica) -> None:
    port = replica.sidecar.http_port
    await replica.call("Shelf", "pooled", "echo", 1)
    before = connections_to(port)
    for number in range(100):
        assert await replica.call("Shelf", "pooled", "echo", number) == number
    assert len(connections_to(port) - before) <= 2


async def test_many_calls_at_once_that_wait_for_actors_here_do_not_block_each_other(replica: Replica) -> None:
    """Each call holds a connection while its actor needs another one for its state."""
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(replica.call("Tally", f"crowd-{n}", "get") for n in range(300)))
    assert answers == [0] * 300


async def test_several_keys_are_read_together_and_missing_ones_left_out(replica: Replica) -> None:
    await replica.call("Shelf", "keys", "put", {f"key-{n}": {"number": n} for n in range(40)})
    keys = [*(f"key-{n}" for n in range(40)), "missing"]
    found = await replica.client.load_state("Shelf", "keys", keys)
    assert found == {f"key-{n}": b'{"number":%d}' % n for n in range(40)}
    assert await replica.client.load_state("Shelf", "keys", ["missing"]) == {}
    assert await replica.client.load_state("Shelf", "keys", []) == {}


async def test_one_transaction_writes_and_deletes(replica: Replica) -> None:
    await replica.call("Shelf", "mixed", "put", {"old": 1, "kept": 2})
    changes = [StateChange("old", None), StateChange("new", b'{"a":[1,"x"]}'), StateChange("kept", b"3")]
    await replica.client.save_state("Shelf", "mixed", changes)
    found = await replica.client.load_state("Shelf", "mixed", ["old", "new", "kept"])
    assert found == {"new": b'{"a":[1,"x"]}', "kept": b"3"}


@pytest.mark.parametrize("size", [MEBIBYTE, 5 * MEBIBYTE])
async def test_large_values_go_both_ways(replica: Replica, size: int) -> None:
    value = "x" * size
    assert await replica.call("Shelf", "large", "echo", value) == value
    await replica.call("Shelf", "large", "put", {"large": value})
    [(key, stored)] = (await replica.client.load_state("Shelf", "large", ["large"])).items()
    assert key == "large"
    assert len(stored) == size + 2


async def test_what_the_sidecar_does_not_take_is_too_large(replica: Replica) -> None:
    with pytest.raises(errors.TooLarge):
        await replica.call("Shelf", "large", "echo", "x" * (33 * MEBIBYTE))


async def test_an_id_may_have_every_allowed_character(replica: Replica) -> None:
    actor_id = ".AZaz09-_.:@;,~'$=*()" + "x" * 200
    assert await replica.call("Tally", actor_id, "add", 2) == 2
    assert await replica.client.load_state("Tally", actor_id, ["count"]) == {"count": b"2"}


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
async def test_hostile_ids_are_refused_before_they_leave(replica: Replica, hostile: str) -> None:
    client = replica.client
    for attempt in (
        client.invoke_method("Tally", hostile, "get"),
        client.load_state("Tally", hostile, ["count"]),
        client.save_state("Tally", hostile, [StateChange("count", b"1")]),
        client.register_reminder("Tally", hostile, "wake", b'{"dueTime": "1s"}'),
        client.unregister_timer("Tally", hostile, "tick"),
    ):
        with pytest.raises(errors.InvalidRequest):
            await attempt


@pytest.mark.parametrize("hostile", ["", ".", "..", "a/b", "a\\b", "a||b", "a%41", "a?b", "a#b", "a\nb", "ü"])
async def test_hostile_names_are_refused_before_they_leave(replica: Replica, hostile: str) -> None:
    client = replica.client
    for attempt in (
        client.invoke_method(hostile, "a", "get"),
        client.invoke_method("Tally", "a", hostile),
        client.get_state("Tally", "a", hostile),
        client.register_reminder("Tally", "a", hostile, b'{"dueTime": "1s"}'),
        client.register_timer("Tally", "a", hostile, b'{"callback": "tick"}'),
    ):
        with pytest.raises(errors.InvalidRequest):
            await attempt


@pytest.mark.parametrize("encoded", ["x%2541", "a%20b", "a+b", "%C3%BC", "a%257C%257Cb"])
async def test_an_id_that_daprd_would_pass_on_as_another_is_refused_by_the_app(replica: Replica, encoded: str) -> None:
    await replica.call("Tally", "xA", "add", 1)
    answer = await replica.client.http.ask("POST", f"/actors/Tally/{encoded}/method/get", b"null")
    assert answer.status == 500
    assert b"INVALID_REQUEST" in answer.body


async def test_a_sidecar_that_is_not_there_is_unavailable_soon() -> None:
    client = DaprHostClient(f"http://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", connect_retry_seconds=0.3)
    async with asyncio.timeout(10):
        with pytest.raises(errors.Unavailable):
            await client.invoke_method("Tally", "a", "get")
        with pytest.raises(errors.Unavailable):
            await client.get_state("Tally", "a", "count")
        with pytest.raises(errors.Unavailable):
            await client.register_reminder("Tally", "a", "wake", b'{"dueTime": "1s"}')
    await client.close()


async def test_a_sidecar_that_does_not_answer_is_unavailable_in_time() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = DaprHostClient(f"http://127.0.0.1:{port}", f"127.0.0.1:{port}", timeout=0.3, connect_retry_seconds=0.3)
        async with asyncio.timeout(10):
            with pytest.raises(errors.Unavailable):
                await client.invoke_method("Tally", "a", "get")
            with pytest.raises(errors.Unavailable):
                await client.register_reminder("Tally", "a", "wake", b'{"dueTime": "1s"}')
        await client.close()


@pytest.mark.parametrize(("ask", "requests"), [("read", 2), ("write", 1), ("call", 1)])
async def test_only_reads_are_sent_again_when_the_connection_breaks(ask: str, requests: int) -> None:
    """A write or a call that was sent but not answered may have been carried out."""
    seen: list[bytes] = []

    async def break_off_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        if len(seen) > 1:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(break_off_once, "127.0.0.1", 0) as server:
        client = DaprHostClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        if ask == "read":
            assert await client.get_state("Tally", "a", "count") == b""
        elif ask == "write":
            with pytest.raises(errors.Unavailable):
                await client.save_state("Tally", "a", [StateChange("count", b"1")])
        else:
            with pytest.raises(errors.Unavailable):
                await client.invoke_method("Tally", "a", "get")
        await eventually(lambda: len(seen) == requests)
        await client.close()
