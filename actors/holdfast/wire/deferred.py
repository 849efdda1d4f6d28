"""The reply to a call of a batch that the actor could not serve in this turn: it is sent again with the next batch."""

from __future__ import annotations

from typing import Any

DEFERRED: dict[str, Any] = {"later": True}
