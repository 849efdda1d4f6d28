"""The simulated host for tests: the same contract in memory, on a virtual clock, with faults from a seed."""

from __future__ import annotations

from holdfast.runtime.simulated.host import Faults, SimulatedHost
from holdfast.runtime.simulated.loop import Deadlock, VirtualTimeLoop
from holdfast.runtime.simulated.storage import MemoryStorage

__all__ = ["Deadlock", "Faults", "MemoryStorage", "SimulatedHost", "VirtualTimeLoop"]
