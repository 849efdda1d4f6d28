"""Acting on all instances that match a filter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.orchestrations.test_lists import begin, ids, listed
from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run

if TYPE_CHECKING:
    from tests.support.rest import Answer, Server

ANY = {"filter": {"name": "echo"}}
WRONG_BODIES: list[Any] = [
    [],
    {},
    {"action": "cancel"},
    {"action": "cancel", "filter": {}},
    {"action": "cancel", "filter": {"status": []}},
    {"action": "cancel", "filter": {"status": [], "name": "echo"}},
    {"action": "cancel", "filter": {"all": False}},
    {"action": "cancel", "filter": {}, "all": 1},
    {"action": "cancel", "filter": []},
    {"action": "cancel", "filter": {"colour": "blue"}},
    {"action": "cancel", "filter": {"status": "TIRED"}},
    {"action": "cancel", "filter": {"status": 1}},
    {"action": "cancel", "filter": {"tag": "acme"}},
    {"action": "cancel", "filter": {"tag": {"customer": "acme"}}},
    {"action": "cancel", "filter": {"name": 1}},
    {"action": "cancel", "filter": {"started_after": 1700000000}},
    {"action": "cancel", "filter": {"limit": 1, "name": "echo"}},
    {"action": "stop", **ANY},
    {"action": None, **ANY},
    {"action": "cancel", "limit": 0, **ANY},
    {"action": "cancel", "limit": 1001, **ANY},
    {"action": "cancel", "limit": "1", **ANY},
    {"action": "cancel", "dry_run": 1, **ANY},
    {"action": "cancel", "cursor": "x", **ANY},
    {"action": "cancel", "reason": 1, **ANY},
    {"action": "cancel", "event": "go", **ANY},
    {"action": "cancel", "data": 1, **ANY},
    {"action": "delete", "reason": "old", **ANY},
    {"action": "delete", "force": True, **ANY},
    {"action": "raise", **ANY},
    {"action": "raise", "event": "a/b", **ANY},
    {"action": "raise", "event": "", **ANY},
]


async def _bulk(server: Server, action: str, *, query: Any = None, **fields: Any) -> Answer:
    body = {"action": action, "filter": {"id_prefix": server.name, **(query or {})}, **fields}
    return await server.request("POST", "/orchestrations/bulk", json.dumps(body).encode())


@on_every_stack
async def test_the_instances_that_match_are_cancelled_page_by_page(server: Server) -> None:
    await begin(server, ["a", "b", "c"], tags={"customer": "acme"})
    await begin(server, ["d"], tags={"customer": "other"})
    await listed(server, 4)
    only = {"query": {"tag": "customer:acme", "status": "RUNNING"}, "reason": "moved"}
    tried = (await _bulk(server, "cancel", **only, dry_run=True)).ok()
    assert tried == {"matched": 3, "done": 0, "failed": []}
    first = (await _bulk(server, "cancel", **only, limit=2)).ok()
    cursor = first.pop("next_cursor")
    assert first == {"matched": 2, "done": 2, "failed": []}
    rest = (await _bulk(server, "cancel", **only, limit=2, cursor=cursor)).ok()
    assert rest == {"matched": 1, "done": 1, "failed": []}
    for name in "abc":
        assert (await Run(server, name).ended())["reason"] == "moved"
    assert (await Run(server, "d").status())["status"] == "RUNNING"


@on_every_stack
async def test_suspend_resume_raise_and_delete(server: Server) -> None:
    await begin(server, ["a", "b"])
    await listed(server, 2)
    done = {"matched": 2, "done": 2, "failed": []}
    assert (await _bulk(server, "suspend", reason="maintenance")).ok() == done
    await listed(server, 2, status="SUSPENDED")
    assert (await _bulk(server, "resume", query={"status": ["SUSPENDED", "BLOCKED"]})).ok() == done
    await listed(server, 2, status="RUNNING")
    assert (await _bulk(server, "raise", event="go", data={"by": ["ann"]})).ok() == done
    assert await Run(server, "a").output() == {"by": ["ann"]}
    await listed(server, 2, status="COMPLETED")
    assert (await _bulk(server, "delete", query={"status": "COMPLETED"})).ok() == done
    assert not await Run(server, "a").is_found()
    await listed(server, 0)


@on_every_stack
async def test_an_instance_for_which_it_cannot_be_done_is_named_and_stops_no_other(server: Server) -> None:
    await begin(server, ["ended"], "echo", input=1)
    await begin(server, ["running"])
    await listed(server, 1, status="COMPLETED")
    await listed(server, 1, status="RUNNING")
    failed = [f"{server.name}-running"]
    assert (await _bulk(server, "delete")).ok() == {"matched": 2, "done": 1, "failed": failed}
    assert (await Run(server, "running").status())["status"] == "RUNNING"
    assert await ids(server, status="RUNNING") == ["running"]


@on_every_stack
async def test_a_filter_without_anything_says_that_it_means_everything(server: Server) -> None:
    for body in ({"filter": {}, "all": True}, {"all": True}, {"filter": {"all": True}}):
        sent = json.dumps({"action": "cancel", "dry_run": True, "limit": 1, **body}).encode()
        answer = (await server.request("POST", "/orchestrations/bulk", sent)).ok()
        assert (answer["done"], answer["failed"]) == (0, [])


@pytest.mark.parametrize("body", WRONG_BODIES, ids=json.dumps)
@on_every_stack
async def test_wrong_bodies_are_refused(server: Server, body: Any) -> None:
    sent = json.dumps(body).encode()
    (await server.request("POST", "/orchestrations/bulk", sent)).refused(400, "INVALID_REQUEST")
