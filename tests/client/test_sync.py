"""The synchronous client does what the asynchronous one does, in threads and forked processes too."""

from __future__ import annotations

import gc
import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, SyncClient
from holdfast.client import Batch, Queue, Run, Schedule
from holdfast.client.sync import SyncBatch, SyncQueue, SyncRun, SyncSchedule
from holdfast.errors import ClientClosed, NotFound
from tests.support.workflows import Order, Receipt, checkout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.server import Server

TWINS = ((Client, SyncClient), (Queue, SyncQueue), (Batch, SyncBatch), (Run, SyncRun), (Schedule, SyncSchedule))
#: Has no twin: its handlers would need cancellation, which threads do not have.
WITHOUT_TWIN = {"consume"}


@pytest.fixture
def sync_client(server: Server) -> Iterator[SyncClient]:
    with SyncClient(server.url) as made:
        yield made


@pytest.mark.parametrize(("asynchronous", "synchronous"), TWINS)
def test_every_method_has_a_twin_with_the_same_signature(asynchronous: type, synchronous: type) -> None:
    for name, method in inspect.getmembers(asynchronous):
        if (name.startswith("_") and name != "__init__") or name in WITHOUT_TWIN:
            continue
        twin = getattr(synchronous, name, None)
        assert twin is not None, f"{synchronous.__name__}.{name} is missing"
        if inspect.isfunction(method) and (name != "__init__" or asynchronous is Client):
            assert parameters(twin) == parameters(method), name
            assert not inspect.iscoroutinefunction(twin), name


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    found = list(inspect.signature(method).parameters.values())[1:]
    return [(parameter.name, parameter.kind, parameter.default) for parameter in found]


def test_a_queue(sync_client: SyncClient, name: str) -> None:
    queue = sync_client.queue(name)
    assert len(queue.push_many(number for number in range(3))) == 3
    with queue.lock(count=2) as batch:
        assert [message.item for message in batch] == [0, 1]
        assert 0 < batch.seconds_left <= 30
        assert not batch.lost
    with pytest.raises(ValueError, match="no oar"), queue.lock() as batch:
        raise ValueError("no oar")
    [message] = queue.peek()
    assert (message.item, message.last_error) == (2, "ValueError: no oar")
    with queue.lock() as batch:
        batch.dead_letter("unfit")
    assert [letter.reason for letter in queue.dead_letters(page_size=1)] == ["unfit"]
    assert queue.redrive(letter.id for letter in queue.dead_letters()) == 1
    assert queue.stats().count == 1
    assert queue.set_config(max_locks=4)["max_locks"] == 4
    assert name in [listed.queue for listed in sync_client.queues()]


def test_an_orchestration(sync_client: SyncClient, instance_id: str) -> None:
    run = sync_client.start(checkout, Order(number=1, lines=["oar"]), instance_id=instance_id)
    assert run.result(timeout=60) == Receipt(number=1, shipped=["oar shipped"])
    assert next(run.history(page_size=1)).type == "OrchestrationStarted"
    again = sync_client.start(checkout, Order(number=1, lines=[]), instance_id=instance_id)
    assert not again.created
    with pytest.raises(NotFound):
        sync_client.orchestration("unknown").status()


def test_an_effect_runs_once_and_in_the_callers_thread(sync_client: SyncClient, name: str) -> None:
    threads = []

    def run() -> str:
        threads.append(threading.current_thread())
        # Another call of the same client, while the first one waits for this function.
        sync_client.queue(name).push(1)
        return "done"

    def fail() -> str:
        raise ValueError("no oar")

    with pytest.raises(ValueError, match="no oar"):
        sync_client.idempotent(key=name, run=fail)
    first = sync_client.idempotent(key=name, run=run)
    second = sync_client.idempotent(key=name, run=run)
    assert (first.result, first.ran, second.result, second.ran) == ("done", True, "done", False)
    assert threads == [threading.current_thread()]


def test_threads_share_a_client_and_its_first_call_starts_it(server: Server, name: str) -> None:
    client = SyncClient(server.url)
    queue = client.queue(name)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(queue.push, range(64)))) == 64
    assert queue.stats().count == 64
    client.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast client"]
    with pytest.raises(ClientClosed):
        queue.stats()
    with client:
        assert queue.purge() == 64


def test_close_ends_calls_that_wait(server: Server, name: str) -> None:
    client = SyncClient(server.url)
    begun = threading.Event()

    def run() -> None:
        begun.set()
        client.queue(name).pop(wait_seconds=300)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.idempotent, key=name, run=run)
        assert begun.wait(60)
        client.close()
        with pytest.raises(ClientClosed):
            waiting.result(60)


def test_a_client_that_is_no_longer_used_ends_its_thread(server: Server, name: str) -> None:
    before = set(threading.enumerate())
    SyncClient(server.url).queue(name).stats()
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert set(threading.enumerate()) <= before


INTERRUPTED = """
import signal, sys
from holdfast import SyncClient
signal.signal(signal.SIGINT, signal.default_int_handler)
queue = SyncClient(sys.argv[1]).queue(sys.argv[2])
queue.stats()
try:
    print("waiting", flush=True)
    queue.pop(wait_seconds=300)
except KeyboardInterrupt:
    queue.push("interrupted")
"""


def test_ctrl_c_cancels_a_call_and_the_process_exits(server: Server, sync_client: SyncClient, name: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, server.url, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    # The interrupted pop no longer waits: it would have taken this message.
    assert [message.item for message in sync_client.queue(name).pop()] == ["interrupted"]


FORKED = """
import os, sys
from holdfast import SyncClient
client = SyncClient(sys.argv[1])
queue = client.queue(sys.argv[2])
queue.push("before")
child = os.fork()
queue.push("child" if child == 0 else "parent")
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
queue.push("after")
"""


def test_a_forked_process_has_a_connection_of_its_own(server: Server, sync_client: SyncClient, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, server.url, name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    items = sorted(message.item for message in sync_client.queue(name).pop(9))
    assert items == ["after", "before", "child", "parent"]
