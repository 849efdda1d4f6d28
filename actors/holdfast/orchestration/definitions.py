"""The declarations of orchestrations and activities."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

from holdfast.orchestration.boxes import Boxes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.orchestration.core.payloads import Codec

ACTIVITIES = "activities"

#: The attribute of a decorated function that holds its definition. The function itself is not wrapped.
_MARK = "__holdfast_definition__"


class _Typed:
    """The types of a function's input and result, resolved at first use: they may be declared further down."""

    function: Callable[..., Any]
    _leading: int

    @cached_property
    def parameter(self) -> inspect.Parameter | None:
        """The parameter that takes the input."""
        return next(iter(_parameters(self.function)[self._leading :]), None)

    @cached_property
    def input(self) -> Codec:
        from holdfast.orchestration.core.payloads import codec

        if self.parameter is None:
            return codec(None)
        declared = self._hints.get(self.parameter.name, Any)
        # A parameter with a default allows a missing input, which is sent as null.
        return codec(declared | None if self._has_default and declared is not Any else declared)

    @cached_property
    def result(self) -> Codec:
        from holdfast.orchestration.core.payloads import codec

        return codec(self._hints.get("return", Any))

    def arguments(self, text: str) -> tuple[Any, ...]:
        """Returns the arguments of the function. Raises pydantic's ValidationError when ``text`` does not fit."""
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
    mailboxes: Boxes = field(default_factory=Boxes)
    requests: Boxes = field(default_factory=Boxes)
    timeout_seconds: float | None = None
    retention_seconds: float | None = None

    _leading = 1

    def __post_init__(self) -> None:
        if not inspect.iscoroutinefunction(self.function):
            raise TypeError(f"the orchestration {self.name} must be an async function")
        _check_parameters(self.function, self.name, 1, "a context and at most one input")
        _check_seconds(self.timeout_seconds, f"timeout_seconds of {self.name}")
        _check_seconds(self.retention_seconds, f"retention_seconds of {self.name}")
        _mark(self.function, self)

    def deadline(self, begin: float) -> float | None:
        """Returns when an instance that begins at ``begin`` has to have ended; None for no limit."""
        return None if self.timeout_seconds is None else begin + self.timeout_seconds


@dataclass(frozen=True, eq=False)
class Activity(_Typed):
    """A function, async or not, that takes at most one input and may have side effects."""

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
    """Resolves the types of a nested function now, while the local names they use are available."""
    if "<locals>" in definition.function.__qualname__:
        vars(definition)["_hints"] = _hints(definition.function, definition._leading, local_names)


def definition_of(function: object) -> Orchestration | Activity | None:
    return getattr(function, _MARK, None)


def _hints(function: Callable[..., Any], leading: int, local_names: Mapping[str, Any]) -> dict[str, Any]:
    # Only the input and the result: the type of the context is often imported under TYPE_CHECKING.
    names = {parameter.name for parameter in _parameters(function)[leading : leading + 1]} | {"return"}
    wanted = {name: declared for name, declared in function.__annotations__.items() if name in names}
    holder = type("Holder", (), {"__annotations__": wanted})
    return get_type_hints(holder, function.__globals__, dict(local_names), include_extras=True)


def _mark(function: Callable[..., Any], definition: Orchestration | Activity) -> None:
    setattr(function, _MARK, definition)


def _check_seconds(seconds: float | None, what: str) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"{what}: has to be a positive number of seconds")


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
        raise TypeError(f"{name} must take {takes}; pass several values as one model, dataclass or dict")
