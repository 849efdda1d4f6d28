"""Finds or builds Dapr and PostgreSQL, runs them on loopback, and always stops them.

Used by `holdfast dev`, the tests and the benchmarks. Linux and macOS.
"""

from __future__ import annotations

from holdfast.local.binaries import DAPR_VERSION, DaprBinaries, ensure_dapr, find_dapr
from holdfast.local.components import write_component
from holdfast.local.configuration import write_configuration
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
    "write_configuration",
]
