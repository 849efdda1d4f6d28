"""The Dapr host: the same actors behind a real daprd, which distributes them over many machines."""

from __future__ import annotations

from holdfast.runtime.dapr.client import DaprHostClient
from holdfast.runtime.dapr.host import DaprHost

__all__ = ["DaprHost", "DaprHostClient"]
