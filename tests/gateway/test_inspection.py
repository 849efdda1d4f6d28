"""The endpoints that show a server's code, worker, caller and queues over time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("gateway")

APP = """
import asyncio
from typing import Callable

from pydantic import BaseModel

from holdfast import App, Context

app = App()


class Order(BaseModel):
    customer: str
    total: float = 1.5


@app.activity(queue="slow")
async def pack(order: Order) -> None:
    await asyncio.Event().wait()


@app.orchestration(mailboxes={"notes": str}, requests=["price"])
async def shop(ctx: Context, order: Order) -> None:
    await ctx.call(pack, order)


@app.orchestration(version="2")
async def other(ctx: Context) -> None: ...
"""
TOKENS = """
[[token]]
name = "all"
token = "all-0123456789abcdef"
role = "operator"
tenant = "*"
[[token]]
name = "acme"
token = "acme-0123456789abcdef"
role = "reader"
tenant = "acme"
"""


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Server]:
    (tmp_path / "inspected.py").write_text(APP)
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    async with Server(tmp_path, "inspected:app", "--tokens", str(tokens)) as running:
        yield running


async def ask(server: Server, path: str, body: Any = None, *, token: str = "all") -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}-0123456789abcdef"}
    data = None if body is None else json.dumps(body)
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request("GET" if body is None else "POST", f"{server.url}{path}", data=data) as answer,
    ):
        found: dict[str, Any] = await answer.json()
        assert answer.ok, found
        return found


async def test_definitions_have_the_schemas_of_inputs(own: Server) -> None:
    found = await ask(own, "/definitions")
    shop, other = found["orchestrations"]
    assert (shop["name"], shop["version"], shop["latest"]) == ("shop", "1", True)
    assert shop["input"]["properties"]["total"] == {"default": 1.5, "title": "Total", "type": "number"}
    assert shop["mailboxes"] == {"notes": {"type": "string"}}
    assert shop["requests"].keys() == {"price"}
    assert (other["version"], other["input"]) == ("2", {"type": "null"})
    assert [(one["name"], one["queue"]) for one in found["activities"]] == [("pack", "slow")]


async def test_a_worker_shows_what_it_runs_to_the_tenant_of_the_work(own: Server) -> None:
    await ask(own, "/orchestrations/shop/start", {"instance_id": "s-1", "input": {"customer": "ann"}})

    async def running() -> Any:
        return (await ask(own, "/workers"))["workers"][0]["running"]

    [job] = await eventually(running)
    assert (job["activity"], job["queue"], job["instance_id"], job["attempt"]) == ("pack", "slow", "s-1", 1)
    [theirs] = (await ask(own, "/workers", token="acme"))["workers"]
    assert (theirs["queues"], theirs["running_count"], theirs["running"]) == (["slow"], 0, [])


async def test_the_status_has_the_role_and_the_tenant_of_the_caller(own: Server) -> None:
    everyone, acme = await ask(own, "/status"), await ask(own, "/status", token="acme")
    assert (everyone["tenant"], everyone["role"], everyone["bound"]) == ("default", "operator", False)
    assert (acme["tenant"], acme["role"], acme["bound"]) == ("acme", "reader", True)


async def test_samples_are_those_of_the_tenant_and_begin_with_the_first_question(own: Server) -> None:
    await ask(own, "/queue/orders/push", {"items": [{"item": 1}, {"item": 2}]})

    async def sampled() -> Any:
        found = await ask(own, "/samples?queue=orders&queue=unknown")
        return found if 2 in found["queues"].get("orders", {}).get("waiting", ()) else None

    found = await eventually(sampled)
    assert found["queues"].keys() == {"orders"}
    assert len({len(column) for column in found["total"].values()}) == 1
    theirs = await ask(own, "/samples?queue=orders", token="acme")
    assert theirs["queues"] == {}
    assert theirs["total"]["waiting"] == [0]
