"""The context, ``ctx``, through which an orchestration calls activities, starts children and waits for events."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar, overload
from uuid import UUID, uuid5

from holdfast.errors import UnknownOrchestration
from holdfast.logs import about
from holdfast.names import MAX_ID_LENGTH, check_id
from holdfast.orchestration.core import history
from holdfast.orchestration.core.blocking_errors import undeclared_box
from holdfast.orchestration.core.box_keys import request_box
from holdfast.orchestration.core.child_ids import child_prefix
from holdfast.orchestration.core.effects import ABANDON
from holdfast.orchestration.core.outcome import ContinueAsNew
from holdfast.orchestration.core.payloads import ANYTHING, Codec, codec, keepable, sendable
from holdfast.orchestration.core.requests import Request
from holdfast.orchestration.definitions import ACTIVITIES, Activity, Orchestration, definition_of
from holdfast.orchestration.loop.source_lines import line_of_caller
from holdfast.orchestration.retry import ONCE, Retry
from holdfast.pushpop.api.requests import MAX_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from holdfast.errors import NonDeterminism
    from holdfast.orchestration.core.execution import Execution

#: In place of a type: the type that a mailbox or a request is declared with.
DECLARED: Any = object()

Input = TypeVar("Input")
Output = TypeVar("Output")
#: What becomes of an awaited child when its parent ends or stops waiting for it.
OnParentEnd: TypeAlias = Literal["cancel", "abandon"]


class Context:
    """The interface of one execution to the orchestration function that runs in it."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._log = ReplayLog(execution)

    @property
    def instance_id(self) -> str:
        """The id of the instance. In the copied steps of a rerun it is that of its source, whose calls may name it."""
        return self._execution.maker[0]

    @property
    def execution_id(self) -> int:
        """The number of this execution: 1 for the first, incremented by each ``continue_as_new``."""
        return self._execution.execution_id

    @property
    def is_replaying(self) -> bool:
        """Whether the code is replaying recorded history, as opposed to running for the first time."""
        return self._execution.replaying

    @property
    def log(self) -> ReplayLog:
        """A logger, ``ctx.log.info("…")`` or just ``ctx.log("…")``, that is silent during a replay."""
        return self._log

    def now(self) -> datetime:
        """Returns the timestamp, in UTC, of the event that is being processed. A replay returns the same."""
        return datetime.fromtimestamp(self._execution.loop.time(), UTC)

    def random(self) -> float:
        """Returns a random number in [0, 1). A replay returns the same number."""
        return self._execution.random.random()

    def uuid(self) -> UUID:
        """Returns a random UUID. A replay returns the same UUID."""
        return UUID(int=self._execution.random.getrandbits(128), version=4)

    def set_status(self, value: Any) -> None:
        """Sets the ``custom_status`` that is shown with the status of the instance."""
        self._execution.custom_status = keepable(ANYTHING.dump(value), "A status")

    def set_tags(self, tags: Mapping[str, str | None]) -> None:
        """Sets tags of the instance and keeps its others; None removes a tag.

        An instance has 20 tags at most: keys of 1 to 64 letters, digits and ``-_.``, values of up to 255 characters.
        They stay over ``continue_as_new`` and after the end.
        """
        if self._execution.loop.is_inside():
            self._execution.commands.ask(None, history.TagsSet, tags=self._execution.tags.change(tags))

    def patched(self, id: str) -> bool:  # noqa: A002
        """Returns True, and marks the patch in the history; False where a history without the mark is replayed.

        ``if ctx.patched("2026-12-tax"):`` is around code that running instances may not have reached yet: what an
        instance did before the deploy it does again, and from then on it takes the new path.
        """
        return self._execution.patched(check_id(id, "id of a patch"))

    def continue_as_new(self, input: Any = None, *, version: str | None = None) -> NoReturn:  # noqa: A002
        """Ends this execution by raising, and starts the next one with ``input`` and an empty history.

        Unread mail stays in its mailboxes. The next execution has the same version, unless another is given:
        ``"latest"`` is the one declared last.
        """
        if version is None:
            text = self._execution.definition.input.dump(input)
        else:
            # This version may not know the types of the other one.
            text = ANYTHING.dump(input)
            version = self._following(version, text)
        following = ContinueAsNew(keepable(text, "An input"), version)
        self._execution.continuing = True
        raise following

    @overload
    async def call(
        self,
        activity: Callable[[Input], Awaitable[Output]],
        input: Input,
        *,
        retry: Retry | None = None,
        priority: int | None = None,
    ) -> Output: ...
    @overload
    async def call(
        self, activity: Callable[[], Awaitable[Output]], *, retry: Retry | None = None, priority: int | None = None
    ) -> Output: ...
    @overload
    async def call(
        self,
        activity: Callable[[Input], Output],
        input: Input,
        *,
        retry: Retry | None = None,
        priority: int | None = None,
    ) -> Output: ...
    @overload
    async def call(
        self, activity: Callable[[], Output], *, retry: Retry | None = None, priority: int | None = None
    ) -> Output: ...
    @overload
    async def call(
        self, activity: str, input: Any = None, *, retry: Retry | None = None, priority: int | None = None
    ) -> Any: ...
    async def call(
        self,
        activity: Any,
        input: Any = None,  # noqa: A002
        *,
        retry: Retry | None = None,
        priority: int | None = None,
    ) -> Any:
        """Runs an activity on a worker and returns its result. Raises ActivityFailed when its last attempt failed.

        ``priority`` is that of the item in the worker queue, where the lowest runs first; by default, the instance's.
        """
        try:
            name, definition = self._activity(activity)
        except TypeError as error:
            await self._miss(history.ActivityScheduled, _name_of(activity), error)
        text = sendable((ANYTHING if definition is None else definition.input).dump(input), "An input")
        queue = ACTIVITIES if definition is None else definition.queue
        fields: dict[str, Any] = {"name": name, "input": text, "queue": queue, "priority": self._priority(priority)}
        policy = retry or ONCE
        attempt = 1
        while True:
            answer = await self._ask(history.ActivityScheduled, **fields, attempt=attempt)
            if isinstance(answer, history.ActivityCompleted):
                try:
                    return (ANYTHING if definition is None else definition.result).load(answer.result)
                except Exception as error:
                    await self._execution.refuse_value(error, f"The result of the activity {name}", answer, name)
            failure = answer.error
            if not policy.allows(attempt, failure):
                raise failure.as_activity_error(name)
            if answer.heartbeat_details is not None:
                fields["heartbeat_details"] = answer.heartbeat_details
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
        on_parent_end: OnParentEnd = "cancel",
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
        on_parent_end: OnParentEnd = "cancel",
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
        on_parent_end: OnParentEnd = "cancel",
    ) -> Output: ...
    @overload
    async def sub(
        self,
        orchestration: Callable[[Context], Coroutine[Any, Any, Output]],
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: Literal[False] = False,
        on_parent_end: OnParentEnd = "cancel",
    ) -> Output: ...
    async def sub(
        self,
        orchestration: Any,
        input: Any = None,  # noqa: A002
        *,
        instance_id: str | None = None,
        version: str | None = None,
        detached: bool = False,
        on_parent_end: OnParentEnd = "cancel",
    ) -> Any:
        """Runs another orchestration and returns its output. Raises SubOrchestrationFailed when it failed.

        With ``detached`` the child is only started: the call returns its instance id without waiting for its end. A
        child that is awaited is cancelled when this instance ends or stops waiting, unless ``on_parent_end`` is
        ``"abandon"``.
        """
        if on_parent_end not in ("cancel", "abandon"):
            raise ValueError("on_parent_end is 'cancel' or 'abandon'.")
        definition = await self._orchestration(orchestration, version)
        text = sendable(definition.input.dump(input), "An input")
        generated = False
        if instance_id is None:
            child, generated = self._new_child(definition.name, text)
        else:
            child = check_id(instance_id, "instance id")
        fields: dict[str, Any] = {
            "name": definition.name,
            "instance_id": child,
            "input": text,
            # The version of the given function, which need not be the last version declared under its name.
            "version": version if isinstance(orchestration, str) else version or definition.version,
        }
        if on_parent_end == ABANDON:
            fields["on_parent_end"] = ABANDON
        if detached:
            await self._inside()
            self._execution.commands.ask(None, history.SubOrchestrationScheduled, **fields, detached=True)
            return child
        command = await self._give(history.SubOrchestrationScheduled, generated_id=generated, **fields)
        answer = await command.promise
        if isinstance(answer, history.SubOrchestrationCompleted):
            try:
                return definition.result.load(answer.result)
            except Exception as error:
                subject = f"The result of the sub-orchestration {definition.name}"
                await self._execution.refuse_value(error, subject, answer, definition.name)
        # The recorded id: the one that was generated in this replay may differ.
        raise answer.error.as_sub_error(command.event.instance_id)

    @overload
    async def event(self, name: str) -> Any: ...
    @overload
    async def event(self, name: str, type: type[Output]) -> Output: ...
    async def event(self, name: str, type: Any = Any) -> Any:  # noqa: A002
        """Waits for an event called ``name`` and returns its data. Events raised while no call waits are dropped."""
        if name in self._execution.mailboxes:
            raise ValueError(f"{name} is a mailbox of this orchestration: await ctx.receive({name!r}).")
        expected = codec(type)
        answer = await self._ask(history.EventSubscribed, codec=expected, name=check_id(name, "event name"))
        try:
            return expected.load(answer.data)
        except Exception as error:
            await self._execution.refuse_value(error, f"The data of the event {name}", answer, name)

    @overload
    async def receive(self, mailbox: str) -> Any: ...
    @overload
    async def receive(self, mailbox: str, type: type[Output]) -> Output: ...
    async def receive(self, mailbox: str, type: Any = DECLARED) -> Any:  # noqa: A002
        """Waits for the oldest unread event of a mailbox and returns its data. Mail is never dropped.

        Without a ``type`` the data has the type that the mailbox is declared with.
        """
        if mailbox not in self._execution.mailboxes:
            if self._execution.has_lost_mailbox(mailbox):
                await self._stop(undeclared_box(mailbox, line_of_caller()))
            raise ValueError(
                f"This orchestration has no mailbox {mailbox}: declare it, @app.orchestration(mailboxes=[{mailbox!r}])."
            )
        await self._inside()
        mail = await self._execution.mailboxes.take(mailbox, self._execution.loop.time())
        declared = self._execution.definition.mailboxes
        as_declared = type is DECLARED and declared.is_typed(mailbox)
        try:
            return (declared.codec(mailbox) if type is DECLARED else codec(type)).load(mail.data)
        except Exception as error:
            subject = f"Mail of the mailbox {mailbox}"
            await self._execution.refuse_value(error, subject, mail, mailbox, as_declared=as_declared)

    def _following(self, version: str, text: history.Json) -> str:
        """Returns the version that the next execution begins with. Raises InvalidRequest if it does not take the input.

        A version that is not deployed blocks the instance where the next execution begins.
        """
        try:
            definition = self._execution.registry.orchestration(self._execution.definition.name, version)
        except UnknownOrchestration:
            return version
        definition.input.check(text, f"The input of version {definition.version}")
        return definition.version

    @overload
    async def request(self, name: str) -> Request[Any]: ...
    @overload
    async def request(self, name: str, type: type[Output]) -> Request[Output]: ...
    async def request(self, name: str, type: Any = DECLARED) -> Request[Any]:  # noqa: A002
        """Waits for the oldest unread request of this name. Answer it with its ``reply`` or ``reject``.

        Without a ``type`` its data has the type that the request is declared with. A request that does not fit a
        ``type`` given here is answered with an error, and the next one is waited for.
        """
        execution = self._execution
        if not execution.requests.declares(name):
            if execution.has_lost_request(name):
                await self._stop(undeclared_box(request_box(name), line_of_caller()))
            raise ValueError(
                f"This orchestration has no request {name}: declare it, @app.orchestration(requests=[{name!r}])."
            )
        declared = execution.definition.requests
        expected = declared.codec(name) if type is DECLARED else codec(type)
        while True:
            await self._inside()
            mail = await execution.requests.take(name, execution.loop.time())
            assert mail.request_id is not None
            try:
                data = expected.load(mail.data)
            except Exception as error:
                as_declared = type is DECLARED and declared.is_typed(name)
                await execution.refuse_request(error, mail, name, as_declared=as_declared)
            else:
                return Request(mail.request_id, data, partial(self._answer, name, mail.request_id))

    def _answer(self, name: str, request_id: str, **answer: Any) -> None:
        execution = self._execution
        # Not while the instance is being evicted from memory: this is a clean-up handler of its code then.
        if execution.loop.is_inside():
            execution.requests.answer(execution.commands, name, request_id, **answer)

    async def _ask(self, kind: type[history.Event], codec: Codec | None = None, **fields: Any) -> Any:
        return await (await self._give(kind, codec, **fields)).promise

    async def _give(self, kind: type[history.Event], codec: Codec | None = None, **fields: Any) -> Any:
        """Issues a command, and returns it; the event that answers it resolves its promise."""
        await self._inside()
        promise = self._execution.loop.create_promise()
        return self._execution.commands.ask(promise, kind, codec, **fields)

    async def _inside(self) -> None:
        loop = self._execution.loop
        if not loop.is_inside():
            # The instance is being evicted from memory, and this is a clean-up handler of its code. Block forever
            # instead of raising: code that retries in a loop would catch the error and never end.
            await loop.create_future()

    async def _stop(self, obstacle: NonDeterminism) -> NoReturn:
        self._execution.obstruct(obstacle)
        await self._execution.end_of_step()
        raise obstacle

    async def _miss(self, kind: type[history.Event], name: str, error: Exception) -> NoReturn:
        """Raises ``error`` for a call without a definition, or blocks the instance when the call is recorded."""
        if self._execution.misses_definition(kind, name, str(error)):
            await self._execution.end_of_step()
        raise error

    def _activity(self, activity: Any) -> tuple[str, Activity | None]:
        if isinstance(activity, str):
            # An activity called by name may be declared by another program, whose worker runs it.
            return activity, self._execution.registry.activity(activity)
        definition = definition_of(activity)
        if not isinstance(definition, Activity):
            raise TypeError(f"{_name_of(activity)} is not an activity: declare it with @app.activity.")
        return definition.name, definition

    def _priority(self, given: int | None) -> int | None:
        if given is None:
            return self._execution.started.priority
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_PRIORITY:
            raise ValueError(f"A priority is an integer from 0 to {MAX_PRIORITY}.")
        return given or None

    async def _orchestration(self, orchestration: Any, version: str | None) -> Orchestration:
        given: Orchestration | None = None
        name = orchestration
        if not isinstance(orchestration, str):
            definition = definition_of(orchestration)
            if not isinstance(definition, Orchestration):
                unmarked = _name_of(orchestration)
                error = TypeError(f"{unmarked} is not an orchestration: declare it with @app.orchestration.")
                await self._miss(history.SubOrchestrationScheduled, unmarked, error)
            given, name, version = definition, definition.name, definition.version
        try:
            found = self._execution.registry.orchestration(name, version)
        except UnknownOrchestration as unknown:
            await self._miss(history.SubOrchestrationScheduled, name, unknown)
        return given or found

    def _new_child(self, name: str, text: history.Json) -> tuple[str, bool]:
        """Returns an id for a child, and whether it is new: a replay finds the recorded id of the same call."""
        execution = self._execution
        # Children of an earlier instance with the same id may still exist: the seed distinguishes the two.
        prefix = child_prefix(*execution.maker, self.execution_id)
        child = f"{prefix}{execution.next_child()}"
        if len(child) > MAX_ID_LENGTH:
            # A rerun has the same random numbers as its source, but not the same children.
            child = str(uuid5(self.uuid(), execution.maker[1]))
            recorded = execution.recorded_child(name, text, _is_uuid)
        else:
            recorded = execution.recorded_child(name, text, lambda known: known.startswith(prefix))
        return (child, True) if recorded is None else (recorded, False)


def _name_of(given: Any) -> str:
    """Returns the name of a function, without its address, which differs in each process."""
    name = getattr(given, "__name__", None)
    return name if isinstance(name, str) else f"A value of type {type(given).__name__}"


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


class ReplayLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that is silent while its execution replays."""

    def __init__(self, execution: Execution) -> None:
        of: dict[str, Any] = {"instance_id": execution.instance_id, "execution_id": execution.execution_id}
        details = of | about(**of)
        super().__init__(logging.getLogger(f"holdfast.orchestrations.{execution.definition.name}"), details)
        self._execution = execution

    def __call__(self, message: object, *args: object) -> None:
        # One frame more, so that records name the line of the author's code.
        self.info(message, *args, stacklevel=2)

    def isEnabledFor(self, level: int) -> bool:
        return not self._execution.replaying and not self._execution.loop.is_closed() and super().isEnabledFor(level)
