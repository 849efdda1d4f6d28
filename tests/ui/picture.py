"""Makes the README's pictures of the page, from the root of the tree: `.venv/bin/python -m tests.ui.picture`, and
`… tests.ui.picture --instance order-1042 --to docs/instance.png`.

Starts a server, lets a small shop work on it for as long as `--seconds` says, and takes the picture in the machine's
own Chromium, with the machine's own fonts. `pngquant` makes it smaller where it is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.browser import chromium
from tests.support.checkout import ROOT
from tests.ui.server import Server

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

_PHONE = {"width": 390, "height": 844}


class Shop:
    """Pushes and pops as a shop would, from a seed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._held: deque[dict[str, Any]] = deque()
        self._random = random.Random(2)

    async def open(self) -> None:
        await self._server.call("PUT", "/queue/orders/config", {"max_locks": 8})
        await self._server.call("PUT", "/queue/webhooks.outgoing/config", {"max_locks": 4, "max_deliveries": 5})
        for queue, many in (("orders", 34), ("emails", 310), ("invoices", 4), ("webhooks.outgoing", 22)):
            await self._push(queue, many)
        await self._push("thumbnails", 1)
        await self._pop("thumbnails", 1)
        await self._push("search-index", 980)
        for reason in ("410 Gone from hooks.example.com", "the certificate has expired"):
            await self._refuse("webhooks.outgoing", reason)
        await self._refuse("orders", "no such customer: A-0")
        held = await self._lock("orders", 1)
        await self._end("orders", held, "abandon", error="payment gateway timed out")
        await self._server.call("POST", "/v1.0/actors/CounterActor/demo/method/Add", 1)

    async def work(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        step = 0
        while loop.time() < end:
            step += 1
            rush = 3 if step % 40 < 18 else 0
            await self._push("orders", self._random.choice((0, 1, 2, 3)) + rush)
            await self._push("emails", self._random.choice((0, 0, 24)))
            await self._push("webhooks.outgoing", self._random.choice((0, 0, 1)))
            if self._random.random() < 0.8:
                self._held.append(await self._lock("orders", self._random.choice((1, 3, 5))))
            while len(self._held) > self._random.choice((2, 3, 4)):
                await self._end("orders", self._held.popleft(), "acknowledge")
            await self._take("emails", self._random.choice((4, 9)))
            await self._take("search-index", 11)
            await asyncio.sleep(0.9)
        while self._held:
            await self._end("orders", self._held.popleft(), "acknowledge")
        for many, ttl in ((3, 45), (1, 120), (2, 60)):
            await self._lock("orders", many, ttl)
        await self._push("orders", 17)

    async def _take(self, queue: str, many: int) -> None:
        await self._end(queue, await self._lock(queue, many), "acknowledge")

    async def _refuse(self, queue: str, reason: str) -> None:
        await self._end(queue, await self._lock(queue, 1), "dead-letter", reason=reason)

    async def _push(self, queue: str, many: int) -> None:
        if many:
            items = [{"item": self._order(), "priority": self._random.choice((0, 1, 1, 2, 2, 5))} for _ in range(many)]
            await self._server.call("POST", f"/queue/{queue}/push", {"items": items})

    async def _pop(self, queue: str, many: int) -> None:
        await self._server.call("POST", f"/queue/{queue}/pop?count={many}")

    async def _lock(self, queue: str, many: int, ttl: int = 60) -> dict[str, Any]:
        return await self._server.call("POST", f"/queue/{queue}/pop?require_ack=true&count={many}&ttl_seconds={ttl}")

    async def _end(self, queue: str, held: dict[str, Any], how: str, **more: str) -> None:
        if "lock_id" in held:
            await self._server.call("POST", f"/queue/{queue}/{how}", {"lock_id": held["lock_id"], **more})

    def _order(self) -> dict[str, Any]:
        return {
            "order": f"A-{self._random.randint(10000, 99999)}",
            "customer": self._random.choice(("acme", "globex", "initech", "umbrella")),
            "total": round(self._random.uniform(5, 400), 2),
            "lines": self._random.randint(1, 9),
        }


async def order(server: Server) -> None:
    """Instances of the example: through, taken back, and waiting for somebody."""
    for number, lines, total in (
        (1041, ["oar", "rope"], 80),
        (1042, ["lantern", "kedge"], 60),
        (1043, ["anchor"], 950),
    ):
        order = {"customer": "acme", "lines": lines, "total": total}
        await server.call("POST", "/orchestrations/order/start", {"instance_id": f"order-{number}", "input": order})
    for number in (1041, 1042):
        await server.call("GET", f"/orchestrations/order-{number}/wait?timeout_seconds=30")


async def take_instance(to: Path, *, instance: str, scheme: str, phone: bool, whole: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Server(Path(folder), app="examples.orders:app") as server, chromium() as browser:
            await order(server)
            page = await _opened(browser, scheme, phone)
            await page.goto(f"{server.url}/#/orchestration/{instance}")
            await page.locator("#timeline li").first.wait_for()
            # The list follows a little later.
            await page.get_by_role("link", name="order-1042: order, completed").wait_for()
            await page.mouse.move(0, 0)
            await page.screenshot(path=to, full_page=whole)


async def take(to: Path, *, seconds: float, scheme: str, phone: bool, queue: str | None, whole: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Server(Path(folder)) as server, chromium() as browser:
            shop = Shop(server)
            await shop.open()
            page = await _opened(browser, scheme, phone)
            await page.goto(server.url)
            await shop.work(seconds)
            if queue:
                await page.goto(f"{server.url}/#/queue/{queue}")
            await _settle(page, queue)
            await page.screenshot(path=to, full_page=whole)


async def _opened(browser: Browser, scheme: str, phone: bool) -> Page:
    context = await browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport=_PHONE if phone else {"width": 1200, "height": 860},  # type: ignore[arg-type]
        device_scale_factor=2 if phone else 1,
        is_mobile=phone,
    )
    return await context.new_page()


async def _settle(page: Page, queue: str | None) -> None:
    """Until the page shows what is there now."""
    async with page.expect_response(lambda answer: "/queues" in answer.url):
        pass
    await page.locator("#peek li" if queue else "#queue-list li").first.wait_for()
    await page.mouse.move(0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "page.png")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--queue", default="orders", help="the queue that is open; '' for the list alone")
    parser.add_argument("--instance", help="an instance instead: order-1041, order-1042 or order-1043")
    parser.add_argument("--whole", action="store_true", help="all of the page, not one window of it")
    options = parser.parse_args()
    same = {"scheme": options.scheme, "phone": options.phone, "whole": options.whole}
    asyncio.run(
        take_instance(options.to, instance=options.instance, **same)
        if options.instance
        else take(options.to, seconds=options.seconds, queue=options.queue or None, **same)
    )
    if squeeze := shutil.which("pngquant"):
        subprocess.run(
            [squeeze, "--force", "--skip-if-larger", "--strip", "--output", options.to, options.to], check=True
        )


if __name__ == "__main__":
    main()
