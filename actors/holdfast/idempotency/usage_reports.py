"""Reports what changes in the size of idempotency records, off the hot path: once a second for each tenant."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import secrets
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from holdfast.errors import HostStopping
from holdfast.idempotency.usage import Changes, add, changes_of, unexpired
from holdfast.kinds import RECORD_USAGE_TYPE
from holdfast.logs import message_of
from holdfast.names import qualify
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from holdfast.idempotency.record import Record
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

#: The pause between two reports of a tenant. What a process did not report before it was killed is not counted.
PAUSE_SECONDS = 1.0
_USAGE = "records"


class _Report(NamedTuple):
    number: int
    changes: Changes


class UsageReports:
    """The changes that this process has not reported yet, by tenant."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, UsageReports]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # Weak, because the dictionary ties this object to the client: a strong reference would keep the client alive.
        self._client = weakref.ref(client)
        self._sender = secrets.token_hex(8)
        self._number = 0
        self._changes: dict[str, Changes] = {}
        #: Reports without a reply, which are repeated as they are: they may have arrived.
        self._sent: dict[str, _Report] = {}
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    @classmethod
    def of(cls, client: HostClient) -> UsageReports:
        """Returns the reports of the process with this host."""
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    def changed(self, tenant: str, old: Record | None, new: Record | None) -> None:
        """Notes that a record was saved or deleted."""
        add(self._changes.setdefault(tenant, {}), changes_of(old, new))
        if self._task is None:
            # In an empty context: the task serves many records and belongs to the turn of none.
            self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    async def flush(self, tenant: str) -> None:
        """Reports the changes of a tenant. Raises an error if they did not arrive; they are reported again later."""
        async with self._sending:
            if tenant in self._sent:
                await self._send(tenant)
            if changes := self._changes.pop(tenant, None):
                self._number += 1
                self._sent[tenant] = _Report(self._number, changes)
                await self._send(tenant)

    async def close(self) -> None:
        """Reports all changes so far, and stops."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._flush_all()

    async def _send(self, tenant: str) -> None:
        client, report = self._client(), self._sent[tenant]
        if client is None:
            raise HostStopping
        # After a long failure most of them have expired.
        changes = {str(end): size for end, size in unexpired(report.changes, client.now()).items()}
        body = {"sender": self._sender, "number": report.number, "changes": changes}
        await client.invoke_method(RECORD_USAGE_TYPE, qualify(tenant, _USAGE), "Add", dump(body))
        del self._sent[tenant]

    async def _run(self) -> None:
        try:
            while self._sent or self._changes:
                await asyncio.sleep(PAUSE_SECONDS)
                await self._flush_all()
        except HostStopping:
            pass
        finally:
            self._task = None

    async def _flush_all(self) -> None:
        for tenant in {**self._sent, **self._changes}:
            try:
                await self.flush(tenant)
            except HostStopping:
                raise
            except Exception as error:
                # Any error: the report is repeated after a pause.
                if not self._failing:
                    log.warning("idempotency records are not counted for now, retrying: %s", message_of(error))
                self._failing = True
                return
        self._failing = False


async def stored_bytes(client: HostClient, tenant: str) -> int:
    """Returns how many bytes of records a tenant has, as far as it was reported."""
    stored: Any = load(await client.invoke_method(RECORD_USAGE_TYPE, qualify(tenant, _USAGE), "Total"))
    return int(stored)
