"""The Java client, built with Maven and a JDK."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing
from holdfast.local.packages import Packaged
from tests.sdks.builds import EXAMPLES, built_once, run

if TYPE_CHECKING:
    from collections.abc import Iterator

MINIMUM_MAJOR = 17

SOURCE = EXAMPLES / "java"
CHECKSUMS = SOURCE / "jars.sha256"


@dataclass(frozen=True)
class Jdk:
    home: Path
    version: str
    maven: Path


def command(_folder: Path) -> list[str | Path]:
    """Returns the command that starts the client."""
    jdk, target = ensure()
    path = os.pathsep.join([str(target / "classes"), str(target / "lib" / "*")])
    # Compiling less takes less time in a program that ends after a second.
    return [jdk.home / "bin" / "java", "-XX:TieredStopAtLevel=1", "-cp", path, "Client"]


def ensure() -> tuple[Jdk, Path]:
    """Returns the JDK and the folder of the built client and its jars. Raises ComponentMissing."""
    jdk = _PACKAGED.ensure(print)
    inputs = [SOURCE / "pom.xml", SOURCE / "src" / "main" / "java" / "Client.java", CHECKSUMS]

    def build(made: Path) -> None:
        shutil.copy(SOURCE / "pom.xml", made)
        shutil.copytree(SOURCE / "src", made / "src")
        run(
            [jdk.maven, "--batch-mode", "--no-transfer-progress", "--quiet", "--strict-checksums", "compile"],
            made,
            {**os.environ, "JAVA_HOME": str(jdk.home)},
            f"The client in {SOURCE} could not be built: Maven needs a repository that it can reach, as "
            "`mvn help:effective-settings` shows it.",
        )
        check(made / "target" / "lib")

    return jdk, built_once("java", inputs, jdk.version.split(".")[0], build) / "target"


def check(jars: Path) -> None:
    """Raises ComponentMissing unless the folder has exactly the jars of the list of checksums."""
    lines = (line.split() for line in CHECKSUMS.read_text().splitlines())
    listed = {name: digest for digest, name in lines}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.iterdir()}
    if wrong := sorted(name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name)):
        raise ComponentMissing(
            f"The jars that Maven copied are not the ones of {CHECKSUMS}: {', '.join(wrong)}. If pom.xml was changed, "
            "renew the list: `mvn compile && (cd target/lib && sha256sum *.jar) > jars.sha256`."
        )


def find_jdk() -> Jdk | None:
    """Finds Maven on the PATH, and a JDK in JAVA_HOME or on the PATH."""
    maven = shutil.which("mvn")
    for home in _homes() if maven else ():
        version = _version_of(home / "bin" / "javac")
        if version and int(version.split(".")[0]) >= MINIMUM_MAJOR:
            return Jdk(home, version, Path(str(maven)))
    return None


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("javac"):
        yield Path(on_path).resolve().parents[1]


def _version_of(compiler: Path) -> str | None:
    try:
        answer = subprocess.run([compiler, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"javac (\d[\d.]*)", answer.stdout + answer.stderr)
    return match[1] if match else None


_PACKAGED = Packaged(
    name="Maven and a JDK",
    wanted=f"Maven with a JDK {MINIMUM_MAJOR} or later, which builds the Java client in examples/clients,",
    # Newer systems have only the newer JDK.
    packages={
        "apt-get": ("maven openjdk-17-jdk-headless", "maven openjdk-21-jdk-headless"),
        "dnf": ("maven java-17-openjdk-devel", "maven java-21-openjdk-devel"),
        "apk": ("maven openjdk17-jdk", "maven openjdk21-jdk"),
        "zypper": ("maven java-17-openjdk-devel", "maven java-21-openjdk-devel"),
        "pacman": ("maven jdk17-openjdk", "maven jdk21-openjdk"),
        "brew": ("maven openjdk@17", "maven openjdk@21"),
    },
    find=find_jdk,
    elsewhere=f"Install Maven from https://maven.apache.org and a JDK {MINIMUM_MAJOR} from https://adoptium.net.",
)
