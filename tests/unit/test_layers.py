"""Imports go downwards only: what a module imports at its top lies in a lower layer, or in its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(holdfast.__file__).parent

#: From the bottom to the top. A module belongs to the longest of these that its name begins with.
LAYERS = (
    ("holdfast", "holdfast.kinds", "holdfast.errors", "holdfast.backoff", "holdfast.logs"),
    ("holdfast.names", "holdfast.wire", "holdfast.tracing"),
    ("holdfast.runtime.actor_api",),
    ("holdfast.runtime.serialization",),
    ("holdfast.runtime",),
    ("holdfast.runtime.in_process", "holdfast.runtime.dapr"),
    ("holdfast.runtime.embedded", "holdfast.runtime.simulated"),
    ("holdfast.pushpop.core",),
    ("holdfast.pushpop.api",),
    ("holdfast.pushpop",),
    ("holdfast.idempotency",),
    ("holdfast.orchestration.loop",),
    ("holdfast.orchestration",),
    ("holdfast.orchestration.core",),
    ("holdfast.orchestration.storage",),
    ("holdfast.orchestration.api",),
    ("holdfast.orchestration.reader", "holdfast.orchestration.index"),
    ("holdfast.orchestration.recovery",),
    ("holdfast.orchestration.actor",),
    ("holdfast.schedules.core",),
    ("holdfast.schedules",),
    ("holdfast.state_store",),
    ("holdfast.app", "holdfast.client"),
    ("holdfast.worker",),
    ("holdfast.gateway",),
    ("holdfast.server", "holdfast.testing", "holdfast.local"),
    ("holdfast.embedding",),
    ("holdfast.spark",),
    ("holdfast.cli", "holdfast.__main__"),
)
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}

#: The modules of pure cores, and what importing them must not bring along.
PURE = ("holdfast.errors", "holdfast.pushpop.core.queue", "holdfast.orchestration.core.instance")
IMPURE = ("aiohttp", "dapr", "fastapi", "grpc", "sqlite3", "uvicorn")


def modules() -> dict[str, Path]:
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = ("holdfast", *file.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(file: Path, known: dict[str, Path]) -> set[str]:
    """Returns the modules of Holdfast that a module imports when it is imported itself."""
    found = set()
    for node in top_level(ast.parse(file.read_text("utf-8")).body):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in known}


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            # Imports for a type checker are not made.
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                yield from top_level(node.body)
            yield from top_level(node.orelse)
        elif isinstance(node, ast.Try):
            yield from top_level([*node.body, *(one for handler in node.handlers for one in handler.body)])
        else:
            yield node


def rank(module: str) -> int:
    name = module
    while name not in RANKS:
        name = name.rpartition(".")[0]
    # Only the package itself is at the bottom: a new module has to be given a layer.
    assert name != "holdfast" or module == "holdfast", f"{module} has no layer: add it to LAYERS"
    return RANKS[name]


GRAPH = {module: imports(file, modules()) - {module} for module, file in modules().items()}


def test_imports_go_downwards_only() -> None:
    upwards = [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if rank(other) > rank(module)
    ]
    assert upwards == []


def test_no_imports_go_in_a_circle() -> None:
    try:
        list(TopologicalSorter(GRAPH).static_order())
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {error.args[1]}")


@pytest.mark.parametrize("module", PURE)
def test_a_pure_core_brings_no_server_and_no_sdk(module: str) -> None:
    code = f"import sys, {module}; print(*(name for name in {IMPURE} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == []
