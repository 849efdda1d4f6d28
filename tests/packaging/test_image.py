"""The image: what its Dockerfile says, and what its own steps give when they are repeated on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from shlex import quote

import pytest

from holdfast.local.ports import free_port
from tests.packaging.dockerfile import Stage, reaches_the_build, stages
from tests.support.checkout import ROOT

# The image is made once, by whichever worker runs these.
pytestmark = pytest.mark.xdist_group("image")

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 30.0


def final() -> Stage:
    return stages()[-1]


def test_everything_copied_is_in_the_repository_and_reaches_the_build() -> None:
    sources = [ROOT / source for stage in stages() for names, _ in stage.copies_of_context() for source in names]
    assert sources
    for source in sources:
        assert source.exists(), f"{source} is copied but not there"
        assert reaches_the_build(source), f"{source} is copied but ignored"


@pytest.mark.parametrize(
    "path", [".git/config", ".venv/bin/python", "tests/packaging/test_image.py", "deploy/README.md"]
)
def test_what_the_image_does_not_need_stays_out_of_the_build(path: str) -> None:
    assert not reaches_the_build(ROOT / path)


def test_it_runs_as_a_user_kubernetes_can_see_is_not_root() -> None:
    user, group = final().one("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0
    # A USER before a later RUN or COPY would not be what the container runs as.
    assert [name for name, _ in final().instructions][-6:] == [
        "USER",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    ]


def test_signals_reach_the_server_itself() -> None:
    assert final().exec_form("ENTRYPOINT") == ["holdfast"]
    assert final().exec_form("CMD")[0] == "serve"
    assert "STOPSIGNAL" not in dict(final().instructions)


def test_the_final_stage_installs_nothing() -> None:
    for step in final().all("RUN"):
        assert not re.search(r"\b(pip|apt-get|apt|gcc|make|curl|wget)\b", step)
    assert final().all("COPY")[0] == "--from=build /opt/holdfast /opt/holdfast"


def test_the_data_folder_is_a_volume_of_the_user() -> None:
    folder = final().environment["HOLDFAST_DATA"]
    assert final().one("VOLUME") == folder
    assert f"chown {final().one('USER')} {folder}" in final().one("RUN")


class Container:
    """The image's file tree under a folder of this machine, made by the Dockerfile's own steps."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workdir = Path()

    def build(self) -> None:
        for stage in stages():
            for name, rest in stage.instructions:
                if name == "WORKDIR":
                    self.workdir = self.inside(rest)
                    self.workdir.mkdir(parents=True, exist_ok=True)
                elif name == "RUN" and stage.name == "build":
                    self._run(re.sub(r"--mount=\S+ ", "", rest))
                elif name == "COPY" and "--from=" not in rest:
                    *sources, target = rest.split()
                    if target.endswith("/"):
                        (self.workdir / target).mkdir(parents=True, exist_ok=True)
                    self._copy(sources, self.workdir / target)

    def inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def environment(self, **instead: str) -> dict[str, str]:
        """The image's own, its data folder and `instead` apart, and nothing of this machine but the language."""
        environment = {
            **final().environment,
            "PATH": f"{self.inside('/opt/holdfast/bin')}:{os.environ['PATH']}",
            "HOLDFAST_DATA": str(self.inside("/data")),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        return {**environment, **instead}

    def start(self, **instead: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*final().exec_form("ENTRYPOINT"), *final().exec_form("CMD")],
            cwd=self.workdir,
            env=self.environment(**instead),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def is_healthy(self, **instead: str) -> bool:
        check = subprocess.run(
            final().exec_form("HEALTHCHECK"), env=self.environment(**instead), capture_output=True, timeout=10
        )
        return check.returncode == 0

    def _run(self, step: str) -> None:
        for folder in ("/src", "/wheels", "/opt/build", "/opt/holdfast"):
            step = re.sub(rf"(^| ){folder}\b", rf"\1{quote(str(self.inside(folder)))}", step)
        outcome = subprocess.run(
            ["/bin/sh", "-ec", step],
            cwd=self.workdir,
            # The image's python is the machine's; pip must not take what is installed beside it for installed.
            # Byte code is what takes longest, and is made again where it is used.
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PIP_NO_COMPILE": "1",
            },
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert outcome.returncode == 0, f"{step} failed:\n{outcome.stdout[-2000:]}\n{outcome.stderr[-2000:]}"

    def _copy(self, sources: list[str], target: Path) -> None:
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target, ignore=_ignored, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / source, target)


def _ignored(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not reaches_the_build(Path(folder) / name)}


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    made = Container(tmp_path_factory.mktemp("image"))
    made.build()
    return made


def test_the_command_works_from_what_the_steps_install(container: Container) -> None:
    answer = subprocess.run(
        ["holdfast", "--help"], env=container.environment(), capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    assert "serve" in answer.stdout


def test_what_is_installed_is_whole(container: Container) -> None:
    asked = "from holdfast.local.components import STORES, component_file; [component_file(s) for s in STORES]"
    # From a folder of its own: beside a checkout the package would find the checkout's.
    answer = subprocess.run(
        ["python", "-c", asked], cwd=container.workdir, env=container.environment(), capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


_INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps({found.name.lower().replace("_", "-").replace(".", "-"): found.version for found in distributions()}))
"""


def test_its_bill_of_materials_lists_what_is_installed(container: Container) -> None:
    answer = subprocess.run(
        ["python", "-c", _INSTALLED],
        cwd=container.workdir,
        env=container.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(container.inside("/opt/holdfast/sbom.cdx.json").read_text())
    listed = [found for found in document["components"] if found.get("purl", "").startswith("pkg:pypi/")]
    assert {found["name"]: found["version"] for found in listed} == json.loads(answer.stdout)


def test_nothing_can_be_installed_with_what_is_in_it(container: Container) -> None:
    programs = {path.name for path in container.inside("/opt/holdfast/bin").iterdir()}
    assert "holdfast" in programs
    assert not {name for name in programs if name.startswith("pip")}


def test_it_turns_healthy_serves_and_ends_in_order(container: Container) -> None:
    settings = {"HOLDFAST_LISTEN": "127.0.0.1", "HOLDFAST_PORT": str(free_port())}
    server = container.start(**settings)
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        while not container.is_healthy(**settings):
            assert server.poll() is None, server.communicate()[0]
            assert time.monotonic() < deadline, "the health check never passed"
            time.sleep(0.1)
        server.terminate()
        output, _ = server.communicate(timeout=SECONDS_TO_STOP)
        assert server.returncode == 0, output
    finally:
        server.kill()
    assert not container.is_healthy(**settings)
    assert list(container.inside("/data").iterdir())


def test_as_it_is_it_does_not_start_without_a_token(container: Container) -> None:
    server = container.start(HOLDFAST_PORT=str(free_port()))
    try:
        output, _ = server.communicate(timeout=SECONDS_TO_START)
    finally:
        server.kill()
    assert server.returncode == 1
    assert "token" in output
