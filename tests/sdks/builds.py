"""The built clients of `examples/clients`, kept in the user's cache: the checkout stays as it is."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ComponentMissing
from holdfast.local.binaries import cache_folder
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

EXAMPLES = ROOT / "examples" / "clients"

SECONDS_FOR_A_BUILD = 1200


def built_once(language: str, inputs: Iterable[Path], versions: str, build: Callable[[Path], None]) -> Path:
    """Returns the folder that `build` filled from these files with tools of these versions, now or in an earlier run.

    Raises ComponentMissing when the build fails.
    """
    digest = hashlib.sha256(versions.encode())
    for file in sorted(inputs):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    parent = cache_folder().parents[1] / "clients"
    parent.mkdir(parents=True, exist_ok=True)
    target = parent / f"{language}-{digest.hexdigest()[:16]}"
    with (parent / f".{language}.lock").open("w") as lock:
        # Other test processes wait here for the first.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            print(f"Getting what the {language} build needs, once. It is kept in {target}.", flush=True)
            with tempfile.TemporaryDirectory(prefix=f".{language}.", dir=parent) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                build(made)
                _remove_older(parent, language)
                made.rename(target)
    return target


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str], failed: str) -> None:
    """Runs a command of a build. Raises ComponentMissing with the sentence `failed` and the end of its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS_FOR_A_BUILD,
        check=False,
    )
    if done.returncode != 0:
        raise ComponentMissing(f"{failed} The output of {Path(command[0]).name} ends with:\n{done.stdout[-2000:]}")


def _remove_older(parent: Path, language: str) -> None:
    for old in parent.glob(f"{language}-*"):
        shutil.rmtree(old, ignore_errors=True)
