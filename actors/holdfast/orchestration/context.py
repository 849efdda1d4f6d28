"""What an orchestration's code can ask for: ``ctx``."""

from __future__ import annotations

import asyncio
import logging
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload
from uuid import UUID

from holdfast.identity import MAX_ID_LENGTH, check_id
from holdfast.orchestration import history
from holdfast.orchestration.definitions import ACTIVITIES, Activity, Orchestration, definition_of
from holdfast.orchestration.endings import ContinueAsNew
from holdfast.orchestration.payloads import ANYTHING, Codec, codec, keepable, sendable
from holdfast.orchestration.retry import ONCE, Retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.orchestration.execution import Execution

Input = TypeVar("Input")
Output = TypeVar("Output")


class Context:
    """One execution, as its own code sees it."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._log = ReplayLog(execution)

    @property
    def instance_id(self) -> str:
        return self._execution.instance_id

    @property
    def execution_id(self) -> int:
        """1, and one more after each ``continue_as_new``."""
        return self._execution.execution_id

    @property
    def is_replaying(self) -> bool:
        """Whether this was done before, and is only done again to get to where the code was."""
        return self._execution.replaying

    @property
    def log(self) -> ReplayLog:
        """A logger, ``ctx.log.info("…")`` or just ``ctx.log("…")``, that says nothing twice."""
        return self._log

    def now(self) -> datetime:
        """The time of the history, in UTC: that of the event that woke the code."""
        return datetime.fromtimestamp(self._execution.loop.time(), UTC)

    def random(self) -> float:
        """In [0, 1), and the same again on a replay."""
        return self._execution.random.random()

    def uuid(self) -> UUID:
        """A new one, and the same again on a replay."""
        return UUID(int=self._execution.random.getrandbits(128), version=4)

    def set_status(self, value: Any) -> None:
        """Shown as ``custom_status`` to whoever asks for the status."""
        self._execution.custom_status = keepable(ANYTHING.dump(value), "A status")

    def continue_as_new(self, input: Any = None) -> NoReturn:  # noqa: A002
        """Ends this run by raising; the next one begins with this input and an empty history. Mailboxes stay filled."""
        raise ContinueAsNew(keepable(self._execution.definition.input.dump(input), "An input"))

    @overload
    async def call(
        self, activity: Callable[[Input], Awaitable[Output]], input: Input, *, retry: Retry | None = None
    ) -> Output: ...
    @overload
    async def call(self, activity: Callable[[], Awaitable[Output]], *, retry: Retry | None = None) -> Output: ...
    @overload
    async def call(
        self, activity: Callable[[Input], Output], input: Input, *, retry: Retry | None = None
    ) -> Output: ...
    @overload
    async def call(self, activity: Callable[[], Output], *, retry: Retry | None = None) -> Output: ...
    @overload
    async def call(self, activity: str, input: Any = None, *, retry: Retry | None = None) -> Any: ...
    async def call(self, activity: Any, input: Any = None, *, retry: Retry | None = None) -> Any:  # noqa: A002
        """Has a worker run an activity, and gives its result. Raises ActivityFailed when its last attempt failed."""
        name, definition = self._activity(activity)
        text = sendable((ANYTHING if definition is None else definition.input).dump(input), "An input")
        queue = ACTIVITIES if definition is None else definition.queue
        policy = retry or ONCE
        attempt = 1
        while True:
            answer = await self._ask(history.ActivityScheduled, name=name, input=text, queue=queue, attempt=attempt)
            if isinstance(answer, history.ActivityCompleted):
                return (ANYTHING if definition is None else definition.result).load(answer.result)
            failure = answer.error
            if not policy.allows(attempt, failure):
                raise failure.as_activity_error(name)
            await asyncio.sleep(policy.delay(attempt, self._execution.jitter))
            attempt += 1

    @overload
    async def sub(
        self,
        orchestration: str,
        input: Any = None,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: Literal[False] = False,
    ) -> Any: ...
    @overload
    async def sub(
        self,
        orchestration: Callable[..., Any] | str,
        input: Any = None,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: Literal[True],
    ) -> str: ...
    @overload
    async def sub(
        self,
        orchestration: Callable[[Context, Input], Coroutine[Any, Any, Output]],
        input: Input,
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: Literal[False] = False,
    ) -> Output: ...
    @overload
    async def sub(
        self,
        orchestration: Callable[[Context], Coroutine[Any, Any, Output]],
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: Literal[False] = False,
    ) -> Output: ...
    async def sub(
        self,
        orchestration: Any,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: bool = False,
    ) -> Any:
        """Runs another orchestration, and gives its output. Raises SubOrchestrationFailed when it failed.

        A detached one is only started: it gives the instance's id, and nobody waits for the end.
        """
        definition = self._orchestration(orchestration, version)
        child = self._new_child() if instance_id is None else check_id(instance_id, "instance id")
        fields: dict[str, Any] = {
            "name": definition.name,
            "instance_id": child,
            "input": sendable(definition.input.dump(input), "An input"),
            # The function that is given, not the last that was declared under its name.
            "version": version if isinstance(orchestration, str) else version or definition.version,
        }
        if detached:
            await self._inside()
            self._execution.commands.ask(None, history.SubOrchestrationScheduled, **fields, detached=True)
            return child
        answer = await self._ask(history.SubOrchestrationScheduled, **fields)
        if isinstance(answer, history.SubOrchestrationCompleted):
            return definition.result.load(answer.result)
        raise answer.error.as_sub_error(child)

    @overload
    async def event(self, name: str) -> Any: ...
    @overload
    async def event(self, name: str, type: type[Output]) -> Output: ...
    async def event(self, name: str, type: Any = Any) -> Any:  # noqa: A002
        """Waits for an event of that name. One that is raised when nothing waits for it is dropped."""
        if name in self._execution.mailboxes:
            raise ValueError(f"{name} is a mailbox of this orchestration: await ctx.receive({name!r}).")
        expected = codec(type)
        answer = await self._ask(history.EventSubscribed, codec=expected, name=check_id(name, "event name"))
        return expected.load(answer.data)

    @overload
    async def receive(self, mailbox: str) -> Any: ...
    @overload
    async def receive(self, mailbox: str, type: type[Output]) -> Output: ...
    async def receive(self, mailbox: str, type: Any = Any) -> Any:  # noqa: A002
        """The oldest event of a mailbox, as soon as there is one. What is raised under its name is never dropped."""
        if mailbox not in self._execution.mailboxes:
            raise ValueError(
                f"This orchestration has no mailbox {mailbox}: declare it, @app.orchestration(mailboxes=[{mailbox!r}])."
            )
        await self._inside()
        return codec(type).load(await self._execution.mailboxes.take(mailbox))

    async def _ask(self, kind: type[history.Event], codec: Codec | None = None, **fields: Any) -> Any:
        await self._inside()
        promise = self._execution.loop.create_promise()
        self._execution.commands.ask(promise, kind, codec, **fields)
        return await promise

    async def _inside(self) -> None:
        loop = self._execution.loop
        if not loop.is_inside():
            # The instance leaves memory, and this is its clean-up. It waits for nothing: an error would be caught by
            # code that tries again and again.
            await loop.create_future()

    def _activity(self, activity: Any) -> tuple[str, Activity | None]:
        if isinstance(activity, str):
            # Its worker may be another program's.
            return activity, self._execution.registry.activity(activity)
        definition = definition_of(activity)
        if not isinstance(definition, Activity):
            raise TypeError(f"{activity!r} is not an activity: declare it with @app.activity.")
        return definition.name, definition

    def _orchestration(self, orchestration: Any, version: str | None) -> Orchestration:
        if isinstance(orchestration, str):
            return self._execution.registry.orchestration(orchestration, version)
        definition = definition_of(orchestration)
        if not isinstance(definition, Orchestration):
            raise TypeError(f"{orchestration!r} is not an orchestration: declare it with @app.orchestration.")
        return definition

    def _new_child(self) -> str:
        # With something of this instance's own: what an earlier one of its id had started may still be there.
        life = zlib.crc32(self._execution.started.seed.encode()) & 0xFFFF
        child = f"{self.instance_id}:{life:04x}.{self.execution_id}.{self._execution.next_child()}"
        return child if len(child) <= MAX_ID_LENGTH else str(self.uuid())


class ReplayLog(logging.LoggerAdapter[logging.Logger]):
    """Silent while the code does again what it did before."""

    def __init__(self, execution: Execution) -> None:
        details = {"instance_id": execution.instance_id, "execution_id": execution.execution_id}
        super().__init__(logging.getLogger(f"holdfast.orchestrations.{execution.definition.name}"), details)
        self._execution = execution

    def __call__(self, message: object, *args: object) -> None:
        # One frame more: the line that is told is the author's.
        self.info(message, *args, stacklevel=2)

    def isEnabledFor(self, level: int) -> bool:
        return not self._execution.replaying and not self._execution.loop.is_closed() and super().isEnabledFor(level)
