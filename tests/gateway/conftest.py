"""A server for the tests that need no special one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with Server(tmp_path_factory.mktemp("server")) as running:
        yield running
