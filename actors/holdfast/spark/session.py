"""The Spark session of a command: without console output, and local unless a master or a remote is given."""

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
from holdfast.spark.interpreter import python_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = "local[*]"
# Below this many bytes of Parquet, many tasks and compiled queries cost more than they save.
SMALL = 32 * 1024 * 1024

# The default port of a Spark Connect server.
_CONNECT_PORT = 15002
_CONNECT_SECONDS = 10.0
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
# Parameters of its URL that are not secret.
_PUBLIC_PARAMETERS = ("use_ssl", "user_id", "user_agent", "session_id")

# The beginning of Java's message for an uncaught exception.
_THROWN = re.compile(r'^Exception in thread "[^"]*" [\w.$]+: ')

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The manifest shows that a snapshot is finished; _SUCCESS files are not needed.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_ON_THIS_MACHINE = {
    # Hadoop uses this for the modes of its files, not the umask of the process.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Spark's default of 200 suits clusters; on one machine the overhead of so many dominates.
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
    """Opens a session for the block. A session that is active already is used instead, and left running."""
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
    """Tunes the session for queries over ``size`` bytes, and restores its settings afterwards."""
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
        if "PYSPARK_PYTHON" not in os.environ:
            os.environ.update(python_variables())
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
        raise SettingsError(f"--remote must be a Spark Connect URL, as in sc://host:15002, not {_shown(remote)}.")
    _check_reachable(remote)
    try:
        with warnings.catch_warnings():
            # PySpark 4.3.0 warns about pandas 3, which is not used here.
            warnings.simplefilter("ignore", FutureWarning)
            return SparkSession.builder.remote(remote).getOrCreate()
    except ImportError as error:
        raise ComponentMissing("Spark Connect needs more packages: pip install 'pyspark[connect]'.") from error
    except PySparkException as error:
        raise ComponentFailed(
            f"Spark Connect at {_shown(remote)} does not respond: {_message_of(error, remote)}"
        ) from error


def _check_reachable(remote: str) -> None:
    """Fails soon if the server cannot be reached: PySpark would retry for ten minutes. Not checked behind a proxy."""
    try:
        parts = urlsplit(remote)
        where = (parts.hostname or "", parts.port or _CONNECT_PORT)
    except ValueError:
        raise SettingsError("--remote must be a Spark Connect URL, as in sc://host:15002.") from None
    if any(name.lower() in _PROXIES for name in os.environ):
        return
    try:
        with socket.create_connection(where, _CONNECT_SECONDS):
            pass
    except OSError as error:
        raise ComponentFailed(f"Spark Connect at {_shown(remote)} does not respond: {error}.") from error


def _shown(remote: str) -> str:
    """Returns the scheme and server of a URL only, since its other parts may have a token."""
    scheme, _, rest = remote.partition("://")
    return f"{scheme}://{re.split('[/?#;]', rest)[0].rpartition('@')[2]}"


def _message_of(error: Exception, remote: str) -> str:
    message = str(error).partition("\n")[0]
    rest = remote.partition("://")[2]
    user = re.split("[/?#;]", rest)[0].rpartition("@")[0]
    asked = rest.partition(";")[2].split(";")
    given = [part.partition("=")[2] or part for part in asked if part.partition("=")[0] not in _PUBLIC_PARAMETERS]
    # A misplaced parameter may still be a token.
    misplaced = [part for part in re.split("[/?#;]", rest)[1:] if part.partition("=")[0] not in _PUBLIC_PARAMETERS]
    for secret in sorted({user, *given, *map(unquote, given), *misplaced}, key=len, reverse=True):
        if secret:
            message = message.replace(secret, "*****")
    return message


@contextmanager
def _errors_to(file: int) -> Iterator[None]:
    """Redirects standard error of the block and of processes started in it, since Java warns before it is set up."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _reason(error: Exception, said: str) -> str:
    """Returns the message of Java's exception, or the last error line if Java did not start."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage()).partition("\n")[0]
    # Without stack frames, which say where, not why.
    lines = [line for line in map(str.strip, said.splitlines()) if line and not line.startswith("at ")]
    errors = [line for line in lines if "Exception" in line or "ERROR" in line or "error" in line]
    return _THROWN.sub("", (errors or lines or str(error).splitlines() or ["it gave no reason."])[-1])
