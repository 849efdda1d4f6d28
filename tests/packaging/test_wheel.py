"""The wheel and the source distribution, as they are built for a release."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from typing import TYPE_CHECKING

import pytest

from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "actors"
VENDOR = PACKAGE / "holdfast" / "gateway" / "ui" / "vendor"

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def test_the_wheel_names_and_has_the_licences_of_vendored_libraries(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    folder = next(name for name in names if name.endswith(".dist-info/METADATA")).removesuffix("METADATA")
    licences = message_from_bytes(wheel.read(f"{folder}METADATA")).get_all("License-File")
    vendored = {path.relative_to(ROOT).as_posix() for path in VENDOR.glob("*.LICENSE")}
    assert vendored
    assert set(licences or ()) == {"LICENSE", *vendored}
    assert {f"{folder}licenses/{licence}" for licence in licences or ()} <= names


def test_each_vendored_library_names_its_licence() -> None:
    table = (VENDOR / "README.md").read_text()
    for library in VENDOR.glob("*.mjs"):
        row = next((line for line in table.splitlines() if f"`{library.name}`" in line), "")
        named = re.search(r"`([\w.]+\.LICENSE)`", row)
        assert named is not None, f"{library.name} has no row with a licence"
        assert (VENDOR / named[1]).is_file()


def test_the_wheel_has_the_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"holdfast", "pyspark_holdfast"}
    assert {"holdfast/py.typed", "holdfast/gateway/ui/vendor/preact.mjs"} <= set(wheel.namelist())


def test_the_source_distribution_has_what_the_wheel_is_built_from(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    expected = {"actors", "components", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert tops - {".gitignore"} == expected
