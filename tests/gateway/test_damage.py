"""State that something other than Holdfast wrote: said of what is damaged, and of nothing else."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from click.testing import CliRunner

from holdfast import Client
from holdfast.cli.main import cli
from holdfast.errors import StorageBroken
from tests.support import workflows
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUEUES = ("good", "not-json", "not-utf8", "segment", "letters", "letters-deadletter")
DAMAGE = {
    "PushPopActor||not-json||metadata": b"{broken",
    "PushPopActor||not-utf8||metadata": b'{"queue": "\xff\xfe"}',
    "PushPopActor||letters-deadletter||metadata": b"",
    "PushPopActor||segment||segment-0-%": b"[[",
    "OrchestrationActor||no-history||history-%": b"\xff",
    "OrchestrationActor||not-json||instance": b"{broken",
}

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("gateway-damage")


@dataclass(frozen=True)
class Damaged:
    url: str
    log: Path

    async def ask(self, verb: str, path: str) -> tuple[int, dict[str, Any]]:
        async with aiohttp.ClientSession() as session, session.request(verb, self.url + path) as answer:
            return answer.status, await answer.json()


@pytest.fixture(scope="module")
async def damaged(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Damaged]:
    folder = tmp_path_factory.mktemp("damage")
    shutil.copy(Path(workflows.__file__), folder)
    server = Server(folder, "workflows:app")
    async with server:
        async with Client(server.url) as client:
            for queue in QUEUES:
                # As long as it takes for a segment to lie by itself.
                await client.queue(queue).push_many([{"n": number, "text": "x" * 3000} for number in (1, 2)])
            for instance_id in ("good", "no-history", "not-json"):
                # As long as it takes for a part of the history to lie by itself.
                order = workflows.Order(number=1, lines=["a" * 20_000])
                run = await client.start(workflows.checkout, order, instance_id=instance_id)
                await run.result(timeout=30)
        await server.kill()
        _damage(folder / "data" / "holdfast.db")
        await server.start()
        yield Damaged(server.url, folder / "server.log")


def _damage(file: Path) -> None:
    connection = sqlite3.connect(file)
    with connection:
        for key, value in DAMAGE.items():
            changed = connection.execute(
                "UPDATE state SET value = CAST(? AS TEXT) WHERE key LIKE ?", (value, f"holdfast||{key}")
            )
            assert changed.rowcount >= 1, key
    connection.close()


async def test_the_list_has_all_queues_and_says_which_are_damaged(damaged: Damaged) -> None:
    status, answer = await damaged.ask("GET", "/queues")
    assert status == 200
    listed = {queue.pop("queue"): queue for queue in answer["queues"] if queue["queue"] != "activities"}
    assert listed == {
        "good": {"count": 2, "locked": 0, "dead_letters": 0},
        "letters": {"count": 2, "locked": 0, "dead_letters": None},
        **{name: {"error": "STORAGE_BROKEN"} for name in ("not-json", "not-utf8", "segment", "letters-deadletter")},
    }


async def test_the_client_has_no_figures_of_what_is_damaged(damaged: Damaged) -> None:
    async with Client(damaged.url) as client:
        listed = {queue.queue: queue async for queue in client.queues(page_size=1)}
        assert (listed["not-json"].count, listed["not-json"].error) == (None, "STORAGE_BROKEN")
        assert (listed["letters"].count, listed["letters"].dead_letters) == (2, None)
        assert (listed["good"].count, listed["good"].error) == (2, None)
        with pytest.raises(StorageBroken, match="metadata is not JSON"):
            await client.queue("not-utf8").stats()


def test_the_command_lists_them_too(damaged: Damaged) -> None:
    shown = CliRunner().invoke(cli, ["queue", "list", "--url", damaged.url], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    rows = {words[0]: words[1:] for line in shown.stdout.splitlines() if (words := line.split())}
    assert (rows["not-json"], rows["letters"], rows["good"]) == (
        ["damaged", "-", "-"],
        ["2", "0", "-"],
        ["2", "0", "0"],
    )


@pytest.mark.parametrize(
    ("verb", "path", "key"),
    [
        ("GET", "/queue/not-json", "metadata"),
        ("GET", "/queue/not-utf8", "metadata"),
        ("POST", "/queue/not-utf8/pop", "metadata"),
        ("POST", "/queue/segment/pop", "segment-0-"),
        ("GET", "/queue/segment/peek", "segment-0-"),
        ("GET", "/orchestrations/no-history/history", "history-"),
        ("GET", "/orchestrations/not-json", "instance"),
    ],
)
async def test_what_is_damaged_is_one_line_in_the_log_and_no_trace(
    damaged: Damaged, verb: str, path: str, key: str
) -> None:
    before = len(damaged.log.read_text())
    status, answer = await damaged.ask(verb, path)
    assert (status, answer["success"], answer["error_code"]) == (500, False, "STORAGE_BROKEN")
    assert key in answer["message"]
    assert "is not JSON" in answer["message"]
    told = damaged.log.read_text()[before:]
    assert "Traceback" not in told
    assert [line for line in told.splitlines() if path in line and "is damaged" in line]
