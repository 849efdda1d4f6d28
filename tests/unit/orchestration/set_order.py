"""An orchestration in which all that asyncio keeps in sets decides something, run in a process of its own."""

from __future__ import annotations

import asyncio
import json
import random
from asyncio import as_completed
from typing import TYPE_CHECKING

from holdfast import App
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from holdfast import Context

MANY = 30

app = App()


@app.activity
async def note(what: str) -> None: ...


@app.orchestration
async def orders(ctx: Context) -> list[str]:
    order: list[str] = []

    async def done(name: str) -> str:
        order.append(f"begins {name}")
        return name

    async def cancelled(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            order.append(f"cancelled {name}")

    # Coroutines, of which asyncio itself makes a set before it makes tasks of them.
    for following in as_completed([done(f"completed {number}") for number in range(MANY)]):
        order.append(await following)

    tasks = {asyncio.create_task(done(f"waited {number}")) for number in range(MANY)}
    finished, _ = await asyncio.wait(tasks)
    order.extend(task.result() for task in finished)

    together = {asyncio.gather(done(f"gathered {number}")) for number in range(MANY)}
    finished_together, _ = await asyncio.wait(together)
    order.extend(result for future in finished_together for result in future.result())

    futures = {asyncio.get_running_loop().create_future() for _ in range(MANY)}
    for number, future in enumerate(futures):
        future.set_result(str(number))
        future.add_done_callback(lambda future: order.append(f"called back {future.result()}"))
    await asyncio.wait(futures)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(MANY):
                group.create_task(cancelled(f"grouped {number}"))
            await asyncio.sleep(1)
            raise ValueError
    except* ValueError:
        order.append("group ended")

    pending = {asyncio.create_task(ctx.call(note, str(number))) for number in range(MANY)}
    await asyncio.wait(pending, timeout=1)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        order.append(task.get_name())
        task.cancel()
    return order


def main() -> None:
    # Other addresses than in the last run, and other gaps between them.
    random.seed()
    clutter = [bytearray(random.randrange(1, 2000)) for _ in range(random.randrange(20_000))]
    del clutter[:: random.randrange(2, 5)]
    driver = Driver(app)
    driver.start("orders")
    while driver.instance.ending is None:
        driver.wait()
    print(json.dumps([event.dump() for event in driver.events]))


if __name__ == "__main__":
    main()
