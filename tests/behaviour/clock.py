"""Moments that tests wait for."""

from __future__ import annotations

import asyncio
import time
from typing import Any


async def past(moment: float) -> None:
    """Until the wall clock, which deadlines are set by, has passed this moment."""
    await asyncio.sleep(max(0.0, moment - time.time()) + 0.005)


async def expired(taken: Any) -> None:
    """Until a lock is over, whether anybody has noticed or not."""
    await past(taken["lock_expires_at"])
