"""Spark: 2,000,000 items of one queue to a DataFrame, what memory it takes, and what a snapshot costs those who write.

The items lie in one priority of one queue, some 260 MB in PostgreSQL in the layout of Dapr's component v2. Read by
Holdfast's data source from a snapshot; by Spark's own JDBC source with ``from_json`` (in as many partitions and into
the same columns, without a snapshot); and fetched by ADBC in two processes that do not look at them, which is the
limit. What JDBC reads is a second table with the same segments as one would write them first, a list with an object for
each item, which is what ``from_json`` is made for. In lines of their own it reads the segments as Holdfast stores them,
by a query for any of them and by one for such as these: what the reader adds to a layout that anybody reads fast.
Before anything is measured, all must have the same rows, by a sum over hashes of all columns. The memory is
that of the largest Python process of the executor. Writers are one caller each: pushes over REST to the embedded host
while its file is copied over and over, and commits to PostgreSQL while another process reads a snapshot of it, once as
it comes and once with the lower priority of ``nice``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
import psutil

from benchmarks.load import connect, request
from benchmarks.measure import Figure
from benchmarks.queue_calls import ITEM
from benchmarks.report import Compared, Row
from benchmarks.stacks import embedded
from holdfast.kinds import METADATA
from holdfast.local import LocalPostgres
from holdfast.local.binaries import cache_folder
from holdfast.pushpop.api.config import QueueConfig
from holdfast.pushpop.core.items import Pushed
from holdfast.pushpop.core.queue import Queue
from holdfast.pushpop.core.segment_codec import decode
from holdfast.spark.interpreter import python_variables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from concurrent.futures import Executor
    from multiprocessing.synchronize import Event

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.bench import Lab
    from benchmarks.stacks import Stack

#: As many as the session has cores.
PARTITIONS = 2
_DRIVER = "https://repo1.maven.org/maven2/org/postgresql/postgresql/42.7.4/postgresql-42.7.4.jar"
_DRIVER_SHA256 = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
#: What Holdfast reads, and the same with an object for each item.
_OWN, _PLAIN = "state", "plain"
_TABLE = (
    "CREATE TABLE {} (key text PRIMARY KEY, value bytea NOT NULL, etag uuid, row_id bigserial, "
    "created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz, expires_at timestamptz)"
)
_PREFIX = "bench||PushPopActor||orders||"
_WRITES = 200
#: Rounds in which the JVM still compiles what the others run.
_WARM_UP = 3
_SOME_COLUMNS = ("queue", "priority", "item", "enqueued_at")
_NICE = 10


async def run(lab: Lab) -> list[Row]:
    items = 100_000 if lab.quick else 2_000_000
    url = await lab.stacks.start(_postgresql)
    lab.tell(f"writing {items:,} items")
    rows = await asyncio.to_thread(_fill, url, items)
    reading = await asyncio.to_thread(_read, lab, url, items, rows)
    return [*reading, await _beside_copies(lab), *await asyncio.to_thread(_beside_a_snapshot, lab, url)]


def _read(lab: Lab, url: str, items: int, rows: int) -> list[Row]:
    import holdfast.spark

    spark = _session(lab)
    with (
        holdfast.spark.snapshot(spark, url, partitions=PARTITIONS) as snapshot,
        _Memory() as memory,
        ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool,
    ):
        _counted(snapshot.locks())
        idle = memory.largest()
        reads: dict[str, Callable[[], int]] = {
            "holdfast": lambda: _counted(snapshot.items()),
            "jdbc": lambda: _counted(_by_jdbc(spark, url, rows)),
            "jdbc, own layout": lambda: _counted(_by_jdbc(spark, url, rows, _OWN)),
            "jdbc, these only": lambda: _counted(_by_jdbc(spark, url, rows, _OWN, only_these=True)),
            "holdfast, some columns": lambda: _counted(snapshot.items(columns=_SOME_COLUMNS)),
            "jdbc, some columns": lambda: _counted(_by_jdbc(spark, url, rows).select(*_SOME_COLUMNS)),
            "adbc": lambda: _by_adbc(pool, url, rows),
        }
        by_jdbc = (_by_jdbc(spark, url, rows, _OWN, only_these=only_these) for only_these in (False, True))
        frames = (snapshot.items(), _by_jdbc(spark, url, rows), *by_jdbc)
        assert len(set(map(_summed, frames))) == 1, "they do not have the same rows"
        taken: dict[str, list[float]] = {name: [] for name in reads}
        rounds = 2 * lab.pace.rounds  # one takes a second, in which a machine may do something else
        for number in range(1 - _WARM_UP, rounds + 1):
            for name, read in reads.items():
                lab.tell(f"{name}: round {number} of {rounds}")
                began = time.perf_counter()
                found = read()
                if number > 0:
                    taken[name].append(items / (time.perf_counter() - began))
                assert found == (rows if name == "adbc" else items), f"{name} has {found}"
        peak = memory.peak
    spark.stop()
    ours = Figure("holdfast", "/s", tuple(taken["holdfast"]))
    return [
        Row(
            f"{items:,} items to a DataFrame",
            ours,
            Figure("Spark JDBC", "/s", tuple(taken["jdbc"])),
            floor=1.5,
            goal=2.0,
        ),
        Row(
            f"{items:,} items, against JDBC over Holdfast's own segments",
            ours,
            Figure("Spark JDBC", "/s", tuple(taken["jdbc, own layout"])),
        ),
        Row(
            f"{items:,} items, the same, by a query for these segments only",
            ours,
            Figure("Spark JDBC", "/s", tuple(taken["jdbc, these only"])),
        ),
        Row(
            f"{items:,} items, {len(_SOME_COLUMNS)} columns of them",
            Figure("holdfast", "/s", tuple(taken["holdfast, some columns"])),
            Figure("Spark JDBC", "/s", tuple(taken["jdbc, some columns"])),
        ),
        Row(f"{items:,} items, against the limit", ours, Figure("ADBC alone", "/s", tuple(taken["adbc"]))),
        Row(
            "memory of a task, one list of all items",
            Figure("at most", " MB", (peak,)),
            Figure("before", " MB", (idle,)),
            Compared.AS_GROWTH,
        ),
    ]


def _counted(frame: DataFrame) -> int:
    """All columns of all rows are made, and thrown away."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    rows = Observation()
    frame.observe(rows, f.count(f.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    counted: int = rows.get["rows"]
    return counted


def _summed(frame: DataFrame) -> int:
    """The same for the same rows, in whatever order."""
    from pyspark.sql import functions as f

    [row] = frame.select(f.sum(f.xxhash64(*frame.columns).cast("decimal(38,0)")).alias("sum")).collect()
    return int(row["sum"])


def _by_jdbc(spark: SparkSession, url: str, rows: int, table: str = _PLAIN, *, only_these: bool = False) -> DataFrame:
    """With ``only_these`` it counts on all items of a segment having been pushed together, with nothing more known."""
    from pyspark.sql import functions as f

    parts = urlsplit(url)
    read = spark.read.format("jdbc").options(
        url=f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        driver="org.postgresql.Driver",
        user=parts.username or "",
        password=parts.password or "",
        dbtable=f"(SELECT row_id, key, convert_from(value, 'UTF8') AS value FROM {table} "
        "WHERE key LIKE '%||segment-%') s",
        partitionColumn="row_id",
        lowerBound="1",
        upperBound=str(rows),
        numPartitions=str(PARTITIONS),
        fetchsize="100",
    )
    parts_of_key, numbers = f.split("key", r"\|\|"), f.split(f.split("key", r"\|\|")[3], "-")
    entry = "struct<item: string, at: double, key: string, dedup: string, until: double, due: double>"
    stored = f"items array<{entry}>" if table == _PLAIN else f"lines string, at string, more map<string, {entry}>"
    if only_these:
        stored = "lines string, at double"
    segments = read.load().select(
        parts_of_key[0].alias("app_id"),
        parts_of_key[2].alias("queue"),
        numbers[1].cast("long").alias("priority"),
        numbers[2].alias("segment"),
        f.from_json("value", stored).alias("value"),
    )
    if table == _PLAIN:
        items = segments.select("*", f.posexplode("value.items").alias("ordinal", "entry"))
        item, at = f.col("entry.item"), f.col("entry.at")
    elif only_these:
        nothing = f.lit(None).cast(entry).alias("entry")
        items = segments.select("*", nothing, f.posexplode(f.split("value.lines", "\n")).alias("ordinal", "line"))
        item, at = f.col("line"), f.col("value.at")
    else:
        # One time or a list of them; more of those of which more is known, all of it where there is no time.
        items = (
            segments.select("*", f.expr("try_cast(value.at AS double)").alias("once"))
            .select("*", f.from_json("value.at", "array<double>").alias("times"))
            .select("*", f.posexplode(f.split("value.lines", "\n")).alias("ordinal", "line"))
            .select("*", f.coalesce("once", f.get("times", f.col("ordinal"))).alias("at"))
            .select("*", f.expr("value.more[cast(ordinal AS string)]").alias("entry"))
            .where("at IS NOT NULL OR entry.item IS NOT NULL")
        )
        item, at = (
            f.when(f.col("at").isNull(), f.col("entry.item")).otherwise(f.col("line")),
            f.coalesce("at", "entry.at"),
        )
    due, until, dedup, key = (f.col(f"entry.{name}") for name in ("due", "until", "dedup", "key"))
    return items.select(
        "app_id",
        f.lit("default").alias("tenant"),
        "queue",
        f.lit(0).alias("partition"),
        f.concat(f.lit("0-"), "priority", f.lit("-"), "segment", f.lit("-"), "ordinal").alias("id"),
        "priority",
        f.lit("waiting").alias("state"),
        item.alias("item"),
        f.timestamp_micros((at * 1_000_000).cast("long")).alias("enqueued_at"),
        f.timestamp_micros((due * 1_000_000).cast("long")).alias("due_at"),
        f.timestamp_micros((until * 1_000_000).cast("long")).alias("expires_at"),
        f.lit(0).cast("long").alias("delivery_count"),
        dedup.alias("dedup_id"),
        key.alias("idempotency_key"),
        f.lit(None).cast("string").alias("last_error"),
    )


def _by_adbc(pool: Executor, url: str, rows: int) -> int:
    middle = rows // 2
    return sum(pool.map(_fetch, [url, url], [0, middle], [middle, rows + 1]))


def _fetch(url: str, first: int, end: int) -> int:
    import adbc_driver_postgresql.dbapi as adbc

    with adbc.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT key, value FROM state WHERE row_id > {first} AND row_id <= {end} AND key LIKE '%segment-%'"
        )
        fetched: int = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        return fetched


async def _beside_copies(lab: Lab) -> Row:
    """Pushes to the embedded host, with and without a process that copies its file."""
    stack, folder = await lab.stacks.start(_embedded)
    [file] = folder.glob("data/*.db")
    many = orjson.dumps({"items": [{"item": ITEM}] * 1000})
    push = request(stack, "POST", "/queue/written/push", orjson.dumps({"item": ITEM}))
    async with connect(stack, 1) as [connection]:
        for _ in range(20 if lab.quick else 200):
            await connection.send(request(stack, "POST", "/queue/filled/push", many))
        samples: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(lab.pace.rounds):
            for copied in samples:
                with _beside(_copy, str(file)) if copied else contextlib.nullcontext():
                    taken = []
                    for _ in range(_WRITES):
                        began = time.perf_counter()
                        await connection.send(push)
                        taken.append(time.perf_counter() - began)
                samples[copied].append(statistics.median(taken) * 1000)
    return _slowdown("push to the embedded host while its file is copied, p50", samples)


def _beside_a_snapshot(lab: Lab, url: str) -> list[Row]:
    import psycopg

    readers = {"": _read_tables, f" by a process with nice {_NICE}": _read_tables_nicely}
    samples: dict[str | None, list[float]] = {None: []} | {name: [] for name in readers}
    with psycopg.connect(url) as connection:
        for _ in range(lab.pace.rounds):
            for name in samples:
                with contextlib.nullcontext() if name is None else _beside(readers[name], url):
                    taken = []
                    for number in range(_WRITES):
                        began = time.perf_counter()
                        connection.execute(
                            "INSERT INTO state (key, value) VALUES (%s, %s) "
                            "ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value",
                            (f"bench||written||{number}", b"{}"),
                        )
                        connection.commit()
                        taken.append(time.perf_counter() - began)
                samples[name].append(statistics.median(taken) * 1000)
    return [
        _slowdown(f"commit to PostgreSQL while a snapshot is read{name}, p50", {True: beside, False: samples[None]})
        for name, beside in samples.items()
        if name is not None
    ]


def _slowdown(work: str, samples: dict[bool, list[float]]) -> Row:
    beside, alone = Figure("with", " ms", tuple(samples[True])), Figure("without", " ms", tuple(samples[False]))
    return Row(work, beside, alone, Compared.AS_LATENCY, floor=1.2, goal=1.05)


@contextlib.contextmanager
def _beside(work: Callable[[str, Event, Event], None], what: str) -> Iterator[None]:
    """Inside, another process does it over and over."""
    context = multiprocessing.get_context("spawn")
    over, begun = context.Event(), context.Event()
    process = context.Process(target=work, args=(what, over, begun))
    process.start()
    try:
        if not begun.wait(60):
            raise TimeoutError("Nothing was read within a minute.")
        yield
    finally:
        over.set()
        process.join()


def _read_tables(url: str, over: Event, begun: Event) -> None:
    """All items of a snapshot that is held, as a task of Spark would."""
    from holdfast.spark import HoldfastSource
    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.postgresql import export

    while not over.is_set():
        with export(Options.read({"url": url})) as held:
            source = HoldfastSource({"url": url, "table": "items", "snapshot": held.name})
            reader = source.reader(source.schema())
            for partition in reader.partitions():
                for _ in reader.read(partition):
                    begun.set()
                    if over.is_set():
                        return


def _read_tables_nicely(url: str, over: Event, begun: Event) -> None:
    os.nice(_NICE)
    _read_tables(url, over, begun)


def _copy(file: str, over: Event, begun: Event) -> None:
    from holdfast.state_store.sqlite_copy import copy

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        while not over.is_set():
            copy(file, Path(folder) / "copy.db")
            begun.set()


class _Memory:
    """Watches the Python processes that Spark has started."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def largest(self) -> float:
        sizes = [0.0]
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any("pyspark" in part for part in process.cmdline()) and "python" in process.name():
                    sizes.append(process.memory_info().rss / 2**20)
        return max(sizes)

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self.peak = max(self.peak, self.largest())


def _session(lab: Lab) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.update(python_variables())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": str(_driver(lab)),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{PARTITIONS}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _driver(lab: Lab) -> Path:
    """PostgreSQL's JDBC driver, which no wheel brings."""
    jar = cache_folder().parents[1] / "jars" / _DRIVER.rpartition("/")[2]
    if not jar.exists():
        lab.tell("getting PostgreSQL's JDBC driver")
        with urllib.request.urlopen(_DRIVER, timeout=60) as response:
            content = response.read()
        if hashlib.sha256(content).hexdigest() != _DRIVER_SHA256:
            raise OSError(f"{_DRIVER} is not what it should be.")
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(content)
    return jar


@asynccontextmanager
async def _postgresql(folder: Path) -> AsyncIterator[str]:
    async with LocalPostgres(folder / "postgresql") as postgres:
        yield await postgres.create_database("bench")


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[tuple[Stack, Path]]:
    async with embedded(folder) as stack:
        yield stack, folder


def _fill(url: str, items: int) -> int:
    """Writes a queue as its actor would have, and answers how many rows it has."""
    import psycopg

    count = 0
    with psycopg.connect(url) as own, psycopg.connect(url) as plain:
        own.execute(_TABLE.format(_OWN))
        plain.execute(_TABLE.format(_PLAIN))
        with (
            own.cursor().copy(f"COPY {_OWN} (key, value) FROM STDIN") as rows,
            plain.cursor().copy(f"COPY {_PLAIN} (key, value) FROM STDIN") as peers,
        ):
            for key, value in _stored(items):
                rows.write_row((f"{_PREFIX}{key}", orjson.dumps(value)))
                if key.startswith("segment-"):
                    peers.write_row((f"{_PREFIX}{key}", orjson.dumps({"items": decode(value)})))
                    count += 1
        for connection, table in ((own, _OWN), (plain, _PLAIN)):
            connection.commit()
            connection.execute(f"ANALYZE {table}")
    return count


def _stored(items: int) -> Iterator[tuple[str, Any]]:
    queue = Queue("orders", QueueConfig())
    last: dict[str, Any] = {}
    for start in range(0, items, 1000):
        pushed = [Pushed(0, orjson.dumps(ITEM | {"number": number}).decode()) for number in range(start, start + 1000)]
        steps = queue.push(1_700_000_000.0 + start / 1000, pushed)
        with contextlib.suppress(StopIteration):
            keys = next(steps)
            while True:
                keys = steps.send([last.get(key) for key in keys])
        changed = queue.changes()
        metadata = changed.pop(METADATA)
        for key in last.keys() - changed.keys():
            yield key, last[key]
        # The last one may be filled further.
        *full, tail = sorted(changed, key=lambda key: int(key.rpartition("-")[2]))
        for key in full:
            yield key, changed[key]
        last = {tail: changed[tail]}
    yield from last.items()
    yield METADATA, metadata
