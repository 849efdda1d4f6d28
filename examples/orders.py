"""An order: approval by a person, payment, parallel shipping, and compensation when a step fails.

holdfast serve examples.orders:app
curl -X POST http://127.0.0.1:8080/orchestrations/order/start -d '{"instance_id": "order-17",
    "input": {"customer": "ann", "lines": ["oar", "rope"], "total": 250}}'
curl -X POST http://127.0.0.1:8080/orchestrations/order-17/events/approved -d '{"by": "bob"}'
curl http://127.0.0.1:8080/orchestrations/order-17/wait
"""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel

from holdfast import App, Context, Retry, activity_context
from holdfast.errors import ActivityFailed, NonRetryable

app = App()

#: Orders with a higher total need a person's approval.
APPROVAL_ABOVE = 100.0
SOLD_OUT = "kedge"


class Order(BaseModel):
    customer: str
    lines: list[str]
    total: float
    #: How long the approval may take.
    patience_seconds: float = 24 * 60 * 60


class Approval(BaseModel):
    by: str


class Receipt(BaseModel):
    id: str
    amount: float


class Parcel(BaseModel):
    line: str


class Outcome(BaseModel):
    status: Literal["shipped", "not approved", "refunded"]
    approved_by: str | None = None
    reason: str | None = None
    parcels: list[str] = []


@app.activity
async def charge(order: Order) -> Receipt:
    # The id is the same for every run and attempt, so a payment service that deduplicates by it charges once.
    return Receipt(id=f"{activity_context().instance_id}-payment", amount=order.total)


@app.activity
async def refund(receipt: Receipt) -> None: ...


@app.activity
def ship(line: str) -> Parcel:
    if line == SOLD_OUT:
        raise NonRetryable(f"{line}s are sold out")
    return Parcel(line=line)


@app.activity
def call_back(parcel: Parcel) -> None: ...


@app.orchestration
async def order(ctx: Context, order: Order) -> Outcome:
    approval = None
    if order.total > APPROVAL_ABOVE:
        ctx.set_status("waits for approval")
        try:
            async with asyncio.timeout(order.patience_seconds):  # a durable timer, which may run for days
                approval = await ctx.event("approved", Approval)
        except TimeoutError:
            return Outcome(status="not approved", reason="not approved in time")

    ctx.set_status("pays")
    receipt = await ctx.call(charge, order, retry=Retry(max_attempts=5))
    ctx.set_status("ships")
    try:
        parcels = await ship_all(ctx, order)
    except ActivityFailed as failure:
        await ctx.call(refund, receipt, retry=Retry(max_attempts=100))
        return Outcome(status="refunded", reason=failure.reason)
    except asyncio.CancelledError:
        # The instance was cancelled. It may still call activities to clean up.
        await ctx.call(refund, receipt, retry=Retry(max_attempts=100))
        raise
    return Outcome(
        status="shipped",
        approved_by=approval.by if approval else None,
        parcels=[parcel.line for parcel in parcels],
    )


async def ship_all(ctx: Context, order: Order) -> list[Parcel]:
    """Ships all lines in parallel. If one fails, calls back the parcels that were shipped and raises its error."""
    shipping = (ctx.call(ship, line, retry=Retry(max_attempts=3)) for line in order.lines)
    results = await asyncio.gather(*shipping, return_exceptions=True)
    parcels = [result for result in results if isinstance(result, Parcel)]
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        await asyncio.gather(*(ctx.call(call_back, parcel) for parcel in parcels))
        raise failures[0]
    return parcels
