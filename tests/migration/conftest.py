"""A PostgreSQL server for all migrations, with a database for each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from holdfast.local import LocalPostgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

_numbers = itertools.count()


@pytest.fixture(scope="module")
async def new_database(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Creates an empty database, and returns its URL."""
    postgres = LocalPostgres(tmp_path_factory.mktemp("postgresql"))
    await postgres.start()

    async def create() -> str:
        return await postgres.create_database(f"moved{next(_numbers)}")

    yield create
    await postgres.stop()
