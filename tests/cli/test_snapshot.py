"""``holdfast snapshot`` where there is no Spark, or nothing to read."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from holdfast.cli.main import cli
from holdfast.cli.options import from_settings_file
from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "http://127.0.0.1:8080"], "is a server"),
        ([], "Which database?"),
    ],
)
def test_wrong_settings_are_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE_URL", raising=False)
    with pytest.raises(SettingsError, match=sentence):
        cli.main(["snapshot", *arguments], standalone_mode=False)


def test_the_servers_url_is_not_the_stores(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('url = "http://127.0.0.1:9"\nstore-url = "sqlite:///a.db"\nsnapshots = "kept"\n')
    defaults = from_settings_file(click.Context(cli), file)
    assert defaults["snapshot"] == {"url": "sqlite:///a.db", "to": "kept"}
    assert defaults["queue"]["list"]["url"] == "http://127.0.0.1:9"


def test_a_refusal_does_not_repeat_a_password() -> None:
    with pytest.raises(SettingsError) as refused:
        cli.main(["snapshot", "--url", "https://ann:s3cret@holdfast.example.com"], standalone_mode=False)
    assert "s3cret" not in str(refused.value)
