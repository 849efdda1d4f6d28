"""Finds daprd, placement and scheduler of one version on this machine, or builds them once into a cache."""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ComponentMissing
from holdfast.local import toolchain

DAPR_VERSION = "1.18.2"

Progress = Callable[[str], None]
"""Called repeatedly during long work with a description of the current step."""

_MODULE = "github.com/dapr/dapr"
_NAMES = ("daprd", "placement", "scheduler")


@dataclass(frozen=True)
class DaprBinaries:
    """The three programs, all of the same version."""

    daprd: Path
    placement: Path
    scheduler: Path


def ensure_dapr(progress: Progress, version: str = DAPR_VERSION) -> DaprBinaries:
    """Returns the programs of `version`: those on this machine, or else built from Go modules into the cache folder.

    The first build takes minutes. Raises ComponentMissing when they cannot be built.
    """
    if found := _find_all(version):
        return found
    with _build_lock(version, progress):
        # Another process may have built them while we waited for the lock.
        if found := _find_all(version):
            return found
        _build(version, progress)
    return find_dapr(version)


def find_dapr(version: str = DAPR_VERSION) -> DaprBinaries:
    """Returns the programs of `version` on this machine. Raises ComponentMissing when one is missing."""
    found = _find_all(version)
    if found is None:
        missing = [name for name in _NAMES if find_binary(name, version) is None]
        raise ComponentMissing(
            f"Dapr {version} is not complete on this machine ({', '.join(missing)} missing). "
            + how_to_get_dapr(version)
        )
    return found


def find_binary(name: str, version: str = DAPR_VERSION) -> Path | None:
    """Finds one of the programs on the PATH, in the Dapr CLI's folder, or in the cache folder."""
    candidates = (folder / name for folder in _folders(version))
    return next((path for path in candidates if version_of(path) == version), None)


def find_other_versions(name: str, version: str = DAPR_VERSION) -> dict[Path, str]:
    """Returns programs of that name in the same places that have other versions."""
    seen = {path: version_of(path) for path in (folder / name for folder in _folders(version))}
    return {path: found for path, found in seen.items() if found not in (None, version)}


def how_to_get_dapr(version: str = DAPR_VERSION) -> str:
    """Returns a sentence that says how to install Dapr."""
    return (
        f"Install the Dapr CLI and run `dapr init --slim --runtime-version {version}`, "
        "or let Holdfast build it with `python -m holdfast.local ensure`."
    )


def version_of(path: Path) -> str | None:
    """Returns the Dapr version of a program, or None if it is not a Dapr program.

    Read from the data of the Go linker, since placement and scheduler 1.18 have no `--version`.
    """
    try:
        if not (path.is_file() and os.access(path, os.X_OK)) or path.stat().st_size == 0:
            return None
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = content.find(f"{_MODULE}/pkg/buildinfo.version=".encode())
            recorded = content[start : start + 128].decode("ascii", errors="replace") if start >= 0 else ""
    except OSError:
        return None  # PATH may have folders of another user that we may not enter
    match = re.match(r"[^=]+=v?([0-9][0-9A-Za-z.+-]*)", recorded)
    return match[1] if match else None


def cache_folder(version: str = DAPR_VERSION) -> Path:
    """Returns the folder of programs built by Holdfast. Raises ComponentMissing when this user has no home folder."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "holdfast" / "dapr" / version
    home = _home()
    if home is None:
        raise ComponentMissing(
            "This user has no home folder to build Dapr in. Set XDG_CACHE_HOME to a folder that only this user can "
            f"write to. {how_to_get_dapr(version)}"
        )
    return home / ".cache" / "holdfast" / "dapr" / version


def _find_all(version: str) -> DaprBinaries | None:
    daprd, placement, scheduler = (find_binary(name, version) for name in _NAMES)
    if daprd and placement and scheduler:
        return DaprBinaries(daprd, placement, scheduler)
    return None


def _folders(version: str) -> list[Path]:
    on_path = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    home = _home()
    from_cli = [] if home is None else [home / ".dapr" / "bin"]
    try:
        return [*on_path, *from_cli, cache_folder(version)]
    except ComponentMissing:
        return [*on_path, *from_cli]


def _home() -> Path | None:
    """Returns the home folder of this user, or None: a container may run as a user without an account."""
    try:
        return Path.home()
    except RuntimeError:
        return None


@contextlib.contextmanager
def _build_lock(version: str, progress: Progress) -> Iterator[None]:
    folder = cache_folder(version).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f".{version}.lock").open("w")
    except OSError as error:
        raise ComponentMissing(
            f"Dapr {version} cannot be built into {folder}: {error.strerror}. Set XDG_CACHE_HOME to a folder that can "
            f"be written to. {how_to_get_dapr(version)}"
        ) from error
    with file as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress("waiting for another process that is building Dapr")
                time.sleep(0.5)
        yield


def _build(version: str, progress: Progress) -> None:
    go = toolchain.find_go()
    target = cache_folder(version)
    # Next to the target, so that the last step is an atomic rename.
    with tempfile.TemporaryDirectory(prefix=f".{version}.", dir=target.parent) as scratch:
        try:
            source = _download(go, version, Path(scratch), progress)
            out = Path(scratch) / "out"
            _compile(go, version, source, out, progress)
        except toolchain.GoFailed as error:
            raise ComponentMissing(f"Dapr {version} could not be built: {error} " + how_to_get_dapr(version)) from error
        wrong = [name for name in _NAMES if version_of(out / name) != version]
        if wrong:
            raise ComponentMissing(
                f"The build of Dapr {version} did not give a usable {', '.join(wrong)}. " + how_to_get_dapr(version)
            )
        # An old target is incomplete, or the search would have found it.
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)


def _download(go: toolchain.Go, version: str, scratch: Path, progress: Progress) -> Path:
    doing = f"downloading the source of Dapr {version}"
    progress(doing)
    answer = go.run(
        ["mod", "download", "-json", f"{_MODULE}@v{version}"],
        folder=scratch,
        on_line=lambda _: progress(doing),
    )
    return Path(json.loads(answer)["Dir"])


def _compile(go: toolchain.Go, version: str, source: Path, out: Path, progress: Progress) -> None:
    packages = downloads = 0

    def on_line(line: str | None) -> None:
        nonlocal packages, downloads
        if line is not None and line.startswith("go: downloading"):
            downloads += 1
        elif line is not None:
            packages += 1
        progress(
            f"building Dapr {version}, once for this machine: "
            f"{downloads} modules downloaded, {packages} packages compiled"
        )

    on_line(None)
    stamps = [
        f"-X {_MODULE}/pkg/buildinfo.version={version}",
        f"-X github.com/dapr/kit/logger.DaprVersion={version}",
    ]
    # Without this tag daprd 1.18 has no components and panics at start.
    command = [
        "build",
        "-v",
        "-tags",
        "stablecomponents",
        "-ldflags",
        " ".join(["-s -w", *stamps]),
        "-o",
        f"{out}{os.sep}",
    ]
    go.run([*command, *(f"./cmd/{name}" for name in _NAMES)], folder=source, on_line=on_line)
