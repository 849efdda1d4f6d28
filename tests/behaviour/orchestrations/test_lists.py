"""Finding instances: lists by all that can be asked for, page by page, and counts."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest

from tests.behaviour.stacks import on_every_stack
from tests.support.runs import Run, accepted, start
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.rest import Server

WRONG_QUERIES = [
    "status=TIRED",
    "status=",
    "status=running",
    "name=a&name=b",
    "limit=0",
    "limit=101",
    "limit=1.0",
    "limit=",
    "order=random",
    "tag=customer",
    "tag=:acme",
    "tag=a%20b:c",
    "tag=" + "k" * 65 + ":v",
    "tag=k:" + "v" * 256,
    "tag=k:%00",
    "&".join(f"tag=k{number}:v" for number in range(21)),
    "started_after=yesterday",
    "started_after=1700000000",
    "started_before=2026-02-30",
    "ended_after=2026-02-28T16:13:35+02:00",
    "ended_before=" + "9" * 100,
    "id_prefix=a/b",
    "id_prefix=%40",
    "id_prefix=" + "x" * 256,
    "cursor=x",
    "cursor=!!!!",
    "cursor=WyJuZXdlc3QiLCJ4IiwieSJd",
    "cursor=W10",
    "colour=blue",
    "waiting=yes",
    "waiting=",
]


async def _page(server: Server, query: str) -> Any:
    return (await server.request("GET", f"/orchestrations?{query}")).ok()


async def _all(server: Server, limit: int = 100, **query: Any) -> list[Any]:
    """All pages of what this test has started."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        asked = {"id_prefix": server.name, "limit": limit, **query, **({} if cursor is None else {"cursor": cursor})}
        page = await _page(server, urlencode(asked, doseq=True))
        assert len(page["orchestrations"]) <= limit
        found += page["orchestrations"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return found


async def ids(server: Server, **query: Any) -> list[str]:
    return [one["instance_id"].removeprefix(f"{server.name}-") for one in await _all(server, **query)]


async def listed(server: Server, number: int, **query: Any) -> list[Any]:
    """Waits until so many are listed: the index is written a moment after an answer."""

    async def found() -> tuple[list[Any]] | None:
        shown = await _all(server, **query)
        return (shown,) if len(shown) == number else None

    return (await eventually(found))[0]


async def begin(server: Server, names: Sequence[str], orchestration: str = "waiting", **fields: Any) -> None:
    for name in names:
        answer = await start(server, orchestration, instance_id=f"{server.name}-{name}", **fields)
        assert answer.status == 202, answer.text


@on_every_stack
async def test_the_newest_come_first_and_a_page_begins_where_the_last_one_ended(server: Server) -> None:
    names = [f"{number:02}" for number in (3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 97, 93)]
    await begin(server, names)
    await listed(server, len(names))
    assert await ids(server) == names[::-1]
    assert await ids(server, order="oldest") == names
    for limit in (1, 5, 12):
        assert await ids(server, limit=limit) == names[::-1]
        assert await ids(server, limit=limit, order="oldest") == names


@on_every_stack
async def test_a_listed_instance_has_what_its_status_has(server: Server) -> None:
    run = Run(server, "one")
    await run.start("waiting", tags={"customer": "acme:1", "env": ""})
    [running] = await listed(server, 1, status="RUNNING")
    status = await run.status()
    shown = ("instance_id", "name", "version", "status", "tags", "created_at", "ended_at")
    assert running == {name: status[name] for name in shown}
    accepted(await run.raise_event("go"))
    await run.ended()
    [ended] = await listed(server, 1, status="COMPLETED")
    status = await run.status()
    assert ended == {name: status[name] for name in shown}
    assert ended["ended_at"] is not None
    assert await _all(server, status="RUNNING") == []


@on_every_stack
async def test_a_list_shows_what_instances_wait_for(server: Server) -> None:
    await begin(server, ["ended"], "echo", input=1)
    await begin(server, ["running"])
    await listed(server, 1, status="COMPLETED")
    await listed(server, 1, status="RUNNING")
    run = Run(server, "running")
    await run.waits_for("EventSubscribed")
    [running, ended] = await _all(server, waiting="true")
    assert running["waiting_for"] == (await run.status())["waiting_for"]
    assert [one["name"] for one in running["waiting_for"]] == ["go"]
    assert ended["waiting_for"] == []
    assert "waiting_for" not in (await _all(server, waiting="false"))[0]


@on_every_stack
async def test_filters_together_and_repeated(server: Server) -> None:
    await begin(server, ["a", "b"], tags={"customer": "acme", "env": "test"})
    await begin(server, ["c"], tags={"customer": "acme", "env": "live"})
    await begin(server, ["d", "e"], "echo", input=1, tags={"customer": "other", "env": "test"})
    await Run(server, "a").tell("suspend")
    await Run(server, "b").tell("cancel")
    await listed(server, 2, status="COMPLETED")
    await listed(server, 1, status="CANCELLED")
    await listed(server, 1, status="SUSPENDED")
    assert await ids(server, status=["RUNNING", "SUSPENDED"]) == ["c", "a"]
    assert await ids(server, status=["CANCELLED", "COMPLETED", "SUSPENDED"], order="oldest") == ["a", "b", "d", "e"]
    assert await ids(server, name="echo") == ["e", "d"]
    assert await ids(server, name="echo", status="RUNNING") == []
    assert await ids(server, tag="customer:acme") == ["c", "b", "a"]
    assert await ids(server, tag=["customer:acme", "env:test"], status=["SUSPENDED", "RUNNING"]) == ["a"]
    assert await ids(server, tag=["customer:acme", "customer:other"]) == []
    assert await ids(server, tag="customer:acm") == []
    assert await ids(server, version="1", name="waiting") == ["c", "b", "a"]
    assert await ids(server, version="2") == []
    assert await ids(server, id_prefix=f"{server.name}-c") == ["c"]


@on_every_stack
async def test_times_are_inclusive_at_the_beginning_only(server: Server) -> None:
    await begin(server, ["a"])
    await asyncio.sleep(0.01)
    await begin(server, ["b"], "echo", input=1)
    [b, a] = await listed(server, 2)
    [ended] = await listed(server, 1, status="COMPLETED")
    # Times are shown in whole milliseconds.
    later = (datetime.fromisoformat(b["created_at"]) + timedelta(milliseconds=1)).isoformat()
    assert await ids(server, started_after=a["created_at"]) == ["b", "a"]
    assert await ids(server, started_after=b["created_at"]) == ["b"]
    assert await ids(server, started_after=later) == []
    assert await ids(server, started_before=a["created_at"]) == []
    assert await ids(server, started_before=b["created_at"]) == ["a"]
    assert await ids(server, started_before=later) == ["b", "a"]
    # Without a zone they are in UTC; with one they are converted.
    zoned = datetime.fromisoformat(b["created_at"])
    assert await ids(server, started_after=zoned.replace(tzinfo=None).isoformat()) == ["b"]
    assert await ids(server, ended_after=ended["ended_at"]) == ["b"]
    assert await ids(server, ended_before=ended["ended_at"]) == []
    assert await ids(server, ended_after="2020-01-01", ended_before="2100-01-01T00:00:00+05:00") == ["b"]


@on_every_stack
async def test_counts_by_status_and_name(server: Server) -> None:
    async def counted() -> Any:
        return (await server.request("GET", "/orchestrations/counts?name=tagging")).ok()

    before = (await counted())["counts"]
    await begin(server, ["a", "b", "c"], "tagging")
    await Run(server, "c").tell("cancel")
    await listed(server, 1, status="CANCELLED")
    expected = {status: before.get(status, 0) + more for status, more in (("RUNNING", 2), ("CANCELLED", 1))}

    async def as_expected() -> bool:
        found = (await counted())["counts"]
        return {status: found.get(status) for status in expected} == expected

    await eventually(as_expected)
    answer = await counted()
    assert answer["by_name"] == {"tagging": answer["counts"]}
    everything = (await server.request("GET", "/orchestrations/counts")).ok()
    assert everything["by_name"]["tagging"] == answer["counts"]
    for status, number in everything["counts"].items():
        assert number == sum(statuses.get(status, 0) for statuses in everything["by_name"].values())
    assert (await server.request("GET", "/orchestrations/counts?name=unknown")).ok() == {"counts": {}, "by_name": {}}
    (await server.request("GET", "/orchestrations/counts?status=RUNNING")).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_what_is_deleted_is_neither_listed_nor_counted(server: Server) -> None:
    await begin(server, ["a", "b"], tags={"customer": "acme"})
    await listed(server, 2)
    assert (await Run(server, "a").delete(force="true")).status == 200
    await listed(server, 1)
    for query in ({}, {"status": "RUNNING"}, {"name": "waiting"}, {"tag": "customer:acme"}):
        assert await ids(server, **query) == ["b"]


@on_every_stack
async def test_a_cursor_stays_valid_while_instances_start_and_end(server: Server) -> None:
    await begin(server, [f"{number}" for number in range(6)])
    await listed(server, 6)
    prefix = f"id_prefix={server.name}&limit=2"
    first = await _page(server, prefix)
    # Those of the first page are deleted, and the instance where it ended with them.
    for one in first["orchestrations"]:
        await server.request("DELETE", f"/orchestrations/{one['instance_id']}?force=true")
    await begin(server, ["new"])
    await listed(server, 5)
    rest = await _page(server, f"id_prefix={server.name}&limit=10&cursor={quote(first['next_cursor'])}")
    assert [one["instance_id"][-1] for one in rest["orchestrations"]] == ["3", "2", "1", "0"]
    assert "next_cursor" not in rest
    other = f"order=oldest&cursor={quote(first['next_cursor'])}"
    (await server.request("GET", f"/orchestrations?{other}")).refused(400, "INVALID_REQUEST")


@pytest.mark.parametrize("query", WRONG_QUERIES)
@on_every_stack
async def test_wrong_queries_are_refused(server: Server, query: str) -> None:
    (await server.request("GET", f"/orchestrations?{query}")).refused(400, "INVALID_REQUEST")


@on_every_stack
async def test_an_id_that_is_the_path_of_a_list_cannot_be_taken(server: Server) -> None:
    for name in ("counts", "bulk"):
        message = (await start(server, "echo", instance_id=name)).refused(400, "INVALID_REQUEST")["message"]
        assert name in message
