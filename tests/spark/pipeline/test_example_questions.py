"""The five questions of the example have answers, over a database and over a series."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from examples import questions
from holdfast.spark.session import suited_to
from tests.spark.pipeline.conftest import url_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.pipeline.conftest import Kept, Moments


def answer(spark: SparkSession, place: str, question: str) -> list[dict[str, Any]]:
    with suited_to(spark, 0), questions.opened(spark, place) as tables:
        found: list[dict[str, Any]] = questions.QUESTIONS[question](tables).toArrow().to_pylist()
    return found


def test_its_help_is_help() -> None:
    done = subprocess.run(
        [sys.executable, questions.__file__, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "python -m examples.questions ./holdfast-snapshots" in done.stdout


def test_what_is_stuck(spark: SparkSession, kept: Kept) -> None:
    told = {row["where"]: row for row in answer(spark, str(kept.folder), "What is stuck?")}
    assert told["queue search-index"]["waiting"] > 0
    assert told["orchestration order"]["says"] == '"waits for approval"'
    assert told["orchestration order"]["waiting"] == kept.later["totals"]["running"]


def test_who_retries_most(spark: SparkSession, moments: Moments) -> None:
    first, *_ = answer(spark, url_of(moments.later), "Who retries most?")
    # Two imports each asked three times for the page that is not there.
    assert first == {"name": "download", "calls": 16, "repeated": 4, "failed": 6, "most_attempts": 3}


def test_how_long_approvals_take(spark: SparkSession, kept: Kept) -> None:
    [told] = answer(spark, str(kept.folder), "How long do approvals take?")
    assert (told["name"], told["came"]) == ("approved", 1)
    assert told["awaited"] == kept.later["totals"]["running"] > 0
    assert 0 <= told["p50"] <= told["p95"] <= told["p99"]


def test_which_tenant_grows(spark: SparkSession, kept: Kept) -> None:
    [told] = answer(spark, str(kept.folder), "Which tenant grows?")
    assert told["items_first"] == kept.earlier["tables"]["items"]["rows"]
    assert told["items_last"] == kept.later["tables"]["items"]["rows"]
    assert told["instances_last"] - told["instances_first"] == kept.later["changes"]["all_instances"]["new"]


@pytest.mark.parametrize("what", ["database", "series"])
def test_what_was_lost_when(spark: SparkSession, kept: Kept, moments: Moments, what: str) -> None:
    place = url_of(moments.later) if what == "database" else str(kept.folder)
    told = answer(spark, place, "What was lost when?")
    lost = sum(row["lost"] for row in told if row["what"].startswith("item of "))
    assert lost == kept.later["totals"]["dead_letters"]
    assert sum(row["lost"] for row in told if row["what"] == "orchestration import_catalogue") == 2
