"""All attacks at once by one tenant: what another does on the same server meanwhile comes out right.

How long that takes depends on the machine, and is for ``python -m benchmarks attacks`` to measure.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from benchmarks.tenants import APP, HONEST, VIOLATION, Honest, memory_limit, peak_memory, write_tokens
from holdfast.local import ChildProcess
from tests.support.checkout import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("attacks-all-at-once")

#: How much the honest tenant has to get done beside the attack, at least.
ROUNDS = 10
#: Far longer than a call takes on the slowest machine: what is tested is that nothing is lost, not how soon it is done.
LOCK_SECONDS = 300
ATTACK_SECONDS = 300.0


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("all-at-once")
    tokens = folder / "tokens.toml"
    write_tokens(tokens)
    async with Server(folder, APP, "--tokens", str(tokens), imports=ROOT) as running:
        yield running


@pytest.fixture(scope="module")
async def attacked(server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Honest, list[str]]]:
    """The honest tenant's calls during all attacks, and the attacker's output."""
    log = tmp_path_factory.mktemp("attackers") / "attackers.log"
    command = [sys.executable, "-m", "benchmarks.attackers", server.url, str(ATTACK_SECONDS), "--small"]
    honest = Honest(server.url, lock_seconds=LOCK_SECONDS)
    async with ChildProcess("attackers", command, log=log, folder=ROOT) as attackers:

        async def ready() -> bool:
            return "ready" in attackers.logged().splitlines()

        await attackers.wait_ready(ready, timeout=ATTACK_SECONDS)

        def done() -> bool:
            assert attackers.running, attackers.logged()
            return honest.pushed >= ROUNDS and "answered" in attackers.logged().splitlines()

        await honest.run(until=done)
        await attackers.terminate()
        yield honest, attackers.logged().splitlines()


async def ask(server: Server, path: str) -> Any:
    headers = {"Authorization": f"Bearer {HONEST}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session, session.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_the_attacker_sees_no_fault_no_huge_answer_and_nothing_of_others(
    attacked: tuple[Honest, list[str]],
) -> None:
    _, told = attacked
    assert [line for line in told if line.startswith(VIOLATION)] == []
    # It has ended in order, and says what was answered: of each attack something, but of the one that reads nothing.
    assert [line for line in told if line.startswith("unread_answers: ") and line.endswith(" times without an answer")]
    assert [line for line in told if line.startswith("large_histories: ") and line.endswith(" times 200")]
    # An instance takes some mail that it does not read, and a tenant may open some streams; no more.
    for attack, taken in (("unread_mail", 202), ("event_streams", 200)):
        for status in (taken, 429):
            assert [line for line in told if line.startswith(f"{attack}: ") and line.endswith(f" times {status}")]


async def test_the_server_tells_of_no_fault(server: Server, attacked: tuple[Honest, list[str]]) -> None:
    assert "Traceback" not in server.logged()


async def test_the_honest_tenant_gets_all_it_pushed_once_and_in_order(
    server: Server, attacked: tuple[Honest, list[str]]
) -> None:
    honest, _ = attacked
    assert honest.received == list(range(honest.pushed))
    stats = await ask(server, "/queue/orders")
    assert (stats["count"], stats["locked"], stats["dead_letters"]) == (0, 0, 0)
    counters = stats["counters"]
    assert [counters[name] for name in ("pushed", "popped", "acknowledged")] == [honest.pushed] * 3
    assert [counters.get(name, 0) for name in ("redelivered", "expired", "purged", "revoked")] == [0] * 4


async def test_the_honest_tenant_sees_its_own_and_nothing_else(
    server: Server, attacked: tuple[Honest, list[str]]
) -> None:
    honest, _ = attacked
    assert {queue["queue"] for queue in (await ask(server, "/queues"))["queues"]} == {"orders", "activities"}
    assert honest.orchestrations >= ROUNDS // 10
    ended = {"name": "echo", "status": "COMPLETED"}

    async def listed() -> bool:
        found = (await ask(server, "/orchestrations?limit=100"))["orchestrations"]
        assert {one["name"] for one in found} == {"echo"}
        return [one | ended for one in found] == found and len(found) == min(honest.orchestrations, 100)

    # The list hears of instances a moment after they have ended.
    await eventually(listed, what="all of its orchestrations are listed as ended", within=60)


async def test_memory_stays_under_the_limit_that_is_deployed(
    server: Server, attacked: tuple[Honest, list[str]]
) -> None:
    assert peak_memory(server.pid) < memory_limit()
