"""``holdfast snapshot`` where there is no Spark, or nothing to read."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from holdfast.cli.options import from_settings_file
from holdfast.errors import HoldfastError

_WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from holdfast.cli.main import main
sys.argv = ["holdfast", "snapshot", "--url", "sqlite:///a.db"]
main()
"""


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SPARK], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "holdfast: Spark is an extra of Holdfast: pip install 'holdfast[spark]'.\n"


def test_the_command_line_does_without_spark_until_it_is_needed() -> None:
    code = "import sys, holdfast.cli.snapshot; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_where_spark_does_not_start_it_says_why(tmp_path: Path) -> None:
    make_store(tmp_path / "state.db")
    command = [str(Path(sys.executable).with_name("holdfast")), "snapshot", "--url", f"sqlite://{tmp_path}/state.db"]
    done = subprocess.run(
        [*command, "--master", "foo"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "holdfast: Spark did not start on foo: Master must either be yarn or start with spark, k8s, or local\n"
    )


def make_store(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE state (key, value, is_binary, etag, expiration_time, update_time)")


@pytest.fixture
def without_starting_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.spark.session.spark_session", lambda **options: pytest.fail("Spark is started"))


@pytest.mark.usefixtures("without_starting_spark")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "https://ann:s3cret@holdfast.example.com"], "is the URL of a server"),
        (["--url", "mysql://ann:s3cret@db/shop"], "must be sqlite:///path/of/the/file or postgresql://"),
        (["--url", "s3cret"], "must be sqlite:///path/of/the/file or postgresql://"),
        (["--url", "sqlite:///a.db", "--table-name", "a", "--table-prefix", "b"], "give one of them"),
        (["--url", "sqlite:///"], "has no path"),
        ([], "name the database with --url"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["snapshot", *arguments], env={"HOLDFAST_STORE_URL": ""})
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr.splitlines()[-1]
    assert "s3cret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_starting_spark")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "sqlite:///nowhere/a.db"], "There is no file /nowhere/a.db"),
        (["--url", "sqlite://{folder}/text"], "cannot be read: file is not a database"),
        (["--url", "sqlite://{folder}/state.db", "--table-name", "other"], 'has no table "other"'),
        (["--url", "postgresql://127.0.0.1:1/shop"], "PostgreSQL refused"),
        (["--url", "sqlite://{folder}/state.db", "--against", "{folder}"], "not a finished snapshot"),
        (["--url", "sqlite://{folder}/state.db", "--to", "/proc/none"], "Cannot write to /proc/none"),
        (["--url", "sqlite://{folder}/state.db", "--to", "{folder}/text/in"], "Cannot write to"),
    ],
)
def test_what_cannot_work_is_told_before_spark_starts(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database, however long one looks at it")
    make_store(tmp_path / "state.db")
    series = ["--to", str(tmp_path / "series")]
    with pytest.raises(HoldfastError, match=sentence):
        cli.main(
            ["snapshot", *series, *(argument.format(folder=tmp_path) for argument in arguments)], standalone_mode=False
        )
    assert not (tmp_path / "series").exists()


def test_the_servers_url_is_not_the_stores(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('url = "http://127.0.0.1:9"\nstore-url = "sqlite:///a.db"\nsnapshots = "kept"\n')
    defaults = from_settings_file(click.Context(cli), file)
    assert defaults["snapshot"] == {"url": "sqlite:///a.db", "to": "kept"}
    assert defaults["queue"]["list"]["url"] == "http://127.0.0.1:9"
