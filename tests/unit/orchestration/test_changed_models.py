"""Changes of models under running instances: what the documentation calls safe continues, and the rest is BLOCKED."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from holdfast import App, Context
from holdfast.errors import NonDeterminism
from holdfast.testing import TestEnvironment, replay


class Order(BaseModel):
    total: int
    kind: Literal["small", "large"] = "small"


class WithDefault(Order):
    currency: str = "EUR"


class WithoutDefault(Order):
    currency: str


class Renamed(BaseModel):
    amount: int


class Aliased(BaseModel):
    amount: int = Field(validation_alias=AliasChoices("amount", "total"))


class Fewer(BaseModel):
    total: int


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    total: int


class Wider(BaseModel):
    total: float | None
    kind: Literal["small", "large", "huge"] = "small"


class Narrower(Order):
    total: int = Field(lt=7)


class NarrowerThatFits(Order):
    total: int = Field(lt=70)


class OtherDefault(Order):
    kind: Literal["small", "large"] = "large"


def an_app(model: Any) -> App:
    app = App()

    @app.activity
    async def price(order: model) -> model:
        return order

    @app.orchestration(mailboxes=["orders"])
    async def checkout(ctx: Context, order: model) -> None:
        priced = await ctx.call(price, order)
        await ctx.event("approved", model)
        await ctx.receive("orders", model)
        await ctx.call(price, priced)
        await ctx.event("never")

    return app


async def recorded() -> dict[str, Any]:
    """Returns the history of an instance that has read an input, a result, an event and mail of the first model."""
    order = Order(total=7)
    with TestEnvironment(an_app(Order)) as environment:
        run = environment.start("checkout", order)
        await run.run_until_idle()
        await run.raise_event("approved", order)
        await run.raise_event("orders", order)
        await run.run_until_idle()
        return {"instance_id": run.instance_id, "events": [event.dump() for event in run._history]}


@pytest.mark.parametrize("model", [Order, WithDefault, Aliased, Fewer, Wider, NarrowerThatFits, OtherDefault])
async def test_a_safe_change(model: type[BaseModel]) -> None:
    replay(an_app(model), await recorded())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (WithoutDefault, "currency: Field required"),
        (Renamed, "amount: Field required"),
        (Strict, "kind: Extra inputs are not permitted"),
        (Narrower, "total: Input should be less than 7"),
    ],
)
async def test_a_change_that_blocks(model: type[BaseModel], why: str) -> None:
    with pytest.raises(NonDeterminism) as raised:
        replay(an_app(model), await recorded())
    details = raised.value.details
    assert details["kind"] == "unfit_value"
    assert details["expected"] == "event 1, OrchestrationStarted (checkout)"
    assert details["found"] == f"it does not fit its type: {why}"
