"""The simulated host: the same contract in memory, on a driven clock, with faults from a seed. For tests."""

from __future__ import annotations

from holdfast.runtime.simulated.host import Faults, SimulatedHost
from holdfast.runtime.simulated.loop import Deadlock, VirtualTimeLoop
from holdfast.runtime.simulated.storage import MemoryStorage

__all__ = ["Deadlock", "Faults", "MemoryStorage", "SimulatedHost", "VirtualTimeLoop"]
