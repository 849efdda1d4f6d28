"""Collects the numbers of instances for a scrape, from the index of instances.

The index counts its entries, so the figures are right after a restart and from any process, and cost two calls whatever
the number of instances.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import GaugeMetricFamily

from holdfast.errors import HoldfastError
from holdfast.gateway.metrics.recent import Recent
from holdfast.names import DEFAULT_TENANT
from holdfast.orchestration.index.finder import counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

#: How many orchestrations are shown, the first by name. The label ``other`` has the rest.
MOST_NAMES = 200
OTHER = "other"
CALL_SECONDS = 2.0


class Counted:
    """The numbers of instances by orchestration and status; None if the index did not answer."""

    def __init__(self, numbers: Mapping[str, Mapping[str, int]] | None) -> None:
        self.numbers: dict[str, Counter[str]] = {}
        for number, name in enumerate(sorted(numbers or {})):
            shown = name if number < MOST_NAMES else OTHER
            self.numbers.setdefault(shown, Counter()).update((numbers or {})[name])

    def collect(self) -> Iterator[Metric]:
        """Yields the metric for Prometheus."""
        instances = GaugeMetricFamily(
            "holdfast_orchestration_instances",
            "Instances by their status, as far as the index knows.",
            labels=["orchestration", "status"],
        )
        for name, statuses in self.numbers.items():
            for status, number in sorted(statuses.items()):
                instances.add_metric([name, status], number)
        yield instances


class InstanceStats:
    """Collects the numbers of a tenant's instances."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._recent = Recent(self._count)

    async def take(self, tenant: str = DEFAULT_TENANT) -> Counted:
        """Returns the last result if it is recent, else collects anew."""
        return await self._recent.take(tenant)

    async def _count(self, tenant: str) -> Counted:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return Counted(await counts(self._client, tenant))
        except (HoldfastError, TimeoutError) as error:
            log.warning("metrics of tenant %s: the numbers of instances are missing: %s", tenant, error)
            return Counted(None)
