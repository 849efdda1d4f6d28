"""Wrong options are refused in one sentence, and a password is seen nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock
from urllib.parse import urlsplit

import pytest

import holdfast.spark
from holdfast.errors import InvalidRequest, Unavailable
from holdfast.runtime.embedded.host import EmbeddedHost
from holdfast.spark.source.options import Options
from holdfast.spark.stores.base import Range
from holdfast.spark.stores.open import open_store
from tests.spark.state_writer import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

URL = "sqlite:///tmp/x.db"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "The option 'url' is missing"),
        ({"url": "mysql://x"}, "must be sqlite:///path/of/the/file or postgresql://"),
        ({"url": URL, "table": "cats"}, "The tables are queues, items, locks, dead_letters, instances, history"),
        ({"url": URL, "colour": "red"}, "no option 'colour'. The options are actor_type, app_id, as_of"),
        ({"url": URL, "partitions": "many"}, "'partitions' must be a whole number from 1"),
        ({"url": URL, "partitions": "0"}, "'partitions' must be a whole number from 1"),
        ({"url": URL, "as_of": "yesterday"}, "'as_of' must be an ISO 8601 time"),
        ({"url": URL, "table_name": "a", "table_prefix": "b"}, "give one of them"),
        ({"url": URL, "packed": "false"}, "'packed' is for snapshots"),
        ({"url": URL, "table": "queues", "packed": "true"}, "'packed' is for snapshots"),
        ({"url": URL, "starting": "tomorrow"}, "'earliest' or 'latest'"),
        ({"url": URL, "instance": "f1"}, "'instance' does not apply to the table 'items', only to instances, history"),
        ({"url": URL, "table": "instances", "queue": "zz"}, "'queue' does not apply to the table 'instances'"),
        ({"url": URL, "table": "idempotency", "queue": "zz"}, "'queue' does not apply to the table 'idempotency'"),
        ({"url": URL, "table": "problems", "instance": "f1"}, "'instance' does not apply to the table 'problems'"),
    ],
)
def test_wrong_ones_are_refused_in_a_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence) as refused:
        Options.read(options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("url", ["sqlite:///data/x.db", "sqlite:////data/x.db"])
def test_a_path_may_have_three_slashes_or_four(url: str) -> None:
    assert Options.read({"url": url}).sqlite_path == "/data/x.db"


@pytest.mark.parametrize("folder", ["what?", "100%", "50%25", "a b#c", "ü"])
def test_any_folder_will_do(tmp_path: Path, folder: str) -> None:
    """A host says where its file is, and a snapshot where its copy is, so that it is found there."""
    data, copies = tmp_path / folder, tmp_path / f"copies {folder}"
    for path in (data, copies):
        path.mkdir()
    url = EmbeddedHost(data).url
    file = Path(Options.read({"url": url}).sqlite_path)
    assert file.parent == data
    write(file, {"shop||settings": "{}"})
    asked = MagicMock()
    asked.sparkContext.defaultParallelism = 2
    with holdfast.spark.snapshot(asked, url, directory=copies) as taken:
        taken.items()
        options = asked.read.format.return_value.options.call_args.kwargs
        with open_store(Options.read(options)) as store:
            assert list(store.keys(Range())) == ["shop||settings"]


def test_a_folder_that_nothing_can_be_copied_to(tmp_path: Path) -> None:
    write(tmp_path / "state.db", {"shop||settings": "{}"})
    with (
        pytest.raises(Unavailable, match="Cannot copy the database to /proc/x: "),
        holdfast.spark.snapshot(MagicMock(), f"sqlite://{tmp_path}/state.db", directory="/proc/x"),
    ):
        pass


def test_sparks_users_see_the_sentence(spark: SparkSession, tmp_path: Path) -> None:
    def load(**options: str) -> Any:
        return spark.read.format("holdfast").options(**({"url": f"sqlite://{tmp_path}/none.db"} | options))

    with pytest.raises(Exception, match="There is no table 'cats'"):
        load(table="cats").load()
    with pytest.raises(Exception, match="There is no file"):
        load(table="items").load().count()
    with pytest.raises(Exception, match="or some of these columns"):
        load(table="items").schema("colour string").load().count()
    with pytest.raises(Exception, match="Only the table 'history'"):
        spark.readStream.format("holdfast").options(url=URL, table="items").load().writeStream.format(
            "memory"
        ).queryName("never").start().awaitTermination()


@pytest.mark.parametrize("stack", ["daprd-postgresql"], indirect=True)
def test_a_password_is_seen_nowhere(spark: SparkSession, stack: Any, capfd: pytest.CaptureFixture[str]) -> None:
    url = stack.url
    secret, port = urlsplit(url).password, urlsplit(url).port
    assert secret
    frame = spark.read.format("holdfast").options(url=url, table="queues").load()
    plans = [frame._jdf.queryExecution().toString(), frame._jdf.queryExecution().logical().toJSON()]
    frame.explain(mode="extended")
    frame.explain(mode="formatted")
    assert frame.count() >= 0
    with holdfast.spark.snapshot(spark, url) as snapshot:
        taken = snapshot.items()
        taken.explain(mode="extended")
        plans += [taken._jdf.queryExecution().toString(), repr(taken), repr(snapshot), repr(Options.read({"url": url}))]
    with pytest.raises(Exception, match="The snapshot no longer exists") as gone:
        taken.count()
    wrong = spark.read.format("holdfast").options(url=url.replace(f":{port}/", ":1/"), table="queues").load()
    with pytest.raises(Exception, match="PostgreSQL refused") as refused:
        wrong.count()
    written = capfd.readouterr()
    for text in (*plans, written.out, written.err, str(gone.value), str(refused.value)):
        assert secret not in text


def test_only_some_columns_can_be_asked_for(spark: SparkSession, stack: Any) -> None:
    reader = spark.read.format("holdfast").options(url=stack.url, table="queues")
    assert reader.schema("waiting long, queue string").load().toArrow().column_names == ["waiting", "queue"]
