"""An instance of an orchestration as its callers see it."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.client import run_answers as answers
from holdfast.client.payloads import encode_typed
from holdfast.client.run_calls import LONGEST_WAIT, RunCalls
from holdfast.errors import OrchestrationCancelled
from holdfast.orchestration.definitions import Orchestration, definition_of
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.client.connection import Connection
    from holdfast.client.run_answers import HistoryEvent, OrchestrationStatus
    from holdfast.client.run_calls import Answer

Output = TypeVar("Output")

# A server that hangs keeps nobody much longer than he wanted to wait.
_GRACE_SECONDS = 5.0
# A server that stops answers those who wait at once.
_PAUSE_SECONDS = 0.2


class Run(Generic[Output]):
    """One instance; made by :meth:`Client.start` and :meth:`Client.orchestration`."""

    def __init__(self, calls: RunCalls, definition: Orchestration | None, *, created: bool = False) -> None:
        self._calls = calls
        self._definition = definition
        #: Whether this start began it; False when there was such an instance already.
        self.created = created

    @property
    def instance_id(self) -> str:
        return self._calls.instance_id

    def __repr__(self) -> str:
        return f"Run({self.instance_id!r})"

    async def result(self, timeout: float | None = None) -> Output:
        """Its output, as soon as it has ended: of the declared type where the function is known, else a JSON value.

        Raises ``OrchestrationFailed`` with the ``reason``, ``OrchestrationCancelled``, which is one too, or
        ``TimeoutError`` when the seconds are over; the instance goes on then.
        """
        answer = await self._ended(timeout)
        if answer["status"] == "CANCELLED":
            reason = answer.get("reason")
            told = f"The orchestration {self.instance_id} was cancelled" + (f": {reason}" if reason else ".")
            raise OrchestrationCancelled(told, kind="cancelled", reason=reason, instance_id=self.instance_id)
        if answer["error"] is not None:
            raise answers.failure(answer["error"]).as_error(self.instance_id)
        output: Output = answer["output"]
        if self._definition is not None:
            output = self._definition.result.load(dump(answer["output"]).decode())
        return output

    async def status(self) -> OrchestrationStatus:
        """How it stands now."""
        return answers.status(await self._calls.status())

    async def history(self, execution_id: int | None = None, *, page_size: int = 100) -> AsyncIterator[HistoryEvent]:
        """What happened to it: ``async for event in run.history()``. An earlier execution is asked for by its id."""
        cursor: str | None = None
        while True:
            page = await self._calls.history(page_size, cursor, execution_id)
            for event in page["events"]:
                yield answers.event(event)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def raise_event(self, name: str, data: Any = None, *, event_id: str | None = None) -> None:
        """Raises an event with any JSON value, or pydantic model.

        Dropped when the orchestration waits for none of this name, unless that is one of its mailboxes. Raised again
        with the same ``event_id`` it counts once. Raises ``Conflict`` when the instance has ended.
        """
        await self._calls.raise_event(name, encode_typed(data, "data"), event_id or uuid.uuid4().hex)

    async def cancel(self, reason: str | None = None) -> None:
        """Asks it to end: its code gets a ``CancelledError`` where it waits, and may clean up."""
        await self._calls.cancel(reason)

    async def suspend(self, reason: str | None = None) -> None:
        """Its code rests; what comes meanwhile is kept."""
        await self._calls.suspend(reason)

    async def resume(self) -> None:
        """Its code goes on."""
        await self._calls.resume()

    async def delete(self, *, force: bool = False) -> None:
        """Forgets the instance, whose id is free then. Raises ``Conflict`` unless it has ended, or is forced."""
        await self._calls.delete(force=force)

    async def _ended(self, timeout: float | None) -> Answer:
        clock = asyncio.get_running_loop().time
        until = None if timeout is None else clock() + timeout
        async with nullcontext() if timeout is None else asyncio.timeout(timeout + _GRACE_SECONDS):
            while True:
                wanted = LONGEST_WAIT if until is None else max(0.0, until - clock())
                answer = await self._calls.wait(wanted)
                if answers.ended(answer):
                    return answer
                if until is not None and clock() >= until:
                    raise TimeoutError(
                        f"The orchestration {self.instance_id} has not ended within {timeout:g} s: "
                        f"it is {answer['status']}."
                    )
                await asyncio.sleep(_PAUSE_SECONDS)


async def start(
    connection: Connection, orchestration: Any, given: Any, instance_id: str | None, version: str | None
) -> Run[Any]:
    """What :meth:`Client.start` does."""
    name, definition = named(orchestration)
    if definition is not None:
        version = version or definition.version
    # An id of our own makes it safe to ask again when an answer was lost.
    calls = RunCalls(connection, str(uuid.uuid4()) if instance_id is None else instance_id)
    answer = await calls.start(name, _input(definition, given), version)
    return Run(calls, definition, created=instance_id is None or answer["created"])


def named(orchestration: Any) -> tuple[str, Orchestration | None]:
    """The name of an orchestration, and what is known of it when its function is given."""
    if isinstance(orchestration, str):
        return orchestration, None
    definition = definition_of(orchestration)
    if not isinstance(definition, Orchestration):
        raise TypeError(f"{orchestration!r} is not an orchestration: declare it with @app.orchestration, or name it.")
    return definition.name, definition


def _input(definition: Orchestration | None, given: Any) -> bytes:
    if definition is not None:
        try:
            return definition.input.dump(given).encode()
        except TypeError:
            # Perhaps the same as plain JSON; the server checks it, and says what is wrong and where.
            pass
    return encode_typed(given, "input")
