"""A shop's data at two moments, and the series that was kept of them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.spark.pipeline import shop
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Moments:
    """Files of the embedded host, as they were when."""

    earlier: Path
    #: Between the two, with everything under way.
    amid: Path
    later: Path


@dataclass(frozen=True)
class Kept:
    folder: Path
    #: The file that both are of.
    store: Path
    earlier: dict[str, Any]
    later: dict[str, Any]


def url_of(file: Path) -> str:
    return f"sqlite://{file}"


def run(*arguments: str) -> Result:
    """``holdfast snapshot`` in this process, which has a session."""
    done = CliRunner().invoke(cli, ["snapshot", *arguments], env={"HOLDFAST_STORE_URL": "", "HOLDFAST_SNAPSHOTS": ""})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def copy_of(file: Path, to: Path) -> Path:
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    return to


@pytest.fixture(scope="package")
async def moments(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    folder = tmp_path_factory.mktemp("shop")
    data = folder / "data" / "holdfast.db"
    async with asynccontextmanager(shop.serve)(folder, 3) as running:
        await running.open()
        earlier = copy_of(data, folder / "earlier.db")
        async with asyncio.TaskGroup() as group:
            before = running.orders
            group.create_task(running.work())
            await eventually(lambda: running.has_gone_on(before), what="orders come in, and an import has begun")
            amid = copy_of(data, folder / "amid.db")
        return Moments(earlier, amid, copy_of(data, folder / "later.db"))


@pytest.fixture(scope="package")
def kept(spark: SparkSession, moments: Moments, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("series")
    store = folder / "store.db"
    told = []
    for file in (moments.earlier, moments.later):
        done = run("--url", url_of(copy_of(file, store)), "--to", str(folder), "--against", "latest", "--json")
        assert done.exit_code == 0, done.output
        told.append(json.loads(done.stdout))
    return Kept(folder, store, *told)
