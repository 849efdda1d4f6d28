"""A perpetual orchestration: it sums the readings of a meter, sends a report each period and continues as new.

A mailbox keeps events in order until the code receives them, also across `continue_as_new`. So no reading is lost, and
the history of each execution stays short.

holdfast serve examples.meter:app
curl -X POST http://127.0.0.1:8080/orchestrations/meter/start -d '{"instance_id": "meter-1", "input": {"period": 10}}'
curl -X POST http://127.0.0.1:8080/orchestrations/meter-1/events/readings -d 42
curl http://127.0.0.1:8080/orchestrations/meter-1
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from holdfast import App, Context, Retry

app = App()


class Meter(BaseModel):
    """The state that one execution passes to the next."""

    #: Seconds between two reports.
    period: float = 3600.0
    reports: int = 0
    total: float = 0.0


class Report(BaseModel):
    number: int
    readings: list[float]


@app.activity
async def send(report: Report) -> None: ...


@app.orchestration(mailboxes=["readings"])
async def meter(ctx: Context, meter: Meter) -> None:
    ctx.set_status({"reports": meter.reports, "total": meter.total})
    readings: list[float] = []
    try:
        async with asyncio.timeout(meter.period):
            while True:
                readings.append(await ctx.receive("readings", float))
    except TimeoutError:
        pass
    number = meter.reports + 1
    await ctx.call(send, Report(number=number, readings=readings), retry=Retry(max_attempts=10))
    ctx.continue_as_new(Meter(period=meter.period, reports=number, total=meter.total + sum(readings)))
