"""Selects the Python interpreter for Spark's workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote


def python_variables() -> dict[str, str]:
    """Returns environment variables that make Spark use this Python: another one on the PATH may lack Holdfast.

    Spark 4 looks for data sources only if a shell finds the program, and does not quote its path there. A Python
    in a folder with spaces or brackets is therefore named without its folder, which is put first on the PATH.
    """
    program = Path(sys.executable)
    if quote(str(program)) == str(program):
        return {"PYSPARK_PYTHON": str(program)}
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])
    return {"PYSPARK_PYTHON": program.name, "PATH": path}
