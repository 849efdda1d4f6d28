"""The streams of events that a server has open, and what it remembers of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.errors import RateLimited
from holdfast.gateway.events.watches import MOST_OF_TENANT, MOST_STREAMS, Watches


async def look(tenant: str, topic: str) -> Any:
    return None


async def test_a_tenant_that_is_refused_is_not_remembered() -> None:
    watches = Watches(look)
    with ExitStack() as opened:
        for number in range(MOST_STREAMS):
            opened.enter_context(watches.open(f"tenant-{number // MOST_OF_TENANT}", ["queues"]))
        for number in range(100):
            with pytest.raises(RateLimited), watches.open(f"refused-{number}", ["queues"]):
                pass
        assert len(watches._streams) == MOST_STREAMS // MOST_OF_TENANT
    assert not watches._streams
