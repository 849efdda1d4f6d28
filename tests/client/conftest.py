"""A server for all tests of the client; each test has a queue of its own."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Client
from tests.support import workflows
from tests.support.proxy import FaultyProxy
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.client import Queue

_numbers = itertools.count()


@pytest.fixture(scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(Path(workflows.__file__), folder)
    async with Server(folder, "workflows:app") as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server.url) as made:
        yield made


@pytest.fixture
def name() -> str:
    return f"queue-{next(_numbers)}"


@pytest.fixture
def instance_id() -> str:
    return f"run-{next(_numbers)}"


@pytest.fixture
def queue(client: Client, name: str) -> Queue:
    return client.queue(name)


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[FaultyProxy]:
    made = FaultyProxy(server)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def disturbed(proxy: FaultyProxy, name: str) -> AsyncIterator[Queue]:
    """The same queue, over a proxy that makes faults."""
    async with Client(proxy.url) as made:
        yield made.queue(name)
