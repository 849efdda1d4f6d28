"""The model: a program on ordinary asyncio, whose waiting takes no time."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

from holdfast.orchestration.loop.ordered_tasks import OrderedTask, OrderingLoop
from holdfast.orchestration.loop.step_patches import begin_step, end_step
from holdfast.runtime.simulated.loop import Deadlock, VirtualTimeLoop
from tests.properties.orchestrations.interpreter import Boom, Run
from tests.properties.orchestrations.programs import EVENTS, MAILBOX, REQUEST

if TYPE_CHECKING:
    from tests.properties.orchestrations.programs import Call, Program

#: What a program comes to that waits for what never happens.
WAITS = "waits"
CANCELLED = "cancelled"

#: Rounds of the loop after which nothing is ready that takes no time.
SETTLED = 100


class OrderedLoop(VirtualTimeLoop, OrderingLoop):
    """asyncio's own loop, but tasks are numbered: for sets of them, and for many more things, it promises no order."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = 0
        self.tasks: list[asyncio.Task[Any]] = []

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def live_tasks(self) -> list[asyncio.Task[Any]]:
        return [task for task in self.tasks if not task.done()]

    def number_tasks(self) -> None:
        self.set_task_factory(self._numbered)

    def _numbered(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = OrderedTask(coro, loop=self, **options)
        self.tasks.append(task)
        return task


class Model:
    """Activities are sleeps, events are futures, the mailbox is a queue."""

    def __init__(self, tags: tuple[tuple[str, str], ...]) -> None:
        self.tags = dict(tags)
        self._waiting: dict[str, deque[asyncio.Future[str]]] = {name: deque() for name in EVENTS}
        self._mail: asyncio.Queue[str] = asyncio.Queue()
        self._requests: asyncio.Queue[str] = asyncio.Queue()
        self._raised = 0

    async def call(self, call: Call) -> str:
        for attempt in range(1, call.attempts + 1):
            await asyncio.sleep(call.seconds)
            if attempt > call.failures:
                return call.label
            if attempt < call.attempts:
                await asyncio.sleep(retry_delay(attempt))
        raise Boom(call.label)

    async def event(self, name: str) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[name].append(future)
        return await future

    async def receive(self) -> str:
        return await self._mail.get()

    async def answer(self) -> str:
        return await self._requests.get()

    def set_tag(self, key: str, value: str | None) -> None:
        self.tags.pop(key, None)
        if value is not None:
            self.tags[key] = value

    def patched(self, name: str) -> bool:
        return True

    def raise_event(self, name: str) -> None:
        self._raised += 1
        self.deliver(name, str(self._raised))

    def deliver(self, name: str, data: str) -> None:
        if name == REQUEST:
            self._requests.put_nowait(data)
            return
        if name == MAILBOX:
            self._mail.put_nowait(data)
            return
        waiting = self._waiting[name]
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(data)
                return


class End(BaseException):
    """The program is over, and what it left is not waited for."""


def _end(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coro: Any = task.get_coro()
    with catch_warnings(action="ignore"), suppress(BaseException):
        for _ in range(100):
            coro.throw(End())


def retry_delay(attempt: int) -> float:
    return 0.77 * 1.3 ** (attempt - 1)


def outcome_on_asyncio(program: Program) -> Any:
    """The outcome, the notes and the tags; :data:`WAITS` or :data:`CANCELLED` when that is how it ended."""

    async def begin(model: Model) -> list[Any]:
        if program.start_at is not None:
            await asyncio.sleep(program.start_at)
        return await Run(model).whole(program.body)

    async def settle() -> None:
        for _ in range(SETTLED):
            await asyncio.sleep(0)

    async def main() -> Any:
        outcome: Any
        model = Model(program.tags)
        loop.number_tasks()
        task = asyncio.create_task(begin(model))
        for moment, name in program.raised:
            loop.call_at(moment, model.raise_event, name)
        if program.cancelled_at is not None:
            loop.call_at(program.cancelled_at, task.cancel)
        if program.event is not None:
            await settle()
            in_first_step = task.done()
            if not in_first_step:
                model.deliver(program.event, "0")
        outcome = CANCELLED
        with suppress(asyncio.CancelledError):
            outcome = await task
        # As asyncio.run does, but when all that can run at this moment has run.
        await settle()
        leftovers = [leftover for leftover in loop.tasks if not leftover.done()]
        for leftover in leftovers:
            leftover.cancel()
        if program.event is not None and in_first_step:
            await settle()
            model.deliver(program.event, "0")
        if program.cancelled_at is not None and loop.time() < program.cancelled_at:
            loop.call_at(program.cancelled_at, lambda: [leftover.cancel() for leftover in leftovers])
        await asyncio.gather(*leftovers, return_exceptions=True)
        return outcome if outcome is CANCELLED else [*outcome, model.tags]

    loop = OrderedLoop()
    loop.set_exception_handler(lambda *_: None)
    begin_step()
    try:
        return loop.run_until_complete(main())
    except Deadlock:
        return WAITS
    finally:
        for task in asyncio.all_tasks(loop):
            _end(task)
        loop.close()
        end_step()
