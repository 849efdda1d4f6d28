"""Counts the bytes of idempotency records of tenants with a quota, as far as this process wrote them.

Records are separate actors without an index, so each gateway counts the records that it wrote since it started, until
they expire. Only the begin of a record is refused: a result can always be recorded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from holdfast.errors import Capacity

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gateway.quotas.quotas import Quotas

#: The size of a record without its key and its result.
RECORD_BYTES = 512
RETRY_SECONDS = 60
#: How many records of a tenant are tracked one by one. Earlier ones are summed by the hour in which they expire.
MAX_KNOWN = 100_000
MAX_TENANTS = 1000
_HOUR = 3600.0


class RecordUsage:
    """Counts the records of all tenants that have a quota."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._clock = clock
        self._tenants: OrderedDict[str, _Records] = OrderedDict()

    def check(self, tenant: str, record_id: str) -> None:
        """Raises Capacity when one more record would exceed the quota."""
        most = self._quotas.of(tenant).max_idempotency_bytes
        if most is None:
            return
        kept = self._of(tenant).bytes(self._clock(), record_id)
        if kept + RECORD_BYTES > most:
            raise Capacity(
                f"Quota reached: this tenant may have {most} bytes of idempotency records and has {kept}.",
                retry_after=RETRY_SECONDS,
            )

    def note(self, tenant: str, record_id: str, size: int, seconds: float) -> None:
        """Counts a record that was written: ``size`` bytes of key and result, stored for ``seconds``."""
        if self._quotas.of(tenant).max_idempotency_bytes is not None:
            self._of(tenant).put(record_id, RECORD_BYTES + size, self._clock() + seconds)

    def _of(self, tenant: str) -> _Records:
        records = self._tenants.get(tenant)
        if records is None:
            records = self._tenants[tenant] = _Records()
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(tenant)
        return records


class _Records:
    """The records of one tenant."""

    def __init__(self) -> None:
        #: Size and expiry by record, in the order of writing.
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._known_bytes = 0
        self._by_hour: dict[int, int] = {}
        self._next_look = 0.0

    def bytes(self, now: float, besides: str) -> int:
        """Returns the bytes of all unexpired records except this one."""
        if now >= self._next_look:
            self._forget_expired(now)
        size, _ = self._known.get(besides, (0, 0.0))
        return self._known_bytes - size + sum(self._by_hour.values())

    def put(self, record_id: str, size: int, expires_at: float) -> None:
        self._drop(record_id)
        self._known[record_id] = size, expires_at
        self._known_bytes += size
        if len(self._known) > MAX_KNOWN:
            oldest = next(iter(self._known))
            size, expires_at = self._drop(oldest)
            hour = int(expires_at // _HOUR) + 1
            self._by_hour[hour] = self._by_hour.get(hour, 0) + size

    def _drop(self, record_id: str) -> tuple[int, float]:
        size, expires_at = self._known.pop(record_id, (0, 0.0))
        self._known_bytes -= size
        return size, expires_at

    def _forget_expired(self, now: float) -> None:
        # Scans all records, so it does not run on every call.
        self._next_look = now + max(1.0, len(self._known) / 10_000)
        for record_id in [record_id for record_id, (_, expires_at) in self._known.items() if expires_at <= now]:
            self._drop(record_id)
        self._by_hour = {hour: size for hour, size in self._by_hour.items() if hour * _HOUR > now}
