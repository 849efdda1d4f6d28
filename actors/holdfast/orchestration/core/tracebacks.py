"""Tracebacks of users' code, as they are kept with a failure: its frames and those of what it called."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import traceback
from pathlib import Path

import pydantic

import holdfast

#: The most bytes of the tracebacks of one failure and its causes together.
MAX_BYTES = 8 * 1024

_HOLDFAST = str(Path(holdfast.__file__).parent) + os.sep
#: What calls users' code. Its frames are left out up to the first frame of other code.
_CALLERS = (
    _HOLDFAST,
    *(str(Path(str(module.__file__)).parent) + os.sep for module in (asyncio, concurrent.futures, pydantic)),
)


class Tracebacks:
    """Whether tracebacks are kept at all, which is set when the process starts."""

    kept = True


def keep_tracebacks(kept: bool) -> None:
    """Sets whether this process keeps tracebacks with failures: they may show what users' code works on."""
    Tracebacks.kept = kept


def traceback_of(error: BaseException, room: int = MAX_BYTES) -> str | None:
    """Returns the frames of users' code, at most ``room`` bytes with the innermost last; None if there are none."""
    if not Tracebacks.kept or room <= 0:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[0].filename.startswith(_CALLERS):
        frames.pop(0)
    own = [frame for frame in frames if not frame.filename.startswith(_HOLDFAST)]
    if not own:
        return None
    text = "".join(traceback.format_list(own)).encode(errors="replace")
    return text[-room:].decode(errors="ignore")
