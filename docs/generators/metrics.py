"""The metrics, from the registry of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.gateway import gateway
from generators.tables import code, prose, table
from holdfast.gateway.metrics.event_loop import EventLoopProbe
from holdfast.gateway.metrics.instance_stats import Counted as InstancesCounted
from holdfast.gateway.metrics.queue_stats import Counted as QueuesCounted
from holdfast.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

# What a sample of each type adds to the name.
_SUFFIXES = {"counter": "_total", "info": "_info"}


def families() -> Iterator[Metric]:
    """Yields every metric that a server shows, mostly without samples."""
    yield from QueuesCounted().collect()
    yield from InstancesCounted(None).collect()
    yield from gateway()[0].host.client.metrics.registry.collect()
    others = Metrics()
    known = {family.name for family in others.registry.collect()}
    EventLoopProbe(others.registry)
    yield from (family for family in others.registry.collect() if family.name not in known)


def page() -> str:
    rows = [
        (code(family.name + _SUFFIXES.get(family.type, "")), family.type, prose(family.documentation))
        for family in families()
    ]
    return table(("metric", "type", "meaning"), rows)
