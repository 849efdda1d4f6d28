"""Tells the index which instances there are, those of a moment together.

A shard that has heard nothing for a while is told at once; then no more than once in a while, of all that have changed
since. So an orchestration that is over in a moment is written down once, with many others.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from holdfast.errors import HoldfastError, Unavailable
from holdfast.identity import qualify
from holdfast.orchestration.index import INSTANCE_INDEX_TYPE, MOST_NOTES, shard_of
from holdfast.orchestration.interface import ORCHESTRATION_TYPE
from holdfast.runtime.gather import Gatherer
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

# How late a list may be of what changed.
PAUSE_SECONDS = 1.0


Entry = dict[str, Any] | None
Look = Callable[[], Entry]


class _News(NamedTuple):
    address: str
    look: Look
    told: asyncio.Future[Entry]


class Listing:
    """All that one process has to tell."""

    _of: ClassVar[weakref.WeakKeyDictionary[HostClient, Listing]] = weakref.WeakKeyDictionary()

    def __init__(self, client: HostClient) -> None:
        # The client keeps this, through the dictionary: held here, it would never go.
        self._client = weakref.ref(client)
        self._waiting: dict[str, dict[str, _News]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, client: HostClient) -> Listing:
        known = cls._of.get(client)
        if known is None:
            known = cls._of[client] = cls(client)
        return known

    async def note(self, tenant: str, instance_id: str, look: Look) -> Entry:
        """What an instance is, or None when it is gone, is looked at when its shard is told. Answers what that was."""
        told: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        shard = shard_of(instance_id, tenant)
        waiting = self._waiting.get(shard)
        if waiting is None:
            waiting = self._waiting[shard] = {}
            self._begin(self._serve(shard, waiting))
        waiting[instance_id] = _News(qualify(tenant, instance_id), look, told)
        return await told

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        # A context of its own: it serves many instances, and belongs to the turn of none.
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, shard: str, waiting: dict[str, _News]) -> None:
        try:
            while waiting:
                await self._tell(shard, {name: waiting.pop(name) for name in list(waiting)[:MOST_NOTES]})
                if len(waiting) < MOST_NOTES:
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            del self._waiting[shard]
            for news in waiting.values():
                news.told.cancel()

    async def _tell(self, shard: str, news: dict[str, _News]) -> None:
        entries = {name: one.look() for name, one in news.items()}
        body = {"notes": [{"instance_id": name, "entry": entry} for name, entry in entries.items()]}
        client = self._client()
        if client is None:
            return  # its host is gone, and so is all that ran there
        try:
            await client.invoke_method(INSTANCE_INDEX_TYPE, shard, "Note", dump(body))
        except Exception as error:
            # Each hears of it, and is asked to try again.
            for one in news.values():
                if not one.told.done():
                    one.told.set_exception(Unavailable(f"The index of instances could not be told: {error}"))
            return
        # Those that have left memory meanwhile would tell the index again each time they come back.
        left = {one.address: entries[name] for name, one in news.items() if one.told.done()}
        for name, one in news.items():
            if not one.told.done():
                one.told.set_result(entries[name])
        if left:
            self._begin(_confirm_all(client, left))


async def _confirm_all(client: HostClient, entries: dict[str, Entry]) -> None:
    for address, entry in entries.items():
        try:
            await confirm(client, address, entry)
        except HoldfastError as error:
            # It tells the index once more, then.
            log.info("%s does not know yet that it is listed: %s", address, error)


async def confirm(client: HostClient, address: str, entry: Entry) -> None:
    """An instance saves what the index knows of it."""
    status = None if entry is None else entry["status"]
    await Gatherer.of(client, ORCHESTRATION_TYPE).call(address, "Listed", dump({"status": status}))
