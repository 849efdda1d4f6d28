"""The peer without Dapr: DBOS on SQLite, five steps in a row. Run as a process of its own by the benchmarks.

Takes a line of JSON at a time, ``{"seconds": …, "callers": …}``, and answers with how many workflows a second ended,
and what one took.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

from dbos import DBOS


@DBOS.step()
async def step(number: int) -> int:
    return number


@DBOS.workflow()
async def five(number: int) -> int:
    for each in range(5):
        await step(each)
    return number


async def measure(seconds: float, callers: int) -> dict[str, float]:
    taken: list[float] = []
    began = time.perf_counter()

    async def caller() -> None:
        while time.perf_counter() - began < seconds:
            started = time.perf_counter()
            await five(1)
            taken.append(time.perf_counter() - started)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return {"rate": len(taken) / (time.perf_counter() - began), "median": statistics.median(taken)}


async def serve() -> None:
    loop = asyncio.get_running_loop()
    print(json.dumps({"ready": True}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await measure(**json.loads(line))), flush=True)


def main(folder: str) -> None:
    DBOS(config={"name": "peer", "system_database_url": f"sqlite:///{folder}/dbos.sqlite", "log_level": "WARNING"})
    DBOS.launch()
    try:
        asyncio.run(serve())
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1])
