"""Makes the documents' picture of a report: `.venv/bin/python -m tests.spark.pipeline.picture`, from the tree's root.

The shop in it is invented, from a seed, so that it has a past. The picture is taken in the machine's own Chromium;
`pngquant` makes it smaller where it is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.spark.pipeline.pipeline import take
from holdfast.spark.pipeline.series import folder_of
from holdfast.spark.session import spark_session
from tests.spark.pipeline.sample_tables import AS_OF, SampleTables, ago, opened, started
from tests.support.browser import chromium
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from holdfast.spark.pipeline.manifest import Manifest

URL = "postgresql://holdfast@db.example.com/shop"
_STEP = timedelta(minutes=30)
_BEFORE = 14

#: Items, how old they usually are, how many of a hundred came back.
_QUEUES = {
    "emails": (2140, 40.0, 4),
    "search-index": (1312, 300.0, 1),
    "webhooks.outgoing": (486, 900.0, 35),
    "activities": (212, 3.0, 3),
    "invoices": (148, 5000.0, 0),
    "thumbnails": (61, 12.0, 8),
    "refunds": (9, 7200.0, 20),
}
_LETTERS = (
    ("max_deliveries", "webhooks.outgoing", "410 Gone from hooks.example.com", 31),
    ("max_deliveries", "emails", "mailbox full", 12),
    ("no such customer", "orders", None, 7),
    ("expired", "thumbnails", None, 3),
)
#: How many, how long activities usually take, how many of a thousand fail.
_ACTIVITIES = {"charge": (0.35, 30), "ship": (1.4, 12), "refund": (0.5, 5), "send_mail": (0.08, 4)}


class Busy:
    def __init__(self) -> None:
        self._random = random.Random(11)

    def shop(self) -> SampleTables:
        shop = SampleTables()
        for name, (count, age, returned) in _QUEUES.items():
            shop.queue(name, [self._item(age, returned, number) for number in range(count)])
            self._share_out(shop, name)
        for reason, queue, error, count in _LETTERS:
            for number in range(count):
                self._letter(shop, reason, queue, error, number)
        for number in range(420):
            self._order(shop, number)
        for number in range(60):
            self._import(shop, number)
        for status, count in (("SUCCESS", 1830), ("IN_PROGRESS", 14), ("FAILURE", 6)):
            for number in range(count):
                shop.add("idempotency", key=f"{status}-{number}", status=status, attempts=1)
        return shop

    def _item(self, age: float, returned: int, number: int) -> dict[str, Any]:
        state = self._random.choices(("waiting", "delayed", "locked"), (88, 7, 5))[0]
        back = self._random.randint(1, 6) if self._random.randrange(100) < returned else 0
        waited = min(self._random.lognormvariate(0, 1.6) * age, 9e5)
        return {
            "id": f"0-0-{number // 100}-{number % 100}",
            "state": state,
            "priority": self._random.choices((0, 1, 2, 5), (3, 5, 2, 1))[0],
            "enqueued_at": ago(waited),
            "due_at": ago(-waited) if state == "delayed" else None,
            "delivery_count": back + (state == "locked"),
        }

    def _share_out(self, shop: SampleTables, queue: str) -> None:
        """Several locks instead of one."""
        held = [row for row in shop.rows["locks"] if row["queue"] == queue]
        for lock in held:
            shop.rows["locks"].remove(lock)
            left = lock["count"]
            while left:
                count = min(left, self._random.randint(1, 10))
                prefix = "".join(self._random.choices("abcdefghkmnpqrstXYZ23456789", k=6))
                expires = ago(-self._random.choice((3, 9, 14, 22, 28, 40, 55, 100, 170, 280)) * self._random.random())
                shop.rows["locks"].append(lock | {"count": count, "lock_id_prefix": prefix, "expires_at": expires})
                left -= count

    def _letter(self, shop: SampleTables, reason: str, queue: str, error: str | None, number: int) -> None:
        shop.add(
            "dead_letters",
            queue=f"{queue}-deadletter",
            id=f"0-0-{number}-0",
            item=f'{{"order": "A-{self._random.randint(10000, 99999)}", "customer": "globex"}}',
            reason=reason,
            attempts=10 if reason == "max_deliveries" else 1,
            last_error=error,
            original_queue=queue,
            original_partition=0,
            original_id=f"0-0-{900 + number}-{len(reason)}",
            dead_lettered_at=ago(self._random.lognormvariate(0, 1.5) * 2400),
        )

    def _order(self, shop: SampleTables, number: int) -> None:
        begun = ago(self._random.uniform(5, 86400))
        told: list[dict[str, Any]] = []
        moment = begun

        def tell(passed: float, **event: Any) -> None:
            nonlocal moment
            moment += timedelta(seconds=passed)
            told.append({"timestamp": moment, **event})

        tell(0, **started("order"))
        if number % 3 == 0:
            tell(0.01, type="EventSubscribed", name="approved")
            if number % 5 == 0:
                shop.instance(
                    f"order-{4000 + number}", "order", told, created_at=begun, custom_status='"waits for approval"'
                )
                return
            tell(self._random.lognormvariate(6, 1.2), type="EventRaised", name="approved", scheduled_seq=len(told))
        for name in ("charge", "ship", "send_mail"):
            usual, failing = _ACTIVITIES[name]
            attempt = 0
            while True:
                attempt += 1
                tell(0.01, type="ActivityScheduled", name=name, data=f'{{"attempt": {attempt}}}')
                fails = self._random.randrange(1000) < failing * 3
                kind = "ActivityFailed" if fails else "ActivityCompleted"
                tell(usual * self._random.lognormvariate(0, 0.8), type=kind, scheduled_seq=len(told))
                if not fails:
                    break
        tell(0.01, type="OrchestrationCompleted")
        shop.instance(f"order-{4000 + number}", "order", told, "COMPLETED", created_at=begun, ended_at=moment)

    def _import(self, shop: SampleTables, number: int) -> None:
        begun = ago(self._random.uniform(100, 86400))
        fails = number % 12 == 0
        error = '{"type": "ConnectionError", "message": "catalogue.example.com does not answer"}'
        told: list[dict[str, Any]] = [{"timestamp": begun, **started("import_catalogue")}]
        moment = begun
        for attempt in (1, 2, 3) if fails else (1,):
            name = "download"
            told.append(
                {"timestamp": moment, "type": "ActivityScheduled", "name": name, "data": f'{{"attempt": {attempt}}}'}
            )
            asked = len(told)
            moment += timedelta(seconds=self._random.lognormvariate(1.5, 0.7))
            kind = "ActivityFailed" if fails else "ActivityCompleted"
            told.append({"timestamp": moment, "type": kind, "scheduled_seq": asked, "data": f'{{"error": {error}}}'})
            if fails and attempt < 3:
                told.append({"timestamp": moment, "type": "TimerCreated"})
                moment += timedelta(seconds=2**attempt)
                told.append({"timestamp": moment, "type": "TimerFired", "scheduled_seq": len(told)})
        ending, status = ("OrchestrationFailed", "FAILED") if fails else ("OrchestrationCompleted", "COMPLETED")
        told.append({"timestamp": moment, "type": ending})
        named = {"created_at": begun, "ended_at": moment, "error": error if fails else None}
        shop.instance(f"import-{700 + number}", "import_catalogue", told, status, **named)


def keep(folder: Path) -> Path:
    """The report of the last of a series."""
    shop = Busy().shop()
    with spark_session() as spark:
        first = take(spark, opened(spark, shop), URL, folder, with_report=False)
        _invent_a_past(folder, first.kept.manifest)
        last = take(spark, opened(spark, shop, AS_OF + timedelta(milliseconds=1)), URL, folder)
    assert last.report is not None
    return last.report


def _invent_a_past(folder: Path, known: Manifest) -> None:
    chance = random.Random(3)
    for number in range(_BEFORE):
        as_of = known.as_of - (number + 1) * _STEP
        totals = {
            name: max(0, round(value * (0.95 - 0.03 * number) * chance.uniform(0.85, 1.15)))
            for name, value in known.totals.items()
        }
        place = folder_of(folder, as_of)
        place.mkdir(parents=True)
        replace(known, as_of=as_of, totals=totals).write(place)
    shutil.rmtree(folder_of(folder, known.as_of))


async def picture(report: str, to: Path, *, scheme: str, phone: bool, whole: bool) -> None:
    async with chromium() as browser:
        context = await browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": 390, "height": 844} if phone else {"width": 1200, "height": 1240},
            is_mobile=phone,
        )
        page = await context.new_page()
        await page.goto(report)
        await page.screenshot(path=to, full_page=whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "report.png")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--whole", action="store_true", help="all of the page, not one window of it")
    parser.add_argument("--report", type=Path, help="of a report that is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = options.report or keep(Path(folder))
        look = {"scheme": options.scheme, "phone": options.phone, "whole": options.whole}
        asyncio.run(picture(report.resolve().as_uri(), options.to, **look))
    if squeeze := shutil.which("pngquant"):
        subprocess.run(
            [squeeze, "--force", "--skip-if-larger", "--strip", "--output", options.to, options.to], check=True
        )


if __name__ == "__main__":
    main()
