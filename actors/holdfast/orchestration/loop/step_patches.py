"""Patches names of asyncio and anyio while a step of an orchestration runs.

Outside of steps nothing is replaced. Other threads may run other loops during a step, so every replacement checks the
loop it is used on, and behaves like the original unless that is an orchestration's loop.
"""

from __future__ import annotations

import builtins
import threading
from typing import Any

from holdfast.orchestration.loop import ordered_tasks as tasks
from holdfast.orchestration.loop import sandbox as outside

_lock = threading.Lock()
_steps = 0
#: Modules, names and replacements. Filled by the first step, which may import modules.
_names: list[tuple[dict[str, Any], str, Any]] = []
_originals: list[Any] = []


def begin_step() -> None:
    """Replaces the names, unless a step in another thread has done so."""
    global _steps
    with _lock:
        _steps += 1
        if _steps == 1:
            if not _names:
                _find_names()
            _originals[:] = [module[name] for module, name, _ in _names]
            for module, name, replacement in _names:
                module[name] = replacement


def end_step() -> None:
    """Restores the names, unless a step in another thread needs them."""
    global _steps
    with _lock:
        _steps -= 1
        if _steps == 0:
            for (module, name, _), original in zip(_names, _originals, strict=True):
                module[name] = original


def _find_names() -> None:
    _names.extend((*tasks.NAMES, *outside.names()))
    for module, name, _ in _names:
        if name not in module:
            # A module that uses a builtin has no such global. The global stays, bound to the builtin between steps:
            # adding and removing it would invalidate Python's cached lookups of the module.
            module[name] = getattr(builtins, name)
