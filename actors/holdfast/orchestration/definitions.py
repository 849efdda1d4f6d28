"""Orchestrations and activities as their authors declared them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.orchestration.payloads import Codec

ACTIVITIES = "activities"

#: Where a decorated function carries its definition: it stays the function its author wrote.
_MARK = "__holdfast_definition__"


class _Typed:
    """The types of a function's input and result, read when first needed: they may be declared further down."""

    function: Callable[..., Any]
    _leading: int

    @cached_property
    def parameter(self) -> inspect.Parameter | None:
        """The one that takes the input."""
        return next(iter(_parameters(self.function)[self._leading :]), None)

    @cached_property
    def input(self) -> Codec:
        from holdfast.orchestration.payloads import codec

        if self.parameter is None:
            return codec(None)
        declared = self._hints.get(self.parameter.name, Any)
        # With a default the input may be left out, which is null on its way.
        return codec(declared | None if self._has_default and declared is not Any else declared)

    @cached_property
    def result(self) -> Codec:
        from holdfast.orchestration.payloads import codec

        return codec(self._hints.get("return", Any))

    def arguments(self, text: str) -> tuple[Any, ...]:
        """What the function is called with; raises pydantic's ValidationError."""
        value = self.input.load(text)
        if self.parameter is None or (value is None and self._has_default):
            return ()
        return (value,)

    @property
    def _has_default(self) -> bool:
        return self.parameter is not None and self.parameter.default is not inspect.Parameter.empty

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return _hints(self.function, self._leading, {})


@dataclass(frozen=True, eq=False)
class Orchestration(_Typed):
    """An ``async def`` that takes a context and at most one input."""

    name: str
    function: Callable[..., Any]
    version: str = "1"
    mailboxes: frozenset[str] = frozenset()

    _leading = 1

    def __post_init__(self) -> None:
        if not inspect.iscoroutinefunction(self.function):
            raise TypeError(f"the orchestration {self.name} has to be an async function")
        _check_parameters(self.function, self.name, 1, "a context and at most one input")
        _mark(self.function, self)


@dataclass(frozen=True, eq=False)
class Activity(_Typed):
    """A function, async or not, that takes at most one input, and may do anything."""

    name: str
    function: Callable[..., Any]
    queue: str = ACTIVITIES
    lock_seconds: int = 30
    timeout: float | None = None
    max_deliveries: int | None = None
    idempotent: bool = False

    _leading = 0

    def __post_init__(self) -> None:
        _check_parameters(self.function, self.name, 0, "at most one input")
        _mark(self.function, self)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


def resolve_local_types(definition: Orchestration | Activity, local_names: Mapping[str, Any]) -> None:
    """Reads the types of a function inside a function now: later the names in there are gone."""
    if "<locals>" in definition.function.__qualname__:
        vars(definition)["_hints"] = _hints(definition.function, definition._leading, local_names)


def definition_of(function: object) -> Orchestration | Activity | None:
    return getattr(function, _MARK, None)


def _hints(function: Callable[..., Any], leading: int, local_names: Mapping[str, Any]) -> dict[str, Any]:
    # Only of what is read and written: the context's type is often imported for type checkers alone.
    names = {parameter.name for parameter in _parameters(function)[leading : leading + 1]} | {"return"}
    wanted = {name: declared for name, declared in function.__annotations__.items() if name in names}
    holder = type("Holder", (), {"__annotations__": wanted})
    return get_type_hints(holder, function.__globals__, dict(local_names), include_extras=True)


def _mark(function: Callable[..., Any], definition: Orchestration | Activity) -> None:
    setattr(function, _MARK, definition)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]


def _check_parameters(function: Callable[..., Any], name: str, leading: int, takes: str) -> None:
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    by_name = [parameter for parameter in needed if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    if by_name or len(needed) > leading + 1 or len(_parameters(function)) < leading:
        raise TypeError(f"{name} has to take {takes}; several values go into one as a model, a dataclass or a dict")
