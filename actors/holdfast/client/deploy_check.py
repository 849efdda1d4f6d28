"""Replays the running instances of a server with the code to be deployed, to find those it would block."""

from __future__ import annotations

import asyncio
from random import randrange
from typing import TYPE_CHECKING, Any

from holdfast.client.api.orchestration_lists import list_runs
from holdfast.client.api.orchestrations import RunCalls
from holdfast.client.run_models import DeployCheck, WouldBlock, ended
from holdfast.errors import (
    AnswerLost,
    ClientClosed,
    ConnectionFailed,
    Forbidden,
    HoldfastError,
    NotFound,
    Unauthorized,
    Unavailable,
)
from holdfast.orchestration.status import NOT_ENDED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.client.api.connection import Connection
    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.registry import Registry

    Answer = dict[str, Any]

# Each has the history of one instance in memory.
_AT_ONCE = 4
_LISTED_AT_ONCE = 100
_EVENTS_AT_ONCE = 1000
_ATTEMPTS = 5
_FIRST_PAUSE = 0.2

#: Errors that concern the server or the token, not one instance.
_FATAL = (ConnectionFailed, AnswerLost, ClientClosed, Unauthorized, Forbidden)


async def check_deploy(
    connection: Connection,
    registry: Registry,
    *,
    name: str | None = None,
    sample: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> DeployCheck:
    """Implements :meth:`Client.check`."""
    check = _Check(connection, registry, progress)
    instances = _not_ended(connection, name)
    try:
        if sample is None:
            await check.run(instances)
            count = check.begun
        else:
            count, chosen = await _sampled(instances, sample)
            await check.run(_each(chosen))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    blocked = sorted(check.blocked, key=lambda found: found.instance_id)
    return DeployCheck(count, check.checked, blocked, check.unchecked)


class _Check:
    def __init__(self, connection: Connection, registry: Registry, progress: Callable[[int], None] | None) -> None:
        self.begun = self.checked = 0
        self.blocked: list[WouldBlock] = []
        self.unchecked: dict[str, str] = {}
        self._connection = connection
        self._registry = registry
        self._progress = progress
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._done = 0

    async def run(self, instances: AsyncIterator[Answer]) -> None:
        async with asyncio.TaskGroup() as checks:
            async for found in instances:
                await self._room.acquire()
                self.begun += 1
                checks.create_task(self._check(found["instance_id"]))

    async def _check(self, instance_id: str) -> None:
        try:
            found = await self._insist(instance_id)
        except _FATAL:
            raise
        except HoldfastError as error:
            self.unchecked[instance_id] = error.message
        except Exception as error:
            # One broken instance must not prevent the check of the others.
            self.unchecked[instance_id] = f"{type(error).__name__}: {error}"
        else:
            self.checked += 1
            if found is not None:
                self.blocked.append(found)
        finally:
            self._room.release()
        self._done += 1
        if self._progress is not None:
            self._progress(self._done)

    async def _insist(self, instance_id: str) -> WouldBlock | None:
        pause = _FIRST_PAUSE
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._find(instance_id)
            except HoldfastError as error:
                if not error.retryable or isinstance(error, _FATAL):
                    raise
            await asyncio.sleep(pause)
            pause *= 2
        return await self._find(instance_id)

    async def _find(self, instance_id: str) -> WouldBlock | None:
        """Replays one instance. Raises Unavailable when it has changed too much meanwhile to be sure of a finding."""
        from holdfast.orchestration.core.history import ENDINGS
        from holdfast.orchestration.core.replayer import find_obstacle

        calls = RunCalls(self._connection, instance_id)
        history = await _history(calls)
        if history is None:
            return None  # deleted
        events, begun = history
        if isinstance(events[-1], ENDINGS[:-1]):
            return None
        reason = find_obstacle(self._registry, instance_id, events, begun=begun)
        if reason is None:
            return None
        try:
            status = await calls.status()
            [first] = (await calls.history(1, None, recorded=True))["events"]
        except NotFound:
            return None
        if ended(status):
            return None
        if (first["seed"], first["execution_id"]) != _origin(events):
            # What was read may be of two instances, one after the other, or of an execution that has ended.
            raise Unavailable("It changes faster than it can be read.")
        place = {key: status[key] for key in ("instance_id", "name", "version", "status")}
        return WouldBlock(**place, **{key: reason[key] for key in ("kind", "message", "expected", "found", "line")})


async def _history(calls: RunCalls) -> tuple[list[Event], bool] | None:
    """Reads all events of the current execution, and whether it has begun. Returns None when it does not exist."""
    from holdfast.orchestration.core.history import load_event

    try:
        page = await calls.history(_EVENTS_AT_ONCE, None, recorded=True)
    except NotFound:
        return None
    events = [load_event(event) for event in page["events"]]
    while (cursor := page.get("next_cursor")) is not None:
        try:
            # Of the same execution: what was read up to here would not fit to the next one.
            page = await calls.history(_EVENTS_AT_ONCE, cursor, events[0].execution_id, recorded=True)
        except NotFound:
            raise Unavailable("Its history was deleted while it was read.") from None
        events += [load_event(event) for event in page["events"]]
    return events, page.get("begun", True)


def _origin(events: list[Event]) -> tuple[str, int]:
    from holdfast.orchestration.core.history import OrchestrationStarted

    started = events[0]
    assert isinstance(started, OrchestrationStarted)
    return started.seed, started.execution_id


async def _not_ended(connection: Connection, name: str | None) -> AsyncIterator[Answer]:
    selected: Answer = {"status": [*NOT_ENDED], **({} if name is None else {"name": name})}
    cursor: str | None = None
    while True:
        page = await list_runs(connection, selected, _LISTED_AT_ONCE, cursor, "oldest")
        for found in page["orchestrations"]:
            yield found
        cursor = page.get("next_cursor")
        if cursor is None:
            return


async def _sampled(instances: AsyncIterator[Answer], size: int) -> tuple[int, list[Answer]]:
    """Returns the number of instances, and a random sample of each version of each orchestration."""
    samples: dict[tuple[str, str], list[Answer]] = {}
    seen: dict[tuple[str, str], int] = {}
    async for found in instances:
        key = (found["name"], found["version"])
        sample = samples.setdefault(key, [])
        seen[key] = seen.get(key, 0) + 1
        if len(sample) < size:
            sample.append(found)
        elif (place := randrange(seen[key])) < size:
            sample[place] = found
    return sum(seen.values()), [found for sample in samples.values() for found in sample]


async def _each(found: list[Answer]) -> AsyncIterator[Answer]:
    for one in found:
        yield one
