"""``--tenant``: whose queues, instances and activities a command is about."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import Client
from tests.cli.test_worker import Worker
from tests.support import workflows
from tests.support.server import Server
from tests.support.workflows import Order, Receipt

if TYPE_CHECKING:
    from tests.cli.conftest import Command


def test_commands_are_about_one_tenant(holdfast: Command, name: str) -> None:
    assert holdfast.queue("push", name, '"ours"', "--tenant", "acme").code == 0
    assert holdfast.queue("pop", name).code == 3
    assert holdfast.queue("pop", name, "--tenant", "umbrella").code == 3
    popped = holdfast("queue", "pop", name, "--json", HOLDFAST_TENANT="acme")
    assert popped.json()["items"] == ["ours"]
    started = holdfast.orchestration("start", "approval", "--instance-id", name, "--tenant", "acme")
    assert started.code == 0, started.error
    assert holdfast.orchestration("status", name).code == 3
    assert holdfast.orchestration("status", name, "--tenant", "acme").code == 0


def test_what_cannot_be_a_tenant_is_one_sentence(holdfast: Command, name: str) -> None:
    ended = holdfast("queue", "pop", name, "--tenant", "a@b")
    assert ended.code == 2
    assert ended.error.startswith("holdfast: This tenant id is not valid")
    assert ended.error.count("\n") == 1


def test_a_quota_that_is_none_stops_the_start(holdfast: Command) -> None:
    (holdfast.folder / "holdfast.toml").write_text("[tenants.acme]\nmax_queue = 3\n")
    ended = holdfast("serve", "--port", "0")
    assert ended.code == 1
    assert ended.error.startswith("holdfast: tenants.acme: max_queue")
    assert ended.error.count("\n") == 1


async def test_a_worker_takes_the_activities_of_its_tenant(tmp_path: Path) -> None:
    shutil.copy(Path(workflows.__file__), tmp_path)
    order = Order(number=1, lines=["oar"])
    receipt = Receipt(number=1, shipped=["oar shipped"])
    async with (
        Server(tmp_path, "workflows:app", "--no-worker") as server,
        Client(server.url, tenant="acme") as acme,
        Client(server.url) as default,
    ):
        ours = await acme.start(workflows.checkout, order, instance_id="same")
        others = await default.start(workflows.checkout, order, instance_id="same")
        async with Worker(tmp_path, server.url, "--tenant", "acme"):
            assert await ours.result(timeout=30) == receipt
        assert (await others.status()).status == "RUNNING"
        assert (await default.queue("activities").stats()).count == 1
        async with Worker(tmp_path, server.url):
            assert await others.result(timeout=30) == receipt
