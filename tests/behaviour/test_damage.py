"""What stands in the store and is not JSON is said of the queue that it belongs to, through daprd too."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from behaviour.stacks import DAPR, EMBEDDED, on_stacks
from conformance.served import APP_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from behaviour.rest import Server


@contextmanager
def damaged(database: Path, queue: str, value: bytes) -> Iterator[None]:
    """Inside, the metadata of a queue that nobody used yet are these bytes; others read the same file later."""
    key = f"{APP_ID}||PushPopActor||{queue}||metadata"
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        with connection:
            connection.execute(
                "INSERT INTO state (key, value, is_binary, etag) VALUES (?, CAST(? AS TEXT), 0, 'x')", (key, value)
            )
        try:
            yield
        finally:
            with connection:
                connection.execute("DELETE FROM state WHERE key = ?", (key,))


@pytest.mark.parametrize("value", [b"{broken", b'{"queue": "\xff"}'], ids=["not JSON", "not UTF-8"])
@on_stacks(EMBEDDED, DAPR[0])
async def test_a_queue_whose_state_is_damaged_is_no_other_error(server: Server, value: bytes) -> None:
    queue = server.queue()
    with damaged(server.stack._database, queue.name, value):
        looked = await server.request("GET", f"/queue/{queue.name}")
        popped = await server.request("POST", f"/queue/{queue.name}/pop")
        for answer in (looked, popped, await queue.push("a")):
            assert "metadata is not JSON" in answer.refused(500, "STORAGE_BROKEN")["message"]
    (await queue.push("a")).ok()
    assert (await queue.stats())["count"] == 1
