"""The embedded host: this process, one SQLite file, nothing to install. For one machine."""

from __future__ import annotations

from holdfast.runtime.embedded.host import EmbeddedHost

__all__ = ["EmbeddedHost"]
