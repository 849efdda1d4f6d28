"""Refuses starts of orchestrations whose code did not yield several times in a row.

Each such start blocks its process until the watchdog stops it. Overruns are counted per tenant, so that the inputs of
one tenant do not block the starts of another.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.orchestration.definitions import Orchestration

log = logging.getLogger(__name__)

#: Instances in a row that may overrun.
MAX_OVERRUNS = 3
#: How long starts are refused. The first one afterwards is tried; if it overruns, the next are refused again.
REFUSAL_SECONDS = 60.0
_MAX_KEPT = 10_000

_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Record:
    overruns: int = 0
    refused_until: float = -math.inf


class Runaways:
    """The orchestrations of one process whose last instances did not yield."""

    def __init__(self) -> None:
        self._records: dict[_Key, _Record] = {}

    def check_start(self, tenant: str, definition: Orchestration, now: float) -> None:
        """Raises StartsRefused while starts of this orchestration are refused for the tenant."""
        if not self._records:
            return
        from holdfast.errors import StartsRefused

        record = self._records.get((tenant, definition.name, definition.version))
        if record is not None and now < record.refused_until:
            seconds = math.ceil(record.refused_until - now)
            raise StartsRefused(
                f"The orchestration {definition.name}, version {definition.version}, is not started for another "
                f"{seconds} s: its last {record.overruns} instances did not yield. Correct its code or its input.",
                retry_after=seconds,
            )

    def overran(self, tenant: str, name: str, version: str, now: float) -> None:
        """Counts an instance that was stopped because it did not yield."""
        key = (tenant, name, version)
        record = self._records.pop(key, None) or _Record()
        self._records[key] = record
        record.overruns += 1
        if record.overruns >= MAX_OVERRUNS:
            record.refused_until = now + REFUSAL_SECONDS
            log.warning(
                "orchestration %s, version %s, of tenant %s: %d instances in a row did not yield; starts are refused "
                "for %g s",
                *(name, version, tenant, record.overruns, REFUSAL_SECONDS),
            )
        if len(self._records) > _MAX_KEPT:
            del self._records[next(iter(self._records))]

    def yielded(self, tenant: str, name: str, version: str, now: float) -> None:
        """Forgets earlier overruns. A refusal that is in force ends at its time."""
        # Called in every turn, nearly always without a record.
        if self._records:
            key = (tenant, name, version)
            record = self._records.get(key)
            if record is not None and now >= record.refused_until:
                del self._records[key]
