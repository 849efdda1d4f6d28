"""An orchestration that tries for a while, and then fails."""

from __future__ import annotations

import asyncio

from holdfast import App, Context, Retry

app = App()


@app.activity
def download(page: int) -> int:
    if page == 3:
        raise ConnectionError("catalogue.example.com does not answer")
    return page


@app.activity
async def index(page: int) -> None: ...


@app.orchestration
async def import_catalogue(ctx: Context, pages: int) -> int:
    again = Retry(max_attempts=3, first_delay=0.2, factor=2, jitter=0)
    read = await asyncio.gather(*(ctx.call(download, page, retry=again) for page in range(pages)))
    await asyncio.sleep(0.1)
    for page in read:
        await ctx.call(index, page)
    return len(read)
