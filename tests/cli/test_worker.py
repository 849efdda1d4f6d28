"""``holdfast worker``: activities in a process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import pytest

from holdfast import Client, errors
from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from tests.support import workflows
from tests.support.proxy import FaultyProxy, lose_answer, unavailable
from tests.support.server import Server
from tests.support.waiting import eventually
from tests.support.workflows import Order, Receipt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.client import Run
    from tests.cli.conftest import Command

ACTIVITIES = "activities"
STRANGE: list[Any] = [
    "what is this?",
    None,
    [],
    {},
    {"instance_id": "../..", "execution_id": 1, "scheduled_seq": 2, "name": "ship", "attempt": 1, "input": 1},
    {"instance_id": "a", "execution_id": "1", "scheduled_seq": 2, "name": "ship", "attempt": 1, "input": 1},
    {"instance_id": "a", "execution_id": 1, "scheduled_seq": 2, "name": "ship", "attempt": 1},
]

OTHER_APP = """
from holdfast import App

app = App()


@app.activity
async def something_else() -> None: ...
"""


class Worker:
    def __init__(self, folder: Path, url: str, *options: str, app: str = "workflows:app", name: str = "worker") -> None:
        shutil.copy(Path(workflows.__file__), folder)
        command = [Path(sys.executable).with_name("holdfast"), "worker", app, "--url", url, *options]
        self.process = ChildProcess(name, command, log=folder / f"{name}.log", folder=folder)

    async def __aenter__(self) -> Self:
        await self.process.start()
        await self.says("Working for")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.process.kill()

    async def stop(self) -> int | None:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            return await self.process.wait()

    async def says(self, words: str) -> None:
        async def said() -> bool:
            return words in self.process.logged()

        await eventually(said, what=f"it says {words!r}")


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Server]:
    shutil.copy(Path(workflows.__file__), tmp_path)
    return lambda *options: Server(tmp_path, "workflows:app", *options)


@pytest.fixture
async def alone(serve: Callable[..., Server]) -> AsyncIterator[Server]:
    """A server that runs no activities."""
    async with serve("--no-worker") as server:
        yield server


@pytest.fixture
async def client(alone: Server) -> AsyncIterator[Client]:
    async with Client(alone.url) as made:
        yield made


async def taken(client: Client, run: Run[Any]) -> None:
    """Waits until a worker holds the activity of the run."""

    async def locked() -> bool:
        return (await client.queue(ACTIVITIES).stats()).locked == 1

    await eventually(locked, what=f"an activity of {run.instance_id} is taken")


async def test_activities_are_run_elsewhere_and_what_comes_of_them_arrives(
    client: Client, alone: Server, tmp_path: Path
) -> None:
    run = await client.start(workflows.checkout, Order(number=1, lines=[f"line {number}" for number in range(120)]))
    failing = await client.start(workflows.failing, "sold out")
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.2)
    async with Worker(tmp_path, alone.url, "--slots", "7") as worker:
        shipped = [f"line {number} shipped" for number in range(120)]
        assert await run.result(timeout=30) == Receipt(number=1, shipped=shipped)
        with pytest.raises(errors.OrchestrationFailed, match="sold out"):
            await failing.result(timeout=20)

        async def empty() -> bool:
            stats = await client.queue(ACTIVITIES).stats()
            return (stats.count, stats.locked, stats.dead_letters) == (0, 0, 0)

        await eventually(empty, what="nothing is left of them")
        assert await worker.stop() == 0
    assert "Traceback" not in worker.process.logged()


@pytest.mark.parametrize("orchestration", [workflows.patience, workflows.stubborn], ids=["async", "thread"])
async def test_sigterm_gives_back_what_is_not_finished(
    client: Client, alone: Server, tmp_path: Path, orchestration: Any
) -> None:
    async with Worker(tmp_path, alone.url) as worker:
        run = await client.start(orchestration)
        # When the server has given it away, the worker may not have seen it yet.
        await worker.says(workflows.BEGUN)
        assert await worker.stop() == 0
    [message] = await client.queue(ACTIVITIES).peek()
    assert message.item["instance_id"] == run.instance_id
    assert message.last_error == "The worker was stopped."


@pytest.mark.parametrize("own", [True, False], ids=["beside the server", "elsewhere"])
async def test_an_activity_that_ignores_its_cancellation_does_not_hold_up_the_stop(
    serve: Callable[..., Server], tmp_path: Path, own: bool
) -> None:
    """The process ends without waiting for the activity: it is abandoned, and the next worker takes it."""
    patience = ("--drain-timeout", "2")
    server = serve(*patience) if own else serve(*patience, "--no-worker")
    await server.start()
    async with Client(server.url) as client:
        run = await client.start(workflows.deaf)
        if own:
            await server.says(workflows.BEGUN)
        else:
            async with Worker(tmp_path, server.url, *patience) as worker:
                await worker.says(workflows.BEGUN)
                assert await worker.stop() == 0
    assert await server.stop() == 0
    async with serve("--no-worker") as after, Client(after.url) as client:
        [message] = await client.queue(ACTIVITIES).peek()
        assert message.item["instance_id"] == run.instance_id
        assert (message.delivery_count, message.last_error) == (0, "The worker was stopped.")


async def test_orderly_restarts_and_workers_of_other_apps_make_no_activity_poison(
    client: Client, alone: Server, tmp_path: Path
) -> None:
    """The queue allows one delivery. The activity begins three times, and is passed over before and in between."""
    (tmp_path / "other.py").write_text(OTHER_APP)
    queue = client.queue(ACTIVITIES)
    await queue.set_config(max_deliveries=1)
    run = await client.start(workflows.patience)

    for number in range(3):
        async with Worker(tmp_path, alone.url, app="other:app", name=f"other-{number}") as other:
            await other.says("this worker has no activity linger")
            assert await other.stop() == 0
        stats = await queue.stats()
        assert (stats.count, stats.locked) == (1, 0)
        async with Worker(tmp_path, alone.url, name=f"worker-{number}") as worker:
            await worker.says(workflows.BEGUN)
            assert await worker.stop() == 0
        [message] = await queue.peek()
        assert (message.delivery_count, message.last_error) == (0, "The worker was stopped.")
    assert (await run.status()).status == "RUNNING"
    assert (await queue.stats()).dead_letters == 0


async def test_what_a_killed_worker_had_is_taken_by_another(client: Client, alone: Server, tmp_path: Path) -> None:
    async with Worker(tmp_path, alone.url) as worker:
        run = await client.start(workflows.patience)
        await taken(client, run)
        await worker.process.kill()
    queue = client.queue(ACTIVITIES)
    [lock] = await queue.in_flight()
    async with Worker(tmp_path, alone.url):
        # Not to wait until it expires.
        await queue.requeue(lock.lock_id_prefix)

        async def taken_again() -> bool:
            locks = await queue.in_flight()
            return bool(locks) and locks[0].lock_id_prefix != lock.lock_id_prefix

        await eventually(taken_again, what="the activity is taken again")


async def test_a_worker_outlives_its_server(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve("--no-worker")
    async with Worker(tmp_path, server.url) as worker:
        for number in range(2):
            await server.start()
            async with Client(server.url) as client:
                run = await client.start(workflows.checkout, Order(number=number, lines=["oar"]))
                assert await run.result(timeout=30) == Receipt(number=number, shipped=["oar shipped"])
            await server.kill()
        assert await worker.stop() == 0
    assert "Traceback" not in worker.process.logged()


async def test_a_server_stops_while_workers_and_consumers_wait(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Their long polls, and those they begin next, would each hold it up for ten seconds."""
    server = serve("--no-worker")
    async with Worker(tmp_path, server.url) as worker:
        await server.start()
        async with Client(server.url) as client:
            consuming = asyncio.create_task(client.queue("orders").consume(_ignore, concurrency=4))

            async def waiting() -> bool:
                async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics") as response:
                    # Those of the worker for its two queues, and that of the consumer.
                    return "holdfast_long_polls_waiting 3.0" in await response.text()

            await eventually(waiting, what="the worker and the consumer wait")
            async with asyncio.timeout(8):
                assert await server.stop() == 0
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)
        # The worker goes on when the server is back.
        await server.start()
        async with Client(server.url) as client:
            run = await client.start(workflows.checkout, Order(number=1, lines=["oar"]))
            assert await run.result(timeout=30) == Receipt(number=1, shipped=["oar shipped"])
        assert await worker.stop() == 0
        assert await server.stop() == 0


async def _ignore(message: object) -> None: ...


async def test_answers_that_are_lost_cost_nothing_but_time(client: Client, alone: Server, tmp_path: Path) -> None:
    proxy = FaultyProxy(alone)
    await proxy.open()
    try:
        proxy.on("/outcome", lose_answer, unavailable)
        proxy.on("/complete", lose_answer, unavailable)
        async with Worker(tmp_path, proxy.url) as worker:
            run = await client.start(workflows.checkout, Order(number=1, lines=["oar", "rope"]))
            assert await run.result(timeout=30) == Receipt(number=1, shipped=["oar shipped", "rope shipped"])

            async def completed() -> bool:
                stats = await client.queue(ACTIVITIES).stats()
                return (stats.count, stats.locked) == (0, 0)

            await eventually(completed, what="both are off their queue")
            assert await worker.stop() == 0
    finally:
        await proxy.close()
    assert (await client.queue(ACTIVITIES).stats()).counters["popped"] == 2
    assert [event.type async for event in run.history()].count("ActivityCompleted") == 2


@pytest.mark.parametrize("own", [True, False], ids=["beside the server", "elsewhere"])
async def test_what_strangers_push_becomes_a_dead_letter_and_stops_nobody(
    serve: Callable[..., Server], tmp_path: Path, own: bool
) -> None:
    async with serve(*([] if own else ["--no-worker"])) as server, Client(server.url) as client:
        queue = client.queue(ACTIVITIES)
        await queue.push_many(STRANGE)
        async with contextlib.nullcontext() if own else Worker(tmp_path, server.url):
            run = await client.start(workflows.checkout, Order(number=1, lines=["oar"]))
            assert await run.result(timeout=30) == Receipt(number=1, shipped=["oar shipped"])

            async def buried() -> bool:
                return (await queue.stats()).dead_letters == len(STRANGE)

            await eventually(buried, what="they are dead letters")
            letters = [letter async for letter in queue.dead_letters()]
            assert [letter.item for letter in letters] == STRANGE
            assert {letter.reason for letter in letters} == {"It is not an activity."}


async def test_a_users_token_is_enough(serve: Callable[..., Server], tmp_path: Path) -> None:
    """The queue of activities does not exist yet, and the token is bound to its tenant."""
    file = tmp_path / "tokens.toml"
    file.write_text('[[token]]\nname = "worker"\nrole = "user"\ntenant = "acme"\ntoken = "a-token-of-a-user"')
    file.chmod(0o600)
    async with (
        serve("--no-worker", "--tokens", str(file)) as server,
        Client(server.url, token="a-token-of-a-user") as client,
        Worker(tmp_path, server.url, "--token", "a-token-of-a-user") as worker,
    ):
        run = await client.start(workflows.checkout, Order(number=1, lines=["oar", "rope"]))
        assert (await run.result(timeout=30)).shipped == ["oar shipped", "rope shipped"]
        assert await worker.stop() == 0


async def test_a_wrong_token_is_one_sentence(serve: Callable[..., Server], holdfast: Command) -> None:
    shutil.copy(Path(workflows.__file__), holdfast.folder)
    async with serve("--token", "the-right-one-0123") as server:
        options = ("worker", "workflows", "--url", server.url, "--token", "wrong")
        ended = await asyncio.to_thread(holdfast, *options)
    assert ended.code == 1
    assert ended.error == "holdfast: Unknown token.\n"


def test_what_there_is_nothing_to_work_on_in_is_one_sentence(holdfast: Command) -> None:
    (holdfast.folder / "idle.py").write_text("from holdfast import App\napp = App()\n")
    ended = holdfast("worker", "idle", "--url", f"http://127.0.0.1:{free_port()}")
    assert ended.code == 1
    assert ended.error == "holdfast: There are no activities in idle: name an app that declares some.\n"


TWO_QUEUES = """
from holdfast import App, Context

app = App()


@app.activity(queue="fast")
async def quick() -> str:
    return "quick"


@app.activity(queue="slow")
async def thorough() -> str:
    return "thorough"


@app.orchestration
async def both(ctx: Context) -> list[str]:
    return [await ctx.call(quick), await ctx.call(thorough)]
"""


async def test_a_worker_works_for_the_queues_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "two_queues.py").write_text(TWO_QUEUES)
    app = "two_queues:app"
    async with Server(tmp_path, app, "--no-worker") as server, Client(server.url) as client:
        run = await client.start("both")
        async with Worker(tmp_path, server.url, "--queue", "fast", app=app, name="fast") as fast:
            assert "on fast, " in fast.process.logged()

            async def the_other_waits() -> bool:
                return (await client.queue("slow").stats()).count == 1

            await eventually(the_other_waits)
            async with Worker(tmp_path, server.url, "--queue", "slow", "--queue", "fast", app=app, name="both"):
                assert await run.result(timeout=30) == ["quick", "thorough"]


def test_a_queue_that_no_activity_uses_is_refused(holdfast: Command) -> None:
    (holdfast.folder / "two_queues.py").write_text(TWO_QUEUES)
    refused = holdfast("worker", "two_queues:app", "--queue", "fats")
    assert refused.code == 1
    assert "No activity uses the queue fats: --queue can be one of fast, slow." in refused.error
