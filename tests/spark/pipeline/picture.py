"""Makes the documents' picture of a report: `.venv/bin/python tests/spark/pipeline/picture.py`, from the root of the tree.

Starts a server, lets a shop work on it, keeps a few snapshots, and takes the picture of the last one's report in the
machine's own Chromium. `pngquant` makes it smaller where it is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from holdfast.spark.pipeline import take
from holdfast.spark.session import spark_session
from holdfast.spark.snapshots import snapshot
from page.browser import chromium
from spark.pipeline.shop import ROOT, serve, store_url

# Where the shop lies is nobody's business.
_SHOWN_URL = "postgresql://shop@db.example.com/dapr"


async def keep(folder: Path, snapshots: int, scale: int) -> Path:
    """The last report."""
    report: Path | None = None
    with spark_session() as spark:
        async with asynccontextmanager(serve)(folder, scale) as shop:
            for number in range(snapshots):
                await (shop.work() if number else shop.open())
                source = snapshot(spark, store_url(folder))
                taken = await asyncio.to_thread(
                    take, spark, source, _SHOWN_URL, folder / "series", against="latest" if number else None
                )
                report = taken.report
    assert report is not None
    return report


async def picture(report: Path, to: Path, *, scheme: str, phone: bool, whole: bool) -> None:
    async with chromium() as browser:
        context = await browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": 390, "height": 844} if phone else {"width": 1200, "height": 1500},
            is_mobile=phone,
        )
        page = await context.new_page()
        await page.goto(report.resolve().as_uri())
        await page.screenshot(path=to, full_page=whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "report.png")
    parser.add_argument("--snapshots", type=int, default=4)
    parser.add_argument("--scale", type=int, default=12)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--whole", action="store_true", help="all of the page, not one window of it")
    parser.add_argument("--report", type=Path, help="of a report that is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = options.report or asyncio.run(keep(Path(folder), options.snapshots, options.scale))
        look = {"scheme": options.scheme, "phone": options.phone, "whole": options.whole}
        asyncio.run(picture(report, options.to, **look))
    if squeeze := shutil.which("pngquant"):
        subprocess.run(
            [squeeze, "--force", "--skip-if-larger", "--strip", "--output", options.to, options.to], check=True
        )


if __name__ == "__main__":
    main()
