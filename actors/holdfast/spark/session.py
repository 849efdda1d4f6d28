"""The Spark session of a command: quiet, on this machine alone unless told otherwise."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import ComponentFailed, ComponentMissing, SettingsError
from holdfast.local.java import find_java, how_to_get_java

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = "local[*]"
# Below so many bytes of Parquet, planning for many tasks and compiling for many rows costs more than it saves.
SMALL = 32 * 1024 * 1024

# Of a server of Spark Connect.
_CONNECT_PORT = 15002
_CONNECT_SECONDS = 10.0
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
# Of its address, those that are no secret.
_TOLD_PARAMETERS = ("use_ssl", "user_id", "user_agent", "session_id")

# How Java begins to say what nobody has caught.
_THROWN = re.compile(r'^Exception in thread "[^"]*" [\w.$]+: ')

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A snapshot that has its manifest is finished; that is all there is to know.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Spark's 200 are for clusters: here each costs more than what it holds.
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
}
_FOR_LITTLE = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def spark_session(*, master: str = LOCAL, remote: str | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block. One that runs already is used instead, and left running."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    started = _connected(remote) if remote else _started(master)
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def suited_to(spark: SparkSession, size: int) -> Iterator[None]:
    """Queries over so many bytes, as they are run quickest."""
    wanted = _FOR_LITTLE if size < SMALL else {}
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def _started(master: str) -> SparkSession:
    if find_java() is None:
        raise ComponentMissing(f"Spark needs Java, which was not found. {how_to_get_java()}")
    settings = _ALWAYS | (_ON_THIS_MACHINE if master.startswith("local") else {})
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Any other Python on the path would lack Holdfast.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("holdfast").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as said:
        try:
            with _errors_to(said.fileno()):
                return builder.getOrCreate()
        except Exception as error:
            said.seek(0)
            raise ComponentFailed(
                f"Spark did not start on {master}: {_reason(error, said.read().decode(errors='replace'))}"
            ) from error


def _connected(remote: str) -> SparkSession:
    if not remote.startswith("sc://"):
        raise SettingsError(f"--remote takes an address of Spark Connect, as in sc://host:15002, not {_shown(remote)}.")
    _knock(remote)
    try:
        with warnings.catch_warnings():
            # About pandas 3, which PySpark 4.3.0 does not know yet and nothing here uses.
            warnings.simplefilter("ignore", FutureWarning)
            return SparkSession.builder.remote(remote).getOrCreate()
    except ImportError as error:
        raise ComponentMissing("Spark Connect has needs of its own: pip install 'pyspark[connect]'.") from error
    except PySparkException as error:
        raise ComponentFailed(
            f"Spark Connect at {_shown(remote)} does not answer: {_said_by(error, remote)}"
        ) from error


def _knock(remote: str) -> None:
    """PySpark would go on trying for ten minutes. Where a proxy is between, only that one answers."""
    try:
        parts = urlsplit(remote)
        where = (parts.hostname or "", parts.port or _CONNECT_PORT)
    except ValueError:
        raise SettingsError("--remote takes an address of Spark Connect, as in sc://host:15002.") from None
    if any(name.lower() in _PROXIES for name in os.environ):
        return
    try:
        with socket.create_connection(where, _CONNECT_SECONDS):
            pass
    except OSError as error:
        raise ComponentFailed(f"Spark Connect at {_shown(remote)} does not answer: {error}.") from error


def _shown(remote: str) -> str:
    """Which server it is, and nothing else, of which some may be a token."""
    scheme, _, rest = remote.partition("://")
    return f"{scheme}://{re.split('[/?#;]', rest)[0].rpartition('@')[2]}"


def _said_by(error: Exception, remote: str) -> str:
    said = str(error).partition("\n")[0]
    rest = remote.partition("://")[2]
    user = re.split("[/?#;]", rest)[0].rpartition("@")[0]
    asked = rest.partition(";")[2].split(";")
    given = [part.partition("=")[2] or part for part in asked if part.partition("=")[0] not in _TOLD_PARAMETERS]
    # What should have been a parameter may be a token all the same.
    beside = [part for part in re.split("[/?#;]", rest)[1:] if part.partition("=")[0] not in _TOLD_PARAMETERS]
    for secret in sorted({user, *given, *map(unquote, given), *beside}, key=len, reverse=True):
        if secret:
            said = said.replace(secret, "*****")
    return said


@contextmanager
def _errors_to(file: int) -> Iterator[None]:
    """What is started meanwhile writes its errors there for good: Java warns on its own, before any setting counts."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _reason(error: Exception, said: str) -> str:
    """What Java threw, or, where there is no Java that could, the last thing it said."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage()).partition("\n")[0]
    # Frames of a stack say where, not why.
    lines = [line for line in map(str.strip, said.splitlines()) if line and not line.startswith("at ")]
    told = [line for line in lines if "Exception" in line or "ERROR" in line or "error" in line]
    return _THROWN.sub("", (told or lines or str(error).splitlines() or ["it gave no reason."])[-1])
