"""A Spark session for all tests, and the stacks that it reads from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from holdfast.pushpop.core import segments
from holdfast.spark.interpreter import python_variables
from tests.spark.stacks import STACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs all these tests in one xdist worker, as only that worker starts Spark."""
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture
def segments_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """None lies in the metadata of its queue, as when there are many."""
    monkeypatch.setattr(segments, "INLINE_BYTES", 0)


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.update(python_variables())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        # Queries over a few rows are over before what the second compiler makes of them is any use.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="package")
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Gives the stack of a name, started when it is first asked for."""
    running: dict[str, Any] = {}

    def start(name: str) -> Any:
        if name not in running:
            running[name] = STACKS[name](tmp_path_factory.mktemp(name))
        return running[name]

    yield start
    for stack in running.values():
        stack.close()


@pytest.fixture
def stack(request: pytest.FixtureRequest, start_stack: Callable[[str], Any]) -> Any:
    """The one a test is parametrized with, or the embedded host."""
    return start_stack(getattr(request, "param", "embedded"))
