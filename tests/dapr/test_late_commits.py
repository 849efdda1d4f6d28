"""Saves that get no answer, and what PostgreSQL makes of them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from holdfast import errors
from holdfast.local import LocalPostgres, write_component
from tests.dapr.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dapr.cluster import Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-late-commits")


@pytest.fixture(scope="module")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    postgres = LocalPostgres(tmp_path_factory.mktemp("postgresql"))
    await postgres.start()
    yield await postgres.create_database("late")
    await postgres.stop()


@pytest.fixture(scope="module")
async def replica(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> AsyncIterator[Replica]:
    async with Cluster(folder := tmp_path_factory.mktemp("dapr")) as cluster:
        write_component("postgresql-v2", folder / "resources", connection=postgres)
        replica = await cluster.add()
        await replica.ready()
        yield replica


@pytest.fixture
async def database(postgres: str, replica: Replica) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as connection:
        yield connection


async def stored(database: psycopg.AsyncConnection[Any], actor: str) -> dict[str, Any]:
    rows = await database.execute(
        "SELECT key, convert_from(value, 'UTF8') FROM state WHERE key LIKE %s", (f"%||{actor}||%",)
    )
    return {key.rpartition("||")[2]: json.loads(value) for key, value in await rows.fetchall()}


async def waits_for_a_lock(database: psycopg.AsyncConnection[Any]) -> bool:
    rows = await database.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return (await rows.fetchall()) != [(0,)]


async def transact(replica: Replica, actor: str, *requests: dict[str, Any]) -> bool:
    operations = [{"operation": "upsert", "request": request} for request in requests]
    answer = await replica.client.http.ask("POST", f"/actors/Shelf/{actor}/state", json.dumps(operations).encode())
    return answer.ok


async def test_daprd_honours_an_etag_and_tells_none(replica: Replica, database: psycopg.AsyncConnection[Any]) -> None:
    """Why saves are not fenced with ETags. When its end fails, daprd has learnt to tell them."""
    await replica.call("Shelf", "fenced", "put", {"a": 1})
    [[etag]] = await (await database.execute("SELECT etag::text FROM state WHERE key LIKE '%||fenced||a'")).fetchall()
    assert await transact(replica, "fenced", {"key": "a", "value": 2, "etag": etag}, {"key": "b", "value": 2})
    assert not await transact(replica, "fenced", {"key": "a", "value": 3, "etag": etag}, {"key": "b", "value": 3})
    assert await stored(database, "fenced") == {"a": 2, "b": 2}
    answer = await replica.client.http.ask("GET", "/actors/Shelf/fenced/state/a")
    assert "etag" not in {name.lower() for name in answer.headers}


async def test_a_save_whose_caller_left_is_cancelled_in_the_database(
    replica: Replica, database: psycopg.AsyncConnection[Any], postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """daprd passes on that its client has gone; only a commit that has begun is finished."""
    await replica.call("Shelf", "cancelled", "put", {"a": 0, "b": 0})
    async with await psycopg.AsyncConnection.connect(postgres) as other:
        await other.execute("SELECT * FROM state WHERE key LIKE '%||cancelled||b' FOR UPDATE")
        monkeypatch.setattr(replica.client.http, "timeout", 1.0)
        with pytest.raises(errors.Unavailable):
            await replica.call("Shelf", "cancelled", "put", {"a": 1, "b": 1})
        async with asyncio.timeout(30):
            while await waits_for_a_lock(database):
                await asyncio.sleep(0.02)
    assert await stored(database, "cancelled") == {"a": 0, "b": 0}


# What the save is given to write, by what was there before. PostgreSQL lets a statement that deletes pass by a row that
# another transaction has inserted and not committed: it waits only for transactions that change the same row.
@pytest.mark.parametrize("before", [["a", "b"], ["b"], ["a"], []], ids=lambda keys: "+".join(keys) or "nothing")
async def test_a_commit_that_comes_late_is_undone_as_a_whole(
    replica: Replica,
    database: psycopg.AsyncConnection[Any],
    postgres: str,
    monkeypatch: pytest.MonkeyPatch,
    before: list[str],
) -> None:
    actor = f"late-{'-'.join(before)}"
    await replica.call("Shelf", actor, "put", dict.fromkeys(["other", *before], 0))
    async with await psycopg.AsyncConnection.connect(postgres) as late:
        # The save that gets no answer: its transaction is this one, which is committed later.
        for key in ("a", "b"):
            await late.execute(
                "INSERT INTO state (key, value, etag) SELECT replace(key, '||other', %s), '1', etag"
                " FROM state WHERE key LIKE %s ON CONFLICT (key) DO UPDATE SET value = '1'",
                (f"||{key}", f"%||{actor}||other"),
            )
        ask = replica.client.http.ask

        async def cut(verb: str, path: str, *arguments: Any, **options: Any) -> Any:
            if path.endswith("/state"):
                raise errors.Unavailable("The connection to the sidecar was lost. Try again.")
            return await ask(verb, path, *arguments, **options)

        with monkeypatch.context() as broken:
            broken.setattr(replica.client.http, "ask", cut)
            with pytest.raises(errors.Unavailable):
                await replica.call("Shelf", actor, "put", {"a": 1, "b": 1})

        reading = asyncio.create_task(replica.call("Shelf", actor, "get", ["a", "b"]))
        async with asyncio.timeout(30):
            while not (reading.done() or await waits_for_a_lock(database)):
                await asyncio.sleep(0.02)
        await late.commit()
    seen = dict(zip(("a", "b"), await reading, strict=True))
    await replica.call("Shelf", actor, "put", {"other": 2})
    # The next turns decide by what the first one saw: that is what stays.
    assert await stored(database, actor) == {"other": 2} | {key: seen[key] for key in seen if seen[key] is not None}
