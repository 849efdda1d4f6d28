"""The embedded host: one process and one SQLite file, with nothing to install. For one machine."""

from __future__ import annotations

from holdfast.runtime.embedded.host import EmbeddedHost

__all__ = ["EmbeddedHost"]
