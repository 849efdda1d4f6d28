"""Makes the README's pictures of the page, from the root of the tree: `.venv/bin/python -m tests.ui.picture`.

Starts a server, lets a small shop work on it for as long as `--seconds` says, and takes both pictures in the machine's
own Chromium, with the machine's own fonts. `pngquant` makes them smaller where it is installed.
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


async def orchestrate(server: Server) -> None:
    """Instances of the examples: completed, refunded, failed, and waiting."""
    for number, lines, total in (
        (1041, ["oar", "rope"], 80),
        (1042, ["lantern", "kedge"], 60),
        (1043, ["anchor"], 950),
    ):
        await server.order(f"order-{number}", *lines, total=total, customer="acme")
    await server.start_one("failing", "invoice-207", {"customer": "globex"})
    for schedule, cron in (("nightly-report", "0 6 * * *"), ("clean-up", "*/30 * * * *")):
        await server.call("PUT", f"/schedules/{schedule}", {"orchestration": "report", "cron": cron})
    await server.start_one("holding", "index-12", 3600)


async def take(folder: Path, *, seconds: float, scheme: str, phone: bool, whole: bool) -> None:
    with tempfile.TemporaryDirectory() as data:
        async with Server(Path(data)) as server, chromium() as browser:
            shop = Shop(server)
            await shop.open()
            await orchestrate(server)
            page = await _opened(browser, scheme, phone)
            await shop.work(seconds)
            # Last, so that its steps are most of its time.
            await server.start_one("travel", "trip-58", {"customer": "initech"})
            for name, view, shown in (
                ("instance", "orchestration/trip-58", ".waiting li >> text=confirmed"),
                ("page", "", ".chart"),
            ):
                await page.goto(f"{server.url}/#/{view}")
                await page.locator(shown).first.wait_for()
                await page.mouse.move(0, 0)
                await page.screenshot(path=folder / f"{name}.png", full_page=whole)


async def _opened(browser: Browser, scheme: str, phone: bool) -> Page:
    context = await browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport=_PHONE if phone else {"width": 1200, "height": 860},  # type: ignore[arg-type]
        device_scale_factor=2 if phone else 1,
        is_mobile=phone,
    )
    return await context.new_page()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "docs", help="the folder for page.png and instance.png")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--whole", action="store_true", help="all of the page, not one window of it")
    options = parser.parse_args()
    asyncio.run(
        take(options.to, seconds=options.seconds, scheme=options.scheme, phone=options.phone, whole=options.whole)
    )
    if squeeze := shutil.which("pngquant"):
        for name in ("page.png", "instance.png"):
            file = options.to / name
            subprocess.run([squeeze, "--force", "--skip-if-larger", "--strip", "--output", file, file], check=True)


if __name__ == "__main__":
    main()
