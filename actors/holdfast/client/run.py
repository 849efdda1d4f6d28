"""The client's interface to one orchestration instance."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.client import run_models as answers
from holdfast.client.api.encoding import encode_typed
from holdfast.client.api.orchestrations import LONGEST_WAIT, RunCalls
from holdfast.errors import OrchestrationCancelled
from holdfast.orchestration.definitions import Orchestration, definition_of
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.client.api.connection import Connection
    from holdfast.client.api.orchestrations import Answer
    from holdfast.client.run_models import HistoryEvent, OrchestrationStatus

Output = TypeVar("Output")

# The caller's timeout is exceeded by at most this if the server hangs.
_GRACE_SECONDS = 5.0
# A server that is shutting down answers waiting calls at once: do not repeat them in a tight loop.
_PAUSE_SECONDS = 0.2


class Run(Generic[Output]):
    """One instance; made by :meth:`Client.start` and :meth:`Client.orchestration`."""

    def __init__(self, calls: RunCalls, definition: Orchestration | None, *, created: bool = False) -> None:
        self._calls = calls
        self._definition = definition
        #: Whether this call started the instance; False when it existed already.
        self.created = created

    @property
    def instance_id(self) -> str:
        return self._calls.instance_id

    def __repr__(self) -> str:
        return f"Run({self.instance_id!r})"

    async def result(self, timeout: float | None = None) -> Output:
        """Waits for the end of the instance and returns its output.

        The output has the declared type if the function is known, else it is a JSON value. Raises
        ``OrchestrationFailed``, its subclass ``OrchestrationCancelled`` with the ``reason``, or ``TimeoutError`` after
        ``timeout`` seconds; the instance keeps running then.
        """
        answer = await self._ended(timeout)
        if answer["status"] == "CANCELLED":
            reason = answer.get("reason")
            message = f"The orchestration {self.instance_id} was cancelled" + (f": {reason}" if reason else ".")
            raise OrchestrationCancelled(message, kind="cancelled", reason=reason, instance_id=self.instance_id)
        if answer["error"] is not None:
            raise answers.failure(answer["error"]).as_error(self.instance_id)
        output: Output = answer["output"]
        if self._definition is not None:
            output = self._definition.result.load(dump(answer["output"]).decode())
        return output

    async def status(self) -> OrchestrationStatus:
        """Returns the instance's current status."""
        return answers.status(await self._calls.status())

    async def history(self, execution_id: int | None = None, *, page_size: int = 100) -> AsyncIterator[HistoryEvent]:
        """Iterates over the history: ``async for event in run.history()``. Default: the current execution."""
        cursor: str | None = None
        while True:
            page = await self._calls.history(page_size, cursor, execution_id)
            for event in page["events"]:
                yield answers.event(event)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def raise_event(self, name: str, data: Any = None, *, event_id: str | None = None) -> bool:
        """Sends an event to the instance and returns whether it was delivered; ``data`` is JSON or a pydantic model.

        It is delivered if its name is a mailbox or the code waits for it, and dropped otherwise. Events with the same
        ``event_id`` count once: the last 1000 ids of an instance are kept, across ``continue_as_new`` and after its
        end. Raises ``Conflict`` when the instance has ended.
        """
        answer = await self._calls.raise_event(name, encode_typed(data, "data"), event_id or uuid.uuid4().hex)
        delivered: bool = answer["delivered"]
        return delivered

    async def request(
        self, name: str, data: Any = None, *, timeout: float | None = 30, request_id: str | None = None
    ) -> Any:
        """Makes a request and returns the reply of the orchestration's code, as a JSON value.

        ``data`` is a JSON value or a pydantic model. The same ``request_id`` gives the first reply again, also after
        the end: the last 1000 replies of an instance are kept. Raises ``Rejected`` with the message of the code,
        ``Conflict`` when the instance has ended without a reply, or ``TimeoutError`` after ``timeout`` seconds; then
        :meth:`reply` returns the reply later.
        """
        request_id = uuid.uuid4().hex if request_id is None else request_id
        text = encode_typed(data, "data")
        return await self._replied(request_id, timeout, lambda left: self._calls.request(name, text, request_id, left))

    async def reply(self, request_id: str, *, timeout: float | None = 30) -> Any:
        """Returns the reply to an earlier request, as :meth:`request` does. Raises ``NotFound`` for an unknown id."""
        return await self._replied(request_id, timeout, lambda left: self._calls.reply(request_id, left))

    async def cancel(self, reason: str | None = None) -> None:
        """Cancels the instance: its code gets a ``CancelledError`` at its ``await``, and may clean up."""
        await self._calls.cancel(reason)

    async def suspend(self, reason: str | None = None) -> None:
        """Suspends the instance: its code does not run, and incoming events and results are kept."""
        await self._calls.suspend(reason)

    async def resume(self) -> None:
        """Resumes a suspended instance."""
        await self._calls.resume()

    async def rerun(
        self,
        *,
        from_seq: int | None = None,
        from_failure: bool = False,
        instance_id: str | None = None,
        version: str | None = None,
        execution_id: int | None = None,
    ) -> Run[Output]:
        """Starts a new instance from a part of the history of this one, which does not change, and returns it.

        The events before ``from_seq`` are copied; ``from_failure`` cuts before the last failure of an activity or a
        sub-orchestration. Without both it starts from the beginning, with the same input. ``version`` is the version of
        this instance unless given, and ``execution_id`` its latest execution. Raises ``Conflict`` when there is no
        failure, when the id is in use, or when the deployed code does not fit the copied events.
        """
        fields = {
            "from_seq": from_seq,
            "from": "failure" if from_failure else None,
            "version": version,
            "execution_id": execution_id,
        }
        # The id is chosen here, so that the call can be repeated when a response is lost.
        made_id = str(uuid.uuid4()) if instance_id is None else instance_id
        answer = await self._calls.rerun(made_id, fields)
        return Run(self._calls.of(made_id), self._definition, created=instance_id is None or answer["created"])

    async def delete(self, *, force: bool = False) -> None:
        """Deletes the instance and frees its id. Raises ``Conflict`` if it has not ended, unless ``force`` is set."""
        await self._calls.delete(force=force)

    async def _replied(self, request_id: str, timeout: float | None, call: Callable[[float], Awaitable[Answer]]) -> Any:
        clock = asyncio.get_running_loop().time
        until = None if timeout is None else clock() + timeout
        async with nullcontext() if timeout is None else asyncio.timeout(timeout + _GRACE_SECONDS):
            while True:
                answer = await call(LONGEST_WAIT if until is None else max(0.0, until - clock()))
                if "reply" in answer:
                    return answer["reply"]
                if until is not None and clock() >= until:
                    raise TimeoutError(
                        f"The orchestration {self.instance_id} has not replied to the request {request_id} "
                        f"within {timeout:g} s."
                    )
                await asyncio.sleep(_PAUSE_SECONDS)

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
    connection: Connection,
    orchestration: Any,
    given: Any,
    instance_id: str | None,
    version: str | None,
    options: dict[str, Any],
) -> Run[Any]:
    """Implements :meth:`Client.start`."""
    name, definition = named(orchestration)
    if definition is not None:
        version = version or definition.version
    # The id is chosen here, so that the call can be repeated when a response is lost.
    calls = RunCalls(connection, str(uuid.uuid4()) if instance_id is None else instance_id)
    answer = await calls.start(name, input_text(definition, given), version, options)
    return Run(calls, definition, created=instance_id is None or answer["created"])


def named(orchestration: Any) -> tuple[str, Orchestration | None]:
    """Returns the name of an orchestration, and its definition if its function is given."""
    if isinstance(orchestration, str):
        return orchestration, None
    definition = definition_of(orchestration)
    if not isinstance(definition, Orchestration):
        raise TypeError(f"{orchestration!r} is not an orchestration: declare it with @app.orchestration, or name it.")
    return definition.name, definition


def input_text(definition: Orchestration | None, given: Any) -> bytes:
    if definition is not None:
        try:
            return definition.input.dump(given).encode()
        except TypeError:
            # It may still be valid as plain JSON: the server checks it, and reports what is wrong and where.
            pass
    return encode_typed(given, "input")
