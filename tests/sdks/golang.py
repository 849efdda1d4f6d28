"""The Go client, built with the Go that builds Dapr."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing
from holdfast.local.toolchain import Go, GoFailed, find_go
from tests.sdks.builds import EXAMPLES, built_once

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = EXAMPLES / "go"


def command(_folder: Path) -> list[str | Path]:
    """Returns the command that starts the client."""
    _, program = ensure()
    return [program]


def ensure() -> tuple[Go, Path]:
    """Returns Go and the built client. Raises ComponentMissing."""
    go = find_go()
    inputs = [SOURCE / name for name in ("main.go", "go.mod", "go.sum")]

    def build(made: Path) -> None:
        for file in inputs:
            shutil.copy(file, made)
        try:
            go.run(["build", "-o", "client", "."], folder=made, on_line=lambda _: None)
        except GoFailed as error:
            raise ComponentMissing(
                f"The client in {SOURCE} could not be built: its modules need a proxy that Go can reach, as "
                f"`go env GOPROXY` shows it. {error}"
            ) from error

    return go, built_once("go", inputs, go.version, build) / "client"
