"""Evaluates Tiltfiles as Tilt does, with stand-ins that record what its builtins are told."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import starlark

from tests.support.checkout import ROOT

TILTFILE = ROOT / "tilt" / "Tiltfile"

# Modules of Tilt as Starlark sees them; what begins with an underscore is a method of Tilt below.
_PRELUDE = """
config = struct(define_string = _define_string, parse = _parse, main_dir = _main_dir())
os = struct(path = struct(join = _join, dirname = _dirname, exists = _exists))
"""


@dataclass(frozen=True)
class Resource:
    """A `local_resource`, with the parameters that Tilt 0.37 knows and the Tiltfile uses: another one is an error."""

    name: str
    cmd: list[str] = field(default_factory=list)
    deps: list[str] = field(default_factory=list)
    resource_deps: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    serve_cmd: list[str] = field(default_factory=list)
    links: list[dict[str, str]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    serve_env: dict[str, str] = field(default_factory=dict)
    readiness_probe: dict[str, Any] | None = None
    serve_dir: str = str(TILTFILE.parent)


class Tilt:
    def __init__(self, settings: dict[str, str], missing: str | None, file: Path = TILTFILE) -> None:
        self._folder = str(file.parent)
        self.resources: dict[str, Resource] = {}
        self._settings = settings
        self._missing = missing
        self._defined: set[str] = set()

    def local_resource(self, name: str, **parameters: Any) -> None:
        assert name not in self.resources, f"{name} is defined twice"
        self.resources[name] = Resource(name, **parameters)

    def probe(self, *, period_secs: int = 10, **action: Any) -> dict[str, Any]:
        assert len(action) == 1, "a probe has one action"
        assert action.keys() <= {"http_get", "exec", "tcp_socket"}
        return {"period_secs": period_secs, **action}

    def http_get_action(self, port: int, host: str = "localhost", scheme: str = "http", path: str = "/") -> str:
        return f"{scheme}://{host}:{port}{path}"

    def exec_action(self, command: list[str]) -> list[str]:
        return command

    def link(self, url: str, name: str) -> dict[str, str]:
        return {"url": url, "name": name}

    def _define_string(self, name: str, args: bool = False, usage: str = "") -> None:
        assert usage, f"{name} does not say what it is"
        self._defined.add(name)

    def _parse(self) -> dict[str, str]:
        assert self._settings.keys() <= self._defined
        return self._settings

    def _main_dir(self) -> str:
        return self._folder

    def _join(self, *parts: str) -> str:
        # Tilt joins as Go does: an absolute part does not begin anew, as it would in Python.
        return posixpath.normpath("/".join(parts))

    def _dirname(self, path: str) -> str:
        return posixpath.dirname(path)

    def _exists(self, path: str) -> bool:
        return path != self._missing and Path(path).exists()


def evaluate(*, missing: str | None = None, **settings: str) -> dict[str, Resource]:
    """The resources in the order in which they are defined, as `tilt up -- --name=value …` gives them.

    `missing` is a file that is there, but not for this evaluation.
    """
    tilt = Tilt(settings, missing)
    run(tilt, TILTFILE)
    return tilt.resources


def run(tilt: Tilt, file: Path) -> None:
    """Evaluates a Tiltfile with the stand-ins that `tilt` has."""
    module = starlark.Module()
    for name in dir(tilt):
        if not name.startswith("__") and callable(method := getattr(tilt, name)):
            module.add_callable(name, method)
    dialect = starlark.Dialect.extended()
    dialect.enable_top_level_stmt = True
    # As in Tilt's dialect, which is Go's.
    dialect.enable_f_strings = False
    library = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
    for name, text in (("prelude", _PRELUDE), ("Tiltfile", file.read_text())):
        starlark.eval(module, starlark.parse(name, text, dialect), library)
