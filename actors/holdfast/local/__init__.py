"""Dapr and PostgreSQL on this machine: found or built, started on loopback, and never left behind.

`holdfast dev`, the tests and the benchmarks stand on it. Linux and macOS.
"""

from __future__ import annotations

from holdfast.local.binaries import DAPR_VERSION, DaprBinaries, ensure_dapr, find_dapr
from holdfast.local.components import write_component
from holdfast.local.postgres import LocalPostgres, find_postgres
from holdfast.local.processes import ChildProcess
from holdfast.local.stack import LocalDapr, Sidecar

__all__ = [
    "DAPR_VERSION",
    "ChildProcess",
    "DaprBinaries",
    "LocalDapr",
    "LocalPostgres",
    "Sidecar",
    "ensure_dapr",
    "find_dapr",
    "find_postgres",
    "write_component",
]
