"""The example shop that ``make run`` starts: a server with queues and instances to look at."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import grpc.aio
from dapr.proto import api_service_v1, api_v1

from holdfast.local import ChildProcess
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.support.checkout import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

ENDED = {"order-1": "shipped", "order-2": "refunded"}


async def look(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.json()


def of_make_run() -> list[str]:
    """Returns the command of the target in the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    command = makefile.partition("\nrun:")[2].splitlines()[1].removeprefix("\t@exec $(BIN)/python")
    return [sys.executable, *command.split()]


async def test_the_shop_fills_its_queues_once_and_ends_in_order(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    grpc_port = free_port()
    options = ["--port", str(port), "--grpc-port", str(grpc_port), "--data", str(tmp_path / "data")]
    shop = ChildProcess("shop", [*of_make_run(), *options], log=tmp_path / "shop.log", folder=ROOT)
    for number in (signal.SIGINT, signal.SIGTERM):
        await shop.start()
        try:
            await shop.wait_ready(answers_ok(f"{url}/readyz"))
            await eventually(lambda: welcomed(shop, url), what="it says what to try")
            await eventually(lambda: listed(url), what="both queues are listed")
            orders = await look(f"{url}/queue/shop-orders")
            assert orders["counters"]["pushed"] == 11
            assert orders["count"] + orders["locked"] > 0
            ends = {name: (await look(f"{url}/orchestrations/{name}/wait?timeout_seconds=30")) for name in ENDED}
            assert {name: end["output"]["status"] for name, end in ends.items()} == ENDED
            waiting = await look(f"{url}/orchestrations/order-3")
            assert (waiting["status"], waiting["custom_status"]) == ("RUNNING", "waits for approval")
            async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
                asked = api_v1.InvokeActorRequest(actor_type="CounterActor", actor_id="demo", method="Add", data=b"1")
                assert int((await api_service_v1.DaprStub(channel).InvokeActor(asked)).data) > 0
            shop.send_signal(number)
            assert await asyncio.wait_for(shop.wait(), 30) == 0
        finally:
            await shop.kill()
    assert "Traceback" not in (tmp_path / "shop.log").read_text()


async def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    taken = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with taken:
        port = taken.sockets[0].getsockname()[1]
        options = ["--port", str(port), "--data", str(tmp_path / "data")]
        shop = ChildProcess("shop", [*of_make_run(), *options], log=tmp_path / "shop.log", folder=ROOT)
        await shop.start()
        assert await asyncio.wait_for(shop.wait(), 60) == 1
    [line] = (tmp_path / "shop.log").read_text().splitlines()
    assert line.startswith(f"holdfast: Cannot listen on 127.0.0.1 port {port}")


async def welcomed(shop: ChildProcess, url: str) -> bool:
    return f"Open {url} in a browser" in shop.logged()


async def listed(url: str) -> bool:
    names = {queue["queue"] for queue in (await look(f"{url}/queues"))["queues"]}
    return {"shop-orders", "shop-mails"} <= names
