"""Makes the synchronous twin of an asynchronous method, with its name, signature and documentation."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from holdfast.client.sync.loop_thread import LoopThread

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Handle(Protocol):
    """Has the asynchronous object whose methods it calls, and the thread in which they run."""

    @property
    def _thread(self) -> LoopThread: ...
    @property
    def _twin(self) -> Any: ...


def twin(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]], *, reads: str | None = None
) -> Callable[Concatenate[Handle, Parameters], Result]:
    """Returns a method that calls ``method`` of the handle's twin in the client's thread.

    ``reads`` names the first parameter if it is an iterable of the caller. It is read in the caller's thread: it may
    be lazy, as a query of Django, whose connection belongs to that thread.
    """

    @functools.wraps(method)
    def call(handle: Handle, /, *args: Any, **kwargs: Any) -> Result:
        if reads is not None:
            if args:
                args = (_listed(args[0]), *args[1:])
            elif reads in kwargs:
                kwargs[reads] = _listed(kwargs[reads])
        return handle._thread.call(lambda: method(handle._twin, *args, **kwargs))

    return cast("Callable[Concatenate[Handle, Parameters], Result]", call)


def iterating_twin(
    method: Callable[Concatenate[Any, Parameters], AsyncIterator[Result]],
) -> Callable[Concatenate[Handle, Parameters], Iterator[Result]]:
    """Returns a method that iterates in the caller's thread over the results of ``method``."""

    @functools.wraps(method)
    def call(handle: Handle, /, *args: Any, **kwargs: Any) -> Iterator[Result]:
        return iterate(handle._thread, method(handle._twin, *args, **kwargs))

    return cast("Callable[Concatenate[Handle, Parameters], Iterator[Result]]", call)


def iterate(thread: LoopThread, results: AsyncIterator[Result]) -> Iterator[Result]:
    async def following() -> tuple[Result, ...]:
        async for result in results:
            return (result,)
        return ()

    while found := thread.call(following):
        yield found[0]


def _listed(given: Any) -> Any:
    return None if given is None else list(given)
