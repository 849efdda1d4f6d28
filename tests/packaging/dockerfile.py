"""deploy/Dockerfile as instructions, read closely enough to check them and to repeat its steps."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


@dataclass
class Stage:
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.instructions if name == instruction]

    def one(self, instruction: str) -> str:
        (only,) = self.all(instruction)
        return only

    def exec_form(self, instruction: str) -> list[str]:
        """The words of ENTRYPOINT, CMD or HEALTHCHECK; fails on the shell form, where signals do not arrive."""
        words = json.loads(re.sub(r"^.*?(?=\[)", "", self.one(instruction), count=1))
        assert isinstance(words, list)
        return [str(word) for word in words]

    @property
    def environment(self) -> dict[str, str]:
        pairs = [pair.partition("=") for rest in self.all("ENV") for pair in shlex.split(rest)]
        return {name: value for name, _, value in pairs}

    def copies_of_context(self) -> list[tuple[list[str], str]]:
        """(sources, target) of every COPY that takes from the build context."""
        words = [shlex.split(rest) for rest in self.all("COPY") if "--from=" not in rest]
        return [(sources, target) for *sources, target in words]


def stages() -> list[Stage]:
    found: list[Stage] = []
    for line in _logical_lines(DOCKERFILE.read_text()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            alias = re.search(r" AS (\S+)$", rest)
            found.append(Stage(alias[1] if alias else ""))
        elif found:
            found[-1].instructions.append((name, rest.strip()))
    return found


def reaches_the_build(path: Path) -> bool:
    """Returns whether .dockerignore lets a file into the build context: the last match decides."""
    allowed = True
    relative = path.relative_to(ROOT)
    for pattern in DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().split():
        bare = pattern.removeprefix("!").removeprefix("**/")
        parts = [*relative.parents, relative]
        if any(fnmatch(str(part), bare) for part in parts) or (
            pattern.startswith("**/") and any(fnmatch(part, bare) for part in relative.parts)
        ):
            allowed = pattern.startswith("!")
    return allowed


def _logical_lines(text: str) -> list[str]:
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", kept)
    return [line for line in joined.splitlines() if line.strip()]
