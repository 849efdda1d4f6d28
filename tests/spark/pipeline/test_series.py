"""A folder with snapshots: of several things, some of which cannot be read, and wherever it lies."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from examples import questions
from holdfast.errors import SettingsError
from holdfast.spark.pipeline.manifest import FILE, Manifest, Subject
from holdfast.spark.pipeline.pipeline import take
from holdfast.spark.pipeline.series import earlier_one, folder_of, series
from holdfast.spark.session import suited_to
from tests.spark.pipeline.conftest import copy_of, run
from tests.spark.pipeline.sample_tables import AS_OF, SampleTables, ago, opened, small_shop, started

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from holdfast.spark.pipeline.series import StoredSnapshot
    from tests.spark.pipeline.conftest import Moments

URL = "postgresql://ann:s3cret@one:5432,[::1]:5433/shop?sslpassword=s3cret"
SHOWN = "postgresql://ann@one:5432,[::1]:5433/shop"
UNREADABLE = {
    "not JSON": "{",
    "not an object": "[]",
    "from elsewhere": '{"version": 1}',
    "of a later version": '{"version": 2, "whatever": true}',
    "without a time zone": json.dumps(
        Manifest(AS_OF, "0", URL, None, None, 1.0, {}, {}, [], [], []).to_json() | {"as_of": "2026-03-14T15:00:00"}
    ),
}


@dataclass(frozen=True)
class Three:
    """A shop, a tenant of it alone, and later the shop again, where all is done and another tenant has come."""

    root: Path
    shop: StoredSnapshot
    tenant: StoredSnapshot
    later: StoredSnapshot
    warnings: list[str]
    report: str


@pytest.fixture(scope="module")
def three(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Three:
    root = tmp_path_factory.mktemp("series")
    for number, text in enumerate(UNREADABLE.values()):
        folder = folder_of(root, ago(9000 - number))
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(text)
    later = SampleTables()
    later.instance("order-9", "order", [started("order")], tenant="new")
    usual: dict[str, Any] = {"against": "latest", "with_report": False}
    warnings: list[str] = []
    shop = take(spark, opened(spark, small_shop(), ago(7200)), URL, root, **usual, warn=warnings.append)
    tenant = take(spark, opened(spark, SampleTables(), ago(3600)), URL, root, **usual, tenant="acme")
    last = take(spark, opened(spark, later), URL.replace(":s3cret", ":changed"), root, against="latest")
    assert last.report is not None
    return Three(root, shop.kept, tenant.kept, last.kept, warnings, last.report.read_text("utf-8"))


def answer(spark: SparkSession, place: Path, question: str) -> list[dict[str, Any]]:
    with suited_to(spark, 0), questions.opened(spark, str(place)) as tables:
        found: list[dict[str, Any]] = questions.QUESTIONS[question](tables).toArrow().to_pylist()
    return found


def test_what_cannot_be_read_is_passed_over(spark: SparkSession, three: Three) -> None:
    assert len(three.warnings) == len(UNREADABLE)
    assert all(warning.startswith(f"Skipped: {three.root}") for warning in three.warnings)
    assert [kept.folder for kept in series(spark, three.root).snapshots] == [
        kept.folder for kept in (three.shop, three.tenant, three.later)
    ]


def test_one_that_is_named_must_be_readable(three: Three) -> None:
    for number in range(len(UNREADABLE)):
        folder = folder_of(three.root, ago(9000 - number))
        with pytest.raises(SettingsError, match=re.escape(str(folder))):
            earlier_one(three.root, str(folder), [], three.shop.manifest.subject, pytest.fail)


def test_nothing_that_is_kept_has_a_secret(three: Three) -> None:
    texts = [(kept.folder / FILE).read_text("utf-8") for kept in (three.shop, three.tenant, three.later)]
    for text in (*texts, three.report):
        assert SHOWN in text
        assert "s3cret" not in text
        assert "changed@" not in text


def test_the_latest_is_of_the_same(three: Three) -> None:
    assert three.shop.manifest.against is None
    assert three.tenant.manifest.against is None
    assert three.later.manifest.against == {
        "as_of": three.shop.manifest.as_of.isoformat(),
        "folder": three.shop.folder.relative_to(three.root).as_posix(),
    }
    assert "over the last 2 snapshots" in three.report


def test_a_named_one_of_something_else_is_compared_with_a_warning(three: Three) -> None:
    warnings: list[str] = []
    inside = three.tenant.folder.relative_to(three.root).as_posix()
    assert earlier_one(three.root, inside, [], three.shop.manifest.subject, warnings.append) == three.tenant
    [warning] = warnings
    assert f"{SHOWN}, tenant acme" in warning


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///a/b%20c.db", "sqlite:////a/b c.db"),
        ("postgres://ann@db/shop", "postgresql://ann@db/shop"),
    ],
)
def test_a_database_is_known_however_it_is_written(one: str, other: str) -> None:
    assert Subject.of(one, None, None) == Subject.of(other, None, None) != Subject.of(other, None, "acme")


def test_another_table_of_a_database_is_something_else() -> None:
    one, other = (Subject.of("postgresql://db/shop", None, None, table) for table in ("state", "eu_state"))
    assert one != other
    assert [str(one), str(other)] == ["postgresql://db/shop", "postgresql://db/shop, table eu_state"]


def test_what_is_done_is_not_stuck(spark: SparkSession, three: Three) -> None:
    [told] = answer(spark, three.root, "What is stuck?")
    assert (told["tenant"], told["where"]) == ("new", "orchestration order")


def test_who_had_nothing_before_has_grown(spark: SparkSession, three: Three) -> None:
    before = small_shop().rows
    items, instances = len(before["items"]), len(before["instances"])
    numbers = ("tenant", "items_first", "items_last", "instances_first", "instances_last", "grown")
    assert [tuple(row[name] for name in numbers) for row in answer(spark, three.root, "Which tenant grows?")] == [
        ("new", 0, 0, 0, 1, 1),
        ("default", items, 0, instances, 0, -items - instances),
    ]


def test_what_is_awaited_has_not_taken_any_time(spark: SparkSession) -> None:
    kept, now = small_shop().tables(spark), questions.at(AS_OF)
    tables = questions.Tables(spark, lambda name: kept[name].withColumn("as_of", now), [AS_OF])
    with suited_to(spark, 0):
        [told] = questions.how_long_approvals_take(tables).toArrow().to_pylist()
    assert (told["came"], told["awaited"], told["p50"], told["p99"]) == (1, 1, 1.0, 1.0)


def test_wherever_it_lies(
    spark: SparkSession, moments: Moments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "50% [a-c]{d,e}*?%20 f"
    (place / "holdfast-data").mkdir(parents=True)
    copy_of(moments.earlier, place / "holdfast-data" / "holdfast.db")
    monkeypatch.chdir(place)
    done = run("--json", "--no-report")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert Subject.of(told["url"], None, None).database == f"sqlite://{place}/holdfast-data/holdfast.db"
    found = series(spark, place / "holdfast-snapshots")
    assert found.items().count() == told["tables"]["items"]["rows"] > 0
    [kept] = found.snapshots
    assert found.items().select("as_of").distinct().toArrow().to_pylist() == [{"as_of": kept.moment}]
    assert timedelta(0) <= kept.manifest.as_of - kept.moment < timedelta(milliseconds=1)
