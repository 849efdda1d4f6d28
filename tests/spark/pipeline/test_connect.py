"""On a cluster behind Spark Connect: the server is a process of its own, and so is the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from holdfast.spark import SCHEMAS
from holdfast.spark.interpreter import python_variables
from tests.spark.pipeline.conftest import url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyspark.sql import SparkSession

    from tests.spark.pipeline.conftest import Moments

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = "Spark Connect server started"


@pytest.fixture(scope="module")
async def remote(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    port, folder = free_port(), tmp_path_factory.mktemp("connect")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [
        *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[2]", "--class", SERVER),
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    # What tells PySpark that it is a part of a session would make another session of it.
    own = {**python_variables(), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_GATEWAY_PORT": ""}
    server = ChildProcess("connect", command, log=folder / "connect.log", folder=folder, environment=own)

    async def has_started() -> bool:
        return STARTED in server.logged()

    async with server:
        await server.wait_ready(has_started, timeout=120)
        yield f"sc://127.0.0.1:{port}"


def snapshot(folder: Path, remote: str, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "SPARK_", "PYSPARK_"))
    }
    return subprocess.run(
        [Path(sys.executable).with_name("holdfast"), "snapshot", "--remote", remote, "--url", url, *arguments],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_it_keeps_what_one_on_this_machine_does(
    remote: str, spark: SparkSession, moments: Moments, tmp_path: Path
) -> None:
    done = snapshot(tmp_path, remote, url_of(moments.later), "--to", "series", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    # At the moment of that snapshot: locks expire while tests run.
    source = spark.read.format("holdfast").options(url=url_of(moments.later), as_of=told["as_of"])
    assert {name: table["rows"] for name, table in told["tables"].items()} == {
        name: source.option("table", name).load().count() for name in SCHEMAS
    }
    assert told["tables"]["items"]["rows"] > 0
    assert told["findings"] == []
    assert Path(told["report"]).is_file()


@pytest.mark.parametrize("remote", ["sc://127.0.0.1:1/;token=s3cret", "https://127.0.0.1:1/;token=s3cret"])
def test_a_token_is_not_shown(remote: str, moments: Moments, tmp_path: Path) -> None:
    done = snapshot(tmp_path, remote, url_of(moments.later))
    assert done.returncode != 0
    [sentence] = done.stderr.strip().splitlines()
    assert "127.0.0.1:1" in sentence
    assert "s3cret" not in done.stderr + done.stdout
