"""An example shop: a server with two example apps, incoming orders, and a consumer that handles them.

python -m examples.shop [OPTION OF holdfast serve]...
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import Client
from holdfast.errors import HoldfastError
from holdfast.local import ChildProcess

if TYPE_CHECKING:
    from holdfast.client import Message

# The example includes a failing handler. Keep its warnings out of the terminal.
logging.getLogger("holdfast.client").setLevel(logging.ERROR)

ORDERS, MAILS = "shop-orders", "shop-mails"
GOODS = ["anchor", "bollard", "cleat", "fender", "halyard", "kedge", "lantern", "oar", "rope", "sextant"]
#: The consumer fails for this item, so that the page shows a dead letter.
SOLD_OUT = "kedge"
#: Instances to start: one completes at once, one is refunded, one waits for an approval.
LARGE_ORDERS = {
    "order-1": {"customer": "ann", "lines": ["oar", "rope"], "total": 80},
    "order-2": {"customer": "bob", "lines": ["lantern", SOLD_OUT], "total": 60},
    "order-3": {"customer": "eve", "lines": ["anchor", "sextant"], "total": 950},
}
SECONDS_PER_ORDER = 2.0
SECONDS_TO_STOP = 60.0
#: The default of Dapr's SDKs.
DAPR_GRPC_PORT = 50001


async def main() -> int:
    """Runs until a signal, then stops the consumer before the server. A second signal kills the server."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def show(line: str) -> None:
        print(line, flush=True)
        # The server prints 'Holdfast on http://127.0.0.1:8080 (embedded)' when it is ready.
        if line.startswith("Holdfast on ") and not address.done():
            address.set_result(line.split()[2])

    command = [sys.executable, "-m", "holdfast", "serve", "examples.counter:app", "examples.orders:app"]
    server = ChildProcess("server", [*command, *grpc_option(), *sys.argv[1:]], log=Path(os.devnull), on_line=show)
    asked_to_stop = asyncio.Event()

    def stop() -> None:
        if asked_to_stop.is_set():
            server.send_signal(signal.SIGKILL)
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await server.start()
    shop = asyncio.create_task(open_shop(address))
    ends = [asyncio.create_task(server.wait()), asyncio.create_task(asked_to_stop.wait())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    shop.cancel()
    await asyncio.wait([shop])
    await server.terminate(grace=SECONDS_TO_STOP)
    for end in ends:
        end.cancel()
    return server.returncode or 0


def grpc_option() -> list[str]:
    """Turns gRPC on, at the port where Dapr's SDKs look for it, or at another if that is taken."""
    if "HOLDFAST_GRPC_PORT" in os.environ or "dapr" in (os.environ.get("HOLDFAST_HOST"), *sys.argv):
        return []
    try:
        socket.create_server(("127.0.0.1", DAPR_GRPC_PORT)).close()
    except OSError:
        return ["--grpc-port", "0"]
    return ["--grpc-port", str(DAPR_GRPC_PORT)]


async def open_shop(address: asyncio.Future[str]) -> None:
    url = await address
    try:
        async with Client(url, token=os.environ.get("HOLDFAST_TOKEN")) as client:
            orders, mails = client.queue(ORDERS), client.queue(MAILS)
            if not (await orders.stats()).counters["pushed"]:
                await orders.push_many([{"order": number, "goods": name} for number, name in enumerate(GOODS, 1)])
                await orders.push({"order": 0, "goods": "compass"}, priority=1)
                await mails.push({"to": "you", "subject": "The shop is open"})
            for instance_id, order in LARGE_ORDERS.items():
                # An instance from an earlier run is not started again.
                await client.start("order", order, instance_id=instance_id)
            print(WELCOME.format(url=url), flush=True)

            async def handle(message: Message) -> None:
                await asyncio.sleep(SECONDS_PER_ORDER)
                if message.item["goods"] == SOLD_OUT:
                    raise ValueError(f"{SOLD_OUT}s are sold out")
                await mails.push({"to": "customer", "subject": f"Your {message.item['goods']} is on its way"})

            await orders.consume(handle, grace_seconds=2 * SECONDS_PER_ORDER)
    except HoldfastError as error:
        print(f"The example shop could not start: {error}", file=sys.stderr, flush=True)


WELCOME = """
Open {url} in a browser. A consumer handles shop-orders and pushes to shop-mails. Try:

  curl -X POST {url}/queue/shop-orders/push -d '{{"item": {{"order": 11, "goods": "tar"}}}}'
  curl -X POST '{url}/queue/shop-mails/pop?count=10'
  curl {url}/orchestrations
  curl -X POST {url}/orchestrations/order-3/events/approved -d '{{"by": "you"}}'
  curl {url}/orchestrations/order-3/history
  curl -X POST {url}/v1.0/actors/CounterActor/demo/method/Add -d 1
  curl {url}/v1.0/invoke/holdfast/method/queue/shop-orders

Press Ctrl-C to stop. The data is kept.
"""

if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
