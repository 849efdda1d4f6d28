"""A server with all examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import Client
from tests.support.checkout import ROOT
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

APPS = ("examples.orders:app", "examples.words:app", "examples.meter:app", "examples.counter:app")


@pytest.fixture(scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with Server(tmp_path_factory.mktemp("server"), *APPS, imports=ROOT) as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server.url) as made:
        yield made
