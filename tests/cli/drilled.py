"""The shop of the deploy drill, as it is deployed first."""

from __future__ import annotations

from holdfast import App, Context

app = App()


@app.activity
async def charge(number: str) -> str:
    return f"{number} charged"


@app.activity
async def add_tax(number: str) -> None: ...


@app.orchestration(mailboxes=["notes"])
async def order(ctx: Context, number: str) -> str:
    receipt = await ctx.call(charge, number)
    ctx.set_tags({"charged": "yes"})
    notes = [await ctx.receive("notes", str) for _ in range(2)]
    return f"{receipt}: {', '.join(notes)}"
