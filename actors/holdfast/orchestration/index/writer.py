"""Writes the instances of a process to the index, in batches.

A shard without recent updates is updated after a moment, and then at most once per pause, with all instances that
changed since. A short orchestration is therefore written once, also when it is the only one.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from holdfast.errors import HoldfastError, Unavailable
from holdfast.kinds import INSTANCE_INDEX_TYPE, ORCHESTRATION_TYPE
from holdfast.names import qualify
from holdfast.orchestration.index.instance_index import MOST_NOTES, shard_of
from holdfast.orchestration.log_fields import about_instance
from holdfast.orchestration.storage.record import indexed_as
from holdfast.runtime.batching import CallBatcher
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

# The pause between two updates of a shard, which is how late a list may be.
PAUSE_SECONDS = 1.0
# The pause before the first update of a shard. An orchestration that has ended by then is written once, not twice.
FIRST_PAUSE_SECONDS = 0.1


Entry = dict[str, Any] | None
#: Returns the entry, or None for a deleted instance, and its rank.
Snapshot = Callable[[], tuple[Entry, list[float]]]


class _Update(NamedTuple):
    address: str
    look: Snapshot
    written: asyncio.Future[Entry]


class IndexWriter:
    """Batches the index updates of one process."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, IndexWriter]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # Weak, because the dictionary ties this object to the client: a strong reference would keep the client alive.
        self._client = weakref.ref(client)
        self._waiting: dict[str, dict[str, _Update]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, client: HostClient) -> IndexWriter:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    async def note(self, tenant: str, instance_id: str, look: Snapshot) -> Entry:
        """Writes the entry of an instance, and returns it. ``look`` is called when the shard is updated."""
        written: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        shard = shard_of(instance_id, tenant)
        waiting = self._waiting.get(shard)
        if waiting is None:
            waiting = self._waiting[shard] = {}
            self._begin(self._serve(shard, waiting))
        waiting[instance_id] = _Update(qualify(tenant, instance_id), look, written)
        return await written

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        # In an empty context: the task serves many instances and belongs to the turn of none.
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, shard: str, waiting: dict[str, _Update]) -> None:
        try:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            while waiting:
                await self._write(shard, {name: waiting.pop(name) for name in list(waiting)[:MOST_NOTES]})
                if len(waiting) < MOST_NOTES:
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            del self._waiting[shard]
            for update in waiting.values():
                update.written.cancel()

    async def _write(self, shard: str, updates: dict[str, _Update]) -> None:
        notes = [(name, *update.look()) for name, update in updates.items()]
        entries = {name: entry for name, entry, _ in notes}
        body = {"notes": [{"instance_id": name, "entry": entry, "rank": rank} for name, entry, rank in notes]}
        client = self._client()
        if client is None:
            return  # the host has been closed
        try:
            await client.invoke_method(INSTANCE_INDEX_TYPE, shard, "Update", dump(body))
        except Exception as error:
            # Every waiting instance gets the error, and retries.
            for update in updates.values():
                if not update.written.done():
                    update.written.set_exception(Unavailable(f"The instance index could not be updated: {error}"))
            return
        # Instances that were evicted meanwhile have to save this, or they would be indexed again at every load.
        left = {update.address: entries[name] for name, update in updates.items() if update.written.done()}
        for name, update in updates.items():
            if not update.written.done():
                update.written.set_result(entries[name])
        if left:
            self._begin(_confirm_all(client, left))


async def _confirm_all(client: HostClient, entries: dict[str, Entry]) -> None:
    for address, entry in entries.items():
        try:
            await confirm(client, address, entry)
        except HoldfastError as error:
            log.info(
                "orchestration %s: its index entry was not confirmed and will be written once more: %s",
                *(address, error),
                extra=about_instance(address),
            )


async def confirm(client: HostClient, address: str, entry: Entry) -> None:
    """Makes an instance save which entry the index has."""
    await CallBatcher.of(client, ORCHESTRATION_TYPE).call(
        address, "ConfirmIndexed", dump({"indexed_as": indexed_as(entry)})
    )
