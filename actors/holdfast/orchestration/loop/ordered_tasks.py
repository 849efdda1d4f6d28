"""Tasks and futures whose order in a set is the same in every process.

asyncio keeps futures in sets (``wait``, ``as_completed``, ``TaskGroup``), and iterates over them to add callbacks and
to cancel. The order of a set depends on the hashes of its elements, and the hash of a future is its address. Here the
hash is a number from the future's loop, so that the order is the same whenever the same code runs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Result = TypeVar("Result")


class OrderingLoop(asyncio.AbstractEventLoop):
    """A loop whose tasks and futures are numbered. On all other loops asyncio behaves as usual."""

    def next_number(self) -> int:
        raise NotImplementedError

    def live_tasks(self) -> Sequence[asyncio.Task[Any]]:
        """Returns the tasks that have not ended, in the order of creation."""
        raise NotImplementedError


_Gathering: Any = asyncio.tasks._GatheringFuture  # type: ignore[attr-defined]


class _Ordered:
    """Hashed by a number that the loop assigns at first use."""

    def __hash__(self) -> int:
        try:
            return self._holdfast_number
        except AttributeError:
            # First used in the constructor of a task, which adds it to the set of all tasks.
            loop = self.get_loop()  # type: ignore[attr-defined]
            self._holdfast_number: int = loop.next_number() if isinstance(loop, OrderingLoop) else object.__hash__(self)
            return self._holdfast_number


class OrderedFuture(_Ordered, asyncio.Future[Result], Generic[Result]):
    """The result of ``loop.create_future``."""


class OrderedTask(_Ordered, asyncio.Task[Result], Generic[Result]):
    """The result of ``create_task``."""


class _OrderedGathering(_Ordered, _Gathering):  # type: ignore[misc]
    """The result of ``gather``."""


class Promise(OrderedFuture[str]):
    """A future that only events of the history resolve. Calls ``on_withdrawal`` when it is cancelled."""

    on_withdrawal: Callable[[], None] | None = None

    def resolve(self, answer: Any) -> None:
        """Sets the result."""
        self.set_result(answer)
        self.release()

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        if self.on_withdrawal is not None:
            self.on_withdrawal()
        self.release()
        return True

    def release(self) -> None:
        """Drops ``on_withdrawal``, which refers back to the promise: without it the cycle is left to the collector."""
        self.on_withdrawal = None


class _ByLoop(type):
    """The metaclass of replacements of asyncio's classes, which create numbered objects on loops of orchestrations."""

    _plain: type

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if "_plain" not in cls.__dict__:
            # A subclass defined by an orchestration.
            return super().__call__(*args, **options)
        loop = options.get("loop")
        if loop is None:
            loop = asyncio._get_running_loop()
        if not isinstance(loop, OrderingLoop):
            return cls._plain(*args, **options)
        options.pop("loop", None)
        return cls._make(loop, *args, **options)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._plain) if "_plain" in cls.__dict__ else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._plain) if "_plain" in cls.__dict__ else super().__subclasscheck__(subclass)


class _AnyFuture(OrderedFuture[Any], metaclass=_ByLoop):
    """The replacement of ``asyncio.Future`` while a step runs."""

    _plain = asyncio.Future

    @staticmethod
    def _make(loop: asyncio.AbstractEventLoop, *args: Any, **options: Any) -> Any:
        return OrderedFuture(*args, loop=loop, **options)


class _AnyTask(OrderedTask[Any], metaclass=_ByLoop):
    """The replacement of ``asyncio.Task`` while a step runs."""

    _plain = asyncio.Task

    @staticmethod
    def _make(loop: asyncio.AbstractEventLoop, *args: Any, **options: Any) -> Any:
        return loop.create_task(*args, **options)


# Give the classes the names that asyncio shows for its own.
_SHOWN: dict[str, tuple[type, ...]] = {
    "Future": (OrderedFuture, Promise, _AnyFuture),
    "Task": (OrderedTask, _AnyTask),
    "_GatheringFuture": (_OrderedGathering,),
}
for _name, _classes in _SHOWN.items():
    for _class in _classes:
        _class.__name__ = _class.__qualname__ = _name

_all_tasks_of_any_loop = asyncio.all_tasks


def _all_tasks(loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
    # asyncio selects from the set of the tasks of all loops, whose order depends on the tasks of other loops.
    which = asyncio.get_running_loop() if loop is None else loop
    return set(which.live_tasks()) if isinstance(which, OrderingLoop) else _all_tasks_of_any_loop(loop)


def _distinct(items: Iterable[Any] | None = None) -> Any:
    if items is None:
        return set()
    return dict.fromkeys(items) if isinstance(asyncio._get_running_loop(), OrderingLoop) else set(items)


#: The replacements of names of asyncio while a step runs. On loops of other threads they behave as usual.
NAMES: list[tuple[dict[str, Any], str, Any]] = [
    (vars(asyncio), "Future", _AnyFuture),
    (vars(asyncio), "Task", _AnyTask),
    (vars(asyncio), "all_tasks", _all_tasks),
    (vars(asyncio.tasks), "all_tasks", _all_tasks),
    (vars(asyncio.tasks), "_GatheringFuture", _OrderedGathering),
    # Up to and including Python 3.14, wait() and as_completed() call set() on their argument, which may contain
    # coroutines, whose hashes are addresses. The name is looked up in the module each time, and both functions only use
    # the length and the iteration order of the result.
    (vars(asyncio.tasks), "set", _distinct),
]
