"""Snapshots of which something is missing: passed over in a series, refused when they are named."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.cli.main import cli
from holdfast.errors import SettingsError
from holdfast.spark.pipeline.manifest import FILE, Extent, Manifest
from holdfast.spark.pipeline.pipeline import Taken
from holdfast.spark.pipeline.series import LATEST, StoredSnapshot, earlier_one, folder_of, kept_in
from holdfast.spark.report.overview import audited
from holdfast.spark.source.schemas import SCHEMAS
from tests.spark.pipeline.sample_tables import ago
from tests.spark.state_writer import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path


def keep(root: Path, as_of: datetime) -> StoredSnapshot:
    """A snapshot of nothing, as Spark would have written it."""
    folder = folder_of(root, as_of)
    extents = {}
    for name, schema in SCHEMAS.items():
        (folder / name).mkdir(parents=True)
        file = folder / name / "part-0.parquet"
        pyarrow.parquet.write_table(to_arrow_schema(schema, timezone="UTC").empty_table(), file)
        extents[name] = Extent(rows=0, bytes=file.stat().st_size, files=1)
    manifest = Manifest(as_of, "0", "sqlite:///a.db", None, None, 1.0, extents, {}, [], [], [])
    manifest.write(folder)
    return StoredSnapshot(folder, manifest)


def no_items(folder: Path) -> str:
    shutil.rmtree(folder / "items")
    return "is damaged: it has no items."


def no_tables(folder: Path) -> str:
    for name in SCHEMAS:
        shutil.rmtree(folder / name)
    return "is damaged: it has no queues."


def a_file_less(folder: Path) -> str:
    (folder / "history" / "part-0.parquet").unlink()
    return "is damaged: history should have 1 files of "


def cut_short(folder: Path) -> str:
    file = folder / "queues" / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    return "is damaged: queues should have 1 files of "


def nothing_told(folder: Path) -> str:
    _rewrite(folder, tables={})
    return "is damaged: its manifest lacks queues, items, locks, "


def one_not_told(folder: Path) -> str:
    told = json.loads((folder / FILE).read_text())["tables"]
    del told["dead_letters"]
    _rewrite(folder, tables=told)
    return "is damaged: its manifest lacks dead_letters."


def _rewrite(folder: Path, **changes: Any) -> None:
    (folder / FILE).write_text(json.dumps(json.loads((folder / FILE).read_text()) | changes))


@pytest.mark.parametrize("damage", [no_items, no_tables, a_file_less, cut_short, nothing_told, one_not_told])
def test_the_latest_is_the_latest_that_is_whole(tmp_path: Path, damage: Callable[[Path], str]) -> None:
    whole, damaged = keep(tmp_path, ago(60)), keep(tmp_path, ago(30))
    subject = whole.manifest.subject
    assert kept_in(tmp_path, pytest.fail) == [whole, damaged]
    sentence = f"The snapshot {damaged.folder} {damage(damaged.folder)}"
    warnings: list[str] = []
    assert earlier_one(tmp_path, LATEST, kept_in(tmp_path, warnings.append), subject, pytest.fail) == whole
    [warning] = warnings
    assert warning.startswith(f"Skipped: {sentence}")
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        earlier_one(tmp_path, str(damaged.folder), [], subject, pytest.fail)


def test_rows_of_no_actor_are_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = keep(tmp_path / "series", ago(60))
    foreign = {"actor_type": None, "problem": "foreign", "count": 2, "example": None, "detail": "It is not Holdfast's."}
    manifest = replace(kept.manifest, totals=Counter(), problems=[foreign])
    assert "<td>no actor</td>" in audited([], manifest)
    monkeypatch.setattr("holdfast.spark.session.spark_session", lambda **where: nullcontext())
    monkeypatch.setattr(
        "holdfast.spark.pipeline.pipeline.take",
        lambda *of, **how: Taken(StoredSnapshot(kept.folder, manifest), None, None),
    )
    write(tmp_path / "state.db", {})
    cli.main(
        ["snapshot", "--url", f"sqlite://{tmp_path}/state.db", "--to", str(tmp_path / "series")], standalone_mode=False
    )
    assert capsys.readouterr().err == "Skipped: 2 of no actor: foreign\n"


@pytest.mark.parametrize("text", ["[]", "{}", '{"version": "1"}', '{"version": true}', '{"version": null}'])
def test_what_is_no_manifest_is_told_as_such(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SettingsError, match="is not the manifest of a snapshot: it has no version number"):
        StoredSnapshot.read(tmp_path)
