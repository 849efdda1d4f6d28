"""Looks at watched things once a second, once for all streams of a tenant, and tells the streams what has changed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, HostStopping, RateLimited
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

log = logging.getLogger(__name__)

#: How many streams may be open at once: in all, and of one tenant.
MOST_STREAMS = 200
MOST_OF_TENANT = 40
INTERVAL_SECONDS = 1.0
# At most one part in this many of the time is spent looking.
_SHARE = 10


class Stream:
    """One listener. It remembers the names of changed topics, so it needs bounded memory, however slowly it reads."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)
        self._changed: set[str] = set()
        self._wakeup = asyncio.Event()
        self.ended = False

    def notify(self, topic: str) -> None:
        self._changed.add(topic)
        self._wakeup.set()

    def end(self) -> None:
        self.ended = True
        self._wakeup.set()

    async def changes(self, seconds: float) -> list[str]:
        """Returns the topics that have changed since the last call; empty after this time, and when it has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()
        self._wakeup.clear()
        changed, self._changed = sorted(self._changed), set()
        return changed


class Watches:
    """The streams of one server."""

    def __init__(self, look: Callable[[str, str], Awaitable[Any]]) -> None:
        self._look = look
        self._streams: defaultdict[str, set[Stream]] = defaultdict(set)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: The last state of each topic, by tenant.
        self._states: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        self._stopping = False

    def begin_stop(self) -> None:
        """Ends all streams now and refuses later ones."""
        self._stopping = True
        for streams in self._streams.values():
            for stream in streams:
                stream.end()

    @contextmanager
    def open(self, tenant: str, topics: Collection[str]) -> Iterator[Stream]:
        """Opens a stream, which first reports each topic once. Raises RateLimited when too many are open."""
        if self._stopping:
            raise HostStopping
        # Not indexed, which would keep the name of every tenant that is refused.
        if (
            len(self._streams.get(tenant, ())) >= MOST_OF_TENANT
            or sum(map(len, self._streams.values())) >= MOST_STREAMS
        ):
            raise RateLimited("Too many event streams are open. Ask for the state instead.", retry_after=30)
        stream = Stream(topics)
        for topic in stream.topics & self._states[tenant].keys():
            stream.notify(topic)
        self._streams[tenant].add(stream)
        if tenant not in self._tasks:
            # In a context of its own: it outlives the request that begins it.
            task = asyncio.create_task(self._follow(tenant), context=contextvars.Context())
            task.add_done_callback(partial(self._ended, tenant))
            self._tasks[tenant] = task
        try:
            yield stream
        finally:
            self._streams[tenant].discard(stream)
            if not self._streams[tenant]:
                del self._streams[tenant]
                self._states.pop(tenant, None)
                self._tasks.pop(tenant).cancel()

    def _ended(self, tenant: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the events of tenant %s ended with an error; their streams are closed", tenant, exc_info=error)
            for stream in self._streams.get(tenant, ()):
                stream.end()

    async def _follow(self, tenant: str) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            streams = self._streams[tenant]
            watched = {topic for stream in streams for topic in stream.topics}
            states = self._states[tenant]
            for topic in states.keys() - watched:
                del states[topic]
            for topic in sorted(watched):
                try:
                    state = dump(await self._look(tenant, topic))
                except HoldfastError as error:
                    state = error.code.encode()
                if states.get(topic) != state:
                    states[topic] = state
                    for stream in streams:
                        if topic in stream.topics:
                            stream.notify(topic)
            await asyncio.sleep(max(INTERVAL_SECONDS, _SHARE * (clock() - began)))
