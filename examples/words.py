"""A fan-out: one activity counts each page, as many in parallel as workers have free slots.

holdfast serve examples.words:app
curl -X POST http://127.0.0.1:8080/orchestrations/count_words/start \
    -d '{"instance_id": "words", "input": ["to be or not to be", "that is the question"]}'
curl http://127.0.0.1:8080/orchestrations/words/wait
"""

from __future__ import annotations

import asyncio
from collections import Counter

from holdfast import App, Context, Retry

app = App()


@app.activity
def count_page(page: str) -> dict[str, int]:
    return Counter(page.lower().split())


@app.orchestration
async def count_words(ctx: Context, pages: list[str]) -> dict[str, int]:
    words: Counter[str] = Counter()
    counting = [asyncio.create_task(ctx.call(count_page, page, retry=Retry(max_attempts=3))) for page in pages]
    for counted, page in enumerate(asyncio.as_completed(counting), 1):
        words.update(await page)
        ctx.set_status({"pages": len(pages), "counted": counted})
    return dict(words.most_common(100))
