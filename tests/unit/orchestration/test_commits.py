"""How many transactions an orchestration costs on the embedded host, counted in SQLite's own log."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

from holdfast import App, Context
from holdfast.kinds import ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.runtime.embedded import EmbeddedHost
from holdfast.runtime.serialization import dump, load
from holdfast.server import OWN_ACTORS
from holdfast.worker.local_source import LocalWorkSource
from holdfast.worker.worker import Worker
from tests.support.index_contents import entries_in_index
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MOST = 5
TRIES = 4
# The write-ahead log: a header, and then pages with headers of their own.
_HEADER_SIZE = 32
_PAGE_HEADER_SIZE = 24

app = App()


@app.activity
async def double(number: int) -> int:
    return 2 * number


@app.orchestration
async def one_activity(ctx: Context, number: int) -> int:
    return await ctx.call(double, number)


def commits(folder: Path) -> int:
    """Returns the number of transactions in the log: the last page of each names the size of the database."""
    log = (folder / "holdfast.db-wal").read_bytes()
    [page_size] = struct.unpack_from(">I", log, 8)
    pages = range(_HEADER_SIZE, len(log), _PAGE_HEADER_SIZE + page_size)
    return sum(struct.unpack_from(">I", log, page + 4) != (0,) for page in pages)


async def test_a_start_with_one_activity_takes_at_most_five_transactions(tmp_path: Path) -> None:
    host = EmbeddedHost(tmp_path)

    async def ask(actor_type: str, actor_id: str, method: str, data: Any = None) -> Any:
        return load(await host.client.invoke_method(actor_type, actor_id, method, dump(data)))

    async def run(number: int) -> None:
        """Runs an instance until its end is listed and its activity is off the queue."""
        instance_id = f"i-{number}"

        async def is_done() -> bool:
            listed = (await entries_in_index(host.client)).get(instance_id)
            counters = (await ask(QUEUE_TYPE, "activities", "Stats"))["counters"]
            return listed is not None and listed.status == "COMPLETED" and counters["acknowledged"] == number

        await ask(ORCHESTRATION_TYPE, instance_id, "Start", {"name": "one_activity", "input": 4})
        await eventually(is_done, what=f"{instance_id} is completed and listed")

    for actor_class in (*OWN_ACTORS, orchestration_actor(app.registry)):
        await host.register(actor_class)
    await host.start()
    worker = asyncio.create_task(Worker(LocalWorkSource(host.client, alone=True), app.registry).run())
    # The first one also configures and lists its queue.
    await run(1)
    counts = []
    for number in range(2, 2 + TRIES):
        before = commits(tmp_path)
        await run(number)
        counts.append(commits(tmp_path) - before)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await host.stop()
    # A reminder of the queue may have fired meanwhile, and a slow machine may list the start by itself.
    assert min(counts) <= MOST, counts
