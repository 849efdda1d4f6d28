"""The machine on which the figures were measured."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib import metadata
from pathlib import Path

import psutil

from holdfast import __version__
from holdfast.local import DAPR_VERSION, find_postgres


def facts() -> dict[str, str]:
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Holdfast": __version__,
        "Dapr": f"{DAPR_VERSION}, Python SDK {metadata.version('dapr')}",
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": find_postgres().version,
        "uvloop": metadata.version("uvloop"),
    }


def load() -> float:
    """Programs that wanted a core, on average over the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    # platform.processor() is empty on most Linux systems.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
